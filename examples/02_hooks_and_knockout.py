"""Does a step use what it attends to? Hide the keys that it needs, and beside it as many random ones."""

import torch

from probes import without_self
from probes.hooked.causal import random_keys, without_keys
from toy_models import DecoderConfig, Parity, TrainConfig, train

task = Parity(n=12, k=2)
result = train(task, DecoderConfig(), TrainConfig(batch_size=128, budget=150_000, n_validation=512, n_test=512))
model, batch = result.model, result.test
needed = without_self(task.dependencies(batch))
seen = torch.ones(task.n_ctx, task.n_ctx, dtype=torch.bool).tril()
others = random_keys(needed, seen.expand_as(needed), torch.Generator().manual_seed(0))


def accuracy(hidden=None) -> list[float]:
    """The share of right answers at each step, with some keys hidden from their queries."""
    hooks = [] if hidden is None else [("blocks.0.attn.hook_pattern", lambda p, hook: without_keys(p, hidden))]
    logits = model.run_with_hooks(batch.inputs, fwd_hooks=hooks)
    right = logits[:, batch.supervised].argmax(-1) == batch.answers
    return [round(share, 3) for share in right.float().mean(0).tolist()]


print("intact:               ", accuracy())
print("needed keys hidden:   ", accuracy(needed))
print("as many others hidden:", accuracy(others))
