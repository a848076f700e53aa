"""Small language models trained here from nothing, so that all they have read is known.

family        word problems that a small model can learn, without end, and held-out ones
vocabulary    a tokenizer of whole words and numbers for them
pretraining   a Llama of some million parameters, trained on such problems under one condition; resumable
"""
