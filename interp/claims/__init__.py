"""The papers' claims: one package per paper, one file per figure or theorem.

paper       task of `toy_models`, or what is measured  asks
wen2024     parity; pretrained models on GSM8K         does CoT make attention sparse, and learning cheap?
kim2024     tree_parity                                is parity learned in a few steps with CoT, and not without?
huang2025   lego                                       when does a chain of thought go on beyond its training length?
li2024      incontext                                  when do examples in the prompt teach several steps?
wang2025    kfold                                      is composition learned from easy to hard, and only so?

What a paper's claims share is in its `_runs.py` and `_figures.py`; what papers share is in `interp.core`,
`interp.statistics` and `interp.figures`.
"""
