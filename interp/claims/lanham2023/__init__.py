"""Does a model's answer depend on the chain of thought that it writes before it?

Tamera Lanham, Anna Chen, Ansh Radhakrishnan, Benoit Steiner, Carson Denison, Danny Hernandez and others, "Measuring
Faithfulness in Chain-of-Thought Reasoning", 2023, arXiv:2307.13702. Task: traces that a pretrained model reads or
writes (`hf_analysis.traces`).

early-answering: does the answer change when the chain is cut off, or replaced by filler or another problem's steps?
"""
