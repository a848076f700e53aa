"""Which thresholds do wang2025's parts share, and why?"""

MOST = 0.5
"""The share of seeds in which a statement about training as such must hold."""
WHY_MOST = "claimed of training as such, so the least that it can mean: in most runs"
AT_CHANCE = 0.1
"""An accuracy less than this above guessing, 1/N, counts as nothing learned: 0.3 for N = 5."""
NO_LOSS = 0.1
"""The loss, in nats, that counts as zero; guessing has log 5 = 1.6, one-hot logits of size 1 have 0.9."""
