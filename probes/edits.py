"""How are many interventions run at once? One forward for a chunk of them, each on its own copy of the batch.

An edit says which activations it replaces in one run. Edits that begin at the same layer share everything below it:
the batch runs once up to that layer's `hook_resid_pre`, where it is repeated for each edit. A model without that hook
point gets its inputs repeated instead. The results are those of one run per edit, to rounding.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from probes.hooked import Hooked

ROWS = 2048
"""Inputs per forward, copies included: bounds the memory and keeps it near the processor."""

Change = Callable[[Tensor], Tensor]
"""From the batch's activation to what replaces it; it must not write into its argument."""
Read = Callable[[Tensor], Tensor]
"""From the model's output for the batch to one number for each input and step, [batch step]."""


@dataclass(frozen=True)
class Edit:
    """One intervention: changes by hook point, none of them below block `layer`."""

    layer: int
    changes: Mapping[str, Change]


@torch.no_grad()
def run_edits(
    model: Hooked,
    inputs: Shaped[Tensor, "batch *input"],
    read: Read,
    edits: Sequence[Edit],
    rows: int = ROWS,
) -> Float[Tensor, "edit batch step"]:
    """What `read` finds under each edit."""
    if not edits:
        raise ValueError("no edit arrived; expected at least one intervention to run")
    found: dict[int, Tensor] = {}
    at_once = max(1, rows // len(inputs))
    for layer in sorted({edit.layer for edit in edits}):
        here = [index for index, edit in enumerate(edits) if edit.layer == layer]
        for start in range(0, len(here), at_once):
            chunk = here[start : start + at_once]
            output = _forward(model, inputs, [edits[index] for index in chunk], layer)
            for index, part in zip(chunk, output.split(len(inputs)), strict=True):
                found[index] = read(part)
    return torch.stack([found[index] for index in range(len(edits))])


def _forward(model: Hooked, inputs: Tensor, edits: Sequence[Edit], layer: int) -> Tensor:
    """The model's output for every edit in turn, along the batch."""
    entrance = f"blocks.{layer}.hook_resid_pre"
    hooks: list[tuple[str, Callable]] = []
    if len(edits) > 1 and entrance in model.hook_dict:
        hooks.append((entrance, lambda resid, hook: _repeated(resid, len(edits))))
    else:
        inputs = _repeated(inputs, len(edits))
    for name in dict.fromkeys(name for edit in edits for name in edit.changes):
        changes = [edit.changes.get(name) for edit in edits]
        hooks.append((name, lambda activation, hook, changes=changes: _changed(activation, changes)))
    return model.run_with_hooks(inputs, fwd_hooks=hooks)


def _repeated(batch: Tensor, times: int) -> Tensor:
    return batch.repeat(times, *([1] * (batch.ndim - 1)))


def _changed(activation: Tensor, changes: Sequence[Change | None]) -> Tensor:
    parts = activation.chunk(len(changes))
    return torch.cat([part if change is None else change(part) for part, change in zip(parts, changes, strict=True)])
