"""Does the model use what it attends to? Knockouts, ablations and patches of a hooked model, batched over heads.

Every function returns what `read` finds for each input and step under each intervention, such as the margin of the
right answer; the effect is the difference from the run without it (`unchanged`). Intervals and corrections over heads
are for whoever judges: inputs of one model are not replications of a claim about training.
"""

from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from probes.hooked.edits import BATCH_SIZE, Edit, Read, run_edits
from probes.hooked.points import Hooked, captured, n_heads, n_layers, pattern_name, z_name


def answer_margin(
    logits: Float[Tensor, "batch step vocab"], answers: Int[Tensor, "batch step"]
) -> Float[Tensor, "batch step"]:
    """The answer's logit minus the largest other: positive exactly if the answer is predicted (a tie is not)."""
    right = logits.gather(-1, answers[..., None])
    others = logits.scatter(-1, answers[..., None], -torch.inf)
    return right.squeeze(-1) - others.amax(-1)


@torch.no_grad()
def unchanged(model: Hooked, inputs: Shaped[Tensor, "batch *input"], read: Read) -> Float[Tensor, "batch step"]:
    """What `read` finds without an intervention."""
    return read(model.run_with_hooks(inputs, fwd_hooks=[]))


def without_keys(
    pattern: Float[Tensor, "batch head query key"], keys: Bool[Tensor, "batch query key"], head: int | None = None
) -> Float[Tensor, "batch head query key"]:
    """Attention with the weights on `keys` set to zero and each row renormalised, in one head or in all.

    A row with no other weight becomes zero: that head then reads nothing. Rows without a key to hide stay the same.
    """
    kept = pattern.masked_fill(rearrange(keys, "batch query key -> batch 1 query key"), 0)
    total = kept.sum(-1, keepdim=True)
    hidden = rearrange(keys.any(-1), "batch query -> batch 1 query 1")
    renormalised = torch.where(hidden, kept / total.where(total > 0, 1), pattern)
    if head is None:
        return renormalised
    chosen = torch.arange(pattern.shape[1], device=pattern.device) == head
    return torch.where(chosen[:, None, None], renormalised, pattern)


def knock_out(
    model: Hooked,
    inputs: Shaped[Tensor, "batch *input"],
    read: Read,
    keys: Bool[Tensor, "knockout batch query key"],
    batch_size: int = BATCH_SIZE,
) -> Float[Tensor, "knockout batch step"]:
    """Each knockout hides `keys` from their queries in every head of every layer."""
    names = [pattern_name(layer) for layer in range(n_layers(model))]
    edits = [
        Edit(0, {name: lambda pattern, hidden=hidden: without_keys(pattern, hidden) for name in names})
        for hidden in keys
    ]
    return run_edits(model, inputs, read, edits, batch_size)


def knock_out_by_head(
    model: Hooked,
    inputs: Shaped[Tensor, "batch *input"],
    read: Read,
    keys: Bool[Tensor, "batch query key"],
    batch_size: int = BATCH_SIZE,
) -> Float[Tensor, "head batch step"]:
    """`keys` hidden in one head at a time; heads of all layers in order (`head_places`)."""
    edits = [
        Edit(layer, {pattern_name(layer): lambda pattern, head=head: without_keys(pattern, keys, head)})
        for layer, head in head_places(model)
    ]
    return run_edits(model, inputs, read, edits, batch_size)


def random_keys(
    keys: Bool[Tensor, "batch query key"],
    eligible: Bool[Tensor, "#batch query key"],
    generator: torch.Generator,
) -> Bool[Tensor, "batch query key"]:
    """For each query as many keys as `keys` has, drawn from its other `eligible` ones."""
    allowed = eligible & ~keys
    wanted, room = keys.sum(-1), allowed.sum(-1)
    if bool((wanted > room).any()):
        raise ValueError(
            f"a query has {int(room[wanted > room].min())} other keys to hide instead of its own; "
            "choose later queries or hide fewer keys"
        )
    noise = torch.rand(keys.shape, generator=generator).to(keys.device).masked_fill(~allowed, -1)
    rank = noise.argsort(-1, descending=True).argsort(-1)
    return rank < wanted[..., None]


