"""Which input differs in one dependency alone? Clean and corrupted pairs of any task, from its dependency mask."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from probes.attention.dependence import without_self
from toy_models.task import Batch, Task


@dataclass(frozen=True)
class Pairs:
    """Inputs and their corrupted twins: one token changed, the targets solved anew from the tokens as they stand."""

    clean: Batch
    corrupted: Batch
    query: int
    """The step whose answer was asked to change."""
    key: Int[Tensor, "batch"]
    """The position of the changed token in each input."""
    changed: Bool[Tensor, "batch"]
    """Whether the step's answer is another one now."""


def corrupted_pairs(task: Task, batch: Batch, query: int, generator: torch.Generator) -> Pairs:
    """For each input one of the other positions that step `query` depends on, with another token there.

    A position is drawn uniformly from the mask's row without the query's own, the token uniformly from the others.
    """
    inputs = batch.inputs
    if inputs.ndim != 2 or inputs.is_floating_point():
        raise ValueError(f"corrupted pairs need tokens, got inputs of shape {tuple(inputs.shape)} and {inputs.dtype}")
    needed = without_self(task.dependencies(batch))[:, query].cpu()
    if not bool(needed.any(-1).all()):
        raise ValueError(f"position {query} depends on no other position in some inputs; choose a supervised step")
    key = torch.multinomial(needed.double(), 1, generator=generator).to(inputs.device)
    shift = torch.randint(1, task.d_vocab, (len(batch), 1), generator=generator).to(inputs.device)
    tokens = inputs.scatter(1, key, (inputs.gather(1, key) + shift) % task.d_vocab)
    corrupted = Batch(tokens, task.solve(tokens))
    return Pairs(
        clean=batch,
        corrupted=corrupted,
        query=query,
        key=key.squeeze(-1),
        changed=corrupted.targets[:, query] != batch.targets[:, query],
    )
