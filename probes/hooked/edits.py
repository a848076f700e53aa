"""How are many interventions run at once? One forward for a chunk of them, each on its own copy of the batch.

An edit says which activations it replaces in one run. Until the layer where it begins its run is the unchanged one,
so its copy is made there: at that layer's `hook_resid_pre` the unchanged batch, which goes along as long as it is
needed, is repeated for each edit that begins. The inputs are repeated instead for the first layer, and for any layer
of a bridge to Hugging Face (whose masks are those of the batch that came in) and of a model that is no bridge (which
may read several layers at the end, all of one batch). The results are those of one run per edit, to rounding.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from probes.hooked.points import Hooked, Hooks

BATCH_SIZE = 256
"""Inputs per forward, copies included: on a CPU larger activations are slower than more forwards."""

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
    batch_size: int = BATCH_SIZE,
) -> Float[Tensor, "edit batch step"]:
    """What `read` finds under each edit."""
    if not edits:
        raise ValueError("no edit arrived; expected at least one intervention to run")
    found: dict[int, Tensor] = {}
    at_once = max(1, batch_size // len(inputs))
    order = sorted(range(len(edits)), key=lambda index: edits[index].layer)
    for start in range(0, len(edits), at_once):
        chunk = order[start : start + at_once]
        output = _forward(model, inputs, [edits[index] for index in chunk])
        for index, part in zip(chunk, output.split(len(inputs)), strict=True):
            found[index] = read(part)
    return torch.stack([found[index] for index in range(len(edits))])


def _forward(model: Hooked, inputs: Tensor, edits: Sequence[Edit]) -> Tensor:
    """The model's output for every edit in turn, along the batch; `edits` ascend by layer.

    At every moment the batch holds a copy for each edit that has begun, then the unchanged one if it is still needed.
    """
    size = len(inputs)
    begins = [edit.layer if _grows(model, edit.layer) else 0 for edit in edits]
    hooks: Hooks = []
    for layer in sorted(set(begins) - {0}):
        copies = begins.count(layer) + (layer < begins[-1])
        hooks.append((_entrance(layer), lambda resid, hook, copies=copies: _grown(resid, size, copies)))
    for name in dict.fromkeys(name for edit in edits for name in edit.changes):
        changes = [edit.changes.get(name) for edit in edits]
        hooks.append((name, lambda activation, hook, changes=changes: _changed(activation, size, changes)))
    copies = begins.count(0) + (begins[-1] > 0)
    return model.run_with_hooks(_grown(inputs, size, copies), fwd_hooks=hooks)


def _grows(model: Hooked, layer: int) -> bool:
    from transformer_lens.model_bridge import TransformerBridge

    native = isinstance(model, TransformerBridge) and model.cfg.architecture == "TransformerLensNative"
    return native and _entrance(layer) in model.hook_dict


def _entrance(layer: int) -> str:
    return f"blocks.{layer}.hook_resid_pre"


def _grown(batch: Tensor, size: int, copies: int) -> Tensor:
    """`batch` with its last `size` rows, the unchanged ones, `copies` times."""

    last = batch[-size:]
    return torch.cat([batch[:-size], last.repeat(copies, *([1] * (batch.ndim - 1)))])


def _changed(activation: Tensor, size: int, changes: Sequence[Change | None]) -> Tensor:
    """Each edit's copy changed; edits that have not begun have no copy yet, and no change here."""
    parts = activation.split(size)
    return torch.cat([part if change is None else change(part) for part, change in zip(parts, changes)])