def ablate_heads(
    model: Hooked,
    inputs: Shaped[Tensor, "batch *input"],
    read: Read,
    kind: Literal["mean", "resample"],
    generator: torch.Generator,
    batch_size: int = BATCH_SIZE,
) -> Float[Tensor, "head batch step"]:
    """One head's output replaced by its mean over the batch at each position, or by that of another input.

    Resampling takes the next input of one random cycle through the batch, so no input keeps its own.
    """
    if kind not in ("mean", "resample"):
        raise ValueError(f"unknown kind {kind!r} of ablation; expected 'mean' or 'resample'")
    if len(inputs) < 2:
        raise ValueError(
            f"{len(inputs)} input arrived; a head's output is replaced by that of others: give 2 or more"
        )
    order = torch.randperm(len(inputs), generator=generator).to(inputs.device)
    other = torch.empty_like(order)
    other[order] = order.roll(1)

    def ablated(output: Tensor, head: int) -> Tensor:
        source = output.mean(0, keepdim=True).expand_as(output) if kind == "mean" else output[other]
        return _with_head(output, source, head)

    edits = [
        Edit(layer, {z_name(layer): lambda output, head=head: ablated(output, head)})
        for layer, head in head_places(model)
    ]
    return run_edits(model, inputs, read, edits, batch_size)


def patch_heads(
    model: Hooked,
    inputs: Shaped[Tensor, "batch *input"],
    source: Shaped[Tensor, "batch *input"],
    read: Read,
    batch_size: int = BATCH_SIZE,
) -> Float[Tensor, "head batch step"]:
    """One head's output at all positions replaced by its output for `source`; heads in order (`head_places`)."""
    names = [z_name(layer) for layer in range(n_layers(model))]
    edits = [
        Edit(layer, {name: lambda output, head=head, other=other: _with_head(output, other, head)})
        for layer, (name, other) in enumerate(captured(model, source, names).items())
        for head in range(n_heads(model))
    ]
    return run_edits(model, inputs, read, edits, batch_size)


def patch_edges(
    model: Hooked,
    inputs: Shaped[Tensor, "batch *input"],
    source: Shaped[Tensor, "batch *input"],
    read: Read,
    query: int,
    key: Int[Tensor, "batch"],
    batch_size: int = BATCH_SIZE,
) -> Float[Tensor, "head batch step"]:
    """What flows from `key` to `query` through one head, and nothing else, taken from the run on `source`.

    The head's output at the query gains p' v' - p v, with p the weight and v the value of the key in the run on
    `inputs` and p', v' in that on `source`: the path from one token to one answer.
    """
    parts, row = [], torch.arange(len(inputs), device=inputs.device)
    for layer in range(n_layers(model)):
        value, name = f"blocks.{layer}.attn.hook_v", z_name(layer)
        if value not in model.hook_dict:
            raise ValueError(f"the model has no {value}: an edge's flow is its weight times its value")
        flows = []
        for tokens in (inputs, source):
            found = captured(model, tokens, [pattern_name(layer), value])
            weight = found[pattern_name(layer)][row, :, query, key]  # [batch head]
            values = found[value][row, key]  # [batch key_value_head d_head]
            flows.append(weight[..., None] * values.repeat_interleave(weight.shape[1] // values.shape[1], dim=1))
        gain = flows[1] - flows[0]  # [batch head d_head]
        edits = [
            Edit(layer, {name: lambda output, head=head, gain=gain: _with_gain(output, gain, query, head)})
            for head in range(n_heads(model))
        ]
        parts.append(run_edits(model, inputs, read, edits, batch_size))
    return torch.cat(parts)


def head_places(model: Hooked) -> list[tuple[int, int]]:
    """(layer, head) of every head, in order."""
    return [(layer, head) for layer in range(n_layers(model)) for head in range(n_heads(model))]


def _with_head(output: Tensor, source: Tensor, head: int) -> Tensor:
    """`output` with one head's from `source`."""
    changed = output.clone()
    changed[:, :, head] = source[:, :, head]
    return changed


def _with_gain(output: Tensor, gain: Tensor, query: int, head: int) -> Tensor:
    changed = output.clone()
    changed[:, query, head] += gain[:, head]
    return changed
