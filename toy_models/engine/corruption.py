"""Which input differs in one dependency alone? Clean and corrupted pairs of any task, from its dependency mask."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from probes.attention.dependence import without_self
from toy_models.task import Batch, Task


@dataclass(frozen=True)
class Pairs:
    """Inputs and their corrupted twins: one position changed, the targets solved anew from what stands there now."""

    clean: Batch
    corrupted: Batch
    query: int
    """The step whose answer was asked to change."""
    key: Int[Tensor, "batch"]
    """The changed position in each input."""
    changed: Bool[Tensor, "batch"]
    """Whether the step's answer is another one now."""


def corrupted_pairs(task: Task, batch: Batch, query: int, generator: torch.Generator) -> Pairs:
    """For each input one of the other positions that step `query` depends on, with something else there.

    A position is drawn uniformly from the mask's row without the query's own. A token is replaced by one drawn
    uniformly from the others; what is no token (a clause, a column of vectors) by what another input has there.
    """
    inputs = batch.inputs
    needed = without_self(task.dependencies(batch))[:, query].cpu()
    if not bool(needed.any(-1).all()):
        raise ValueError(f"position {query} depends on no other position in some inputs; choose a supervised step")
    key = torch.multinomial(needed.double(), 1, generator=generator).to(inputs.device)
    if inputs.ndim == 2 and not inputs.is_floating_point():
        shift = torch.randint(1, task.d_vocab, (len(batch), 1), generator=generator).to(inputs.device)
        changed = inputs.scatter(1, key, (inputs.gather(1, key) + shift) % task.d_vocab)
    else:
        changed = _exchanged(inputs, key.squeeze(-1), generator)
    corrupted = Batch(changed, task.solve(changed).to(inputs.device))
    return Pairs(
        clean=batch,
        corrupted=corrupted,
        query=query,
        key=key.squeeze(-1),
        changed=corrupted.targets[:, query] != batch.targets[:, query],
    )


def _exchanged(
    inputs: Shaped[Tensor, "batch pos *features"], key: Int[Tensor, "batch"], generator: torch.Generator
) -> Shaped[Tensor, "batch pos *features"]:
    """The inputs with what another one has at the position `key`: the next, from a drawn one on, that differs there.

    An input stays as it is if all others have the same there.
    """
    size = len(inputs)
    if size < 2:
        raise ValueError("one input arrived; what stands at a position is taken from another one: give at least two")
    row = torch.arange(size, device=inputs.device)
    start = torch.randint(1, size, (size,), generator=generator).to(inputs.device)
    others = (row[:, None] + (start[:, None] + row - 1) % (size - 1) + 1) % size  # [input turn], all but itself first
    there = inputs[others, key[:, None]].flatten(2)
    differs = (there != inputs[row, key].flatten(1)[:, None]).any(-1)
    other = others.gather(1, differs.int().argmax(1, keepdim=True)).squeeze(1)
    changed = inputs.clone()
    changed[row, key] = inputs[other, key]
    return changed
