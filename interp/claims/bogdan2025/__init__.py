"""Which sentences of a reasoning trace matter, and which attention heads look back at them?

Paul C. Bogdan, Uzay Macar, Neel Nanda and Arthur Conmy, "Thought Anchors: Which LLM Reasoning Steps Matter?", 2025,
arXiv:2506.19143. Task: traces that a pretrained model reads or writes (`hf_analysis.traces`).

receiver-heads: do some heads single out sentences, beyond their place, their length and chance, in trace after trace?
attention-predicts-suppression: does what they look at change later sentences when it is hidden?
"""
