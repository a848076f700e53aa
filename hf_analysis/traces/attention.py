"""Which sentence reads which? Attention between the sentences of a trace, in every head, exact, without a pattern.

One forward pass: each layer's mass on the sentences comes out of the same scores as its output
(`probes.attention.computation.grouped_mass`), averaged over the tokens of the reading sentence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hf_analysis.attention.intercept import AttentionCall, Enough, intercepting
from hf_analysis.models.loading import LoadedModel
from hf_analysis.traces.tokens import TraceTokens, Unit, group_of_token
from probes.attention.check import require_group_agreement
from probes.attention.computation import grouped_mass
from probes.attention.groups import GroupMass, averaging


@dataclass(frozen=True)
class SentenceAttention:
    """Attention of the units of a trace on one another: the mean over the tokens of the reading unit of the sum over
    those of the read one. Rows sum to one, but for tokens in no unit."""

    mass: Float[Tensor, "layer head reading read"]
    mass_without_sink: Float[Tensor, "layer head reading read"]  # of rows without key 1, renormalised
    lengths: Float[Tensor, "read"]  # tokens
    lengths_without_sink: Float[Tensor, "read"]
    tokens: Float[Tensor, "layer head query read"] | None = None  # of every token, where asked for

    @property
    def mean(self) -> Float[Tensor, "layer head reading read"]:
        """Attention per token read: the mean over the block of the pattern, as published."""
        return self.mass / self.lengths

    @property
    def mean_without_sink(self) -> Float[Tensor, "layer head reading read"]:
        return self.mass_without_sink / self.lengths_without_sink.clamp(min=1)


def sentence_attention(model: LoadedModel, tokens: TraceTokens, *, per_token: bool = False) -> SentenceAttention:
    """The attention between the units of one trace."""
    return segmented_attention(model, tokens.ids, [tokens.units], per_token=per_token)[0]


@torch.inference_mode()
def segmented_attention(
    model: LoadedModel, ids: Sequence[int], segmentations: Sequence[Sequence[Unit]], *, per_token: bool = False
) -> list[SentenceAttention]:
    """The same for several divisions of one text into units, in one pass."""
    groups = [_members(len(ids), units) for units in segmentations]
    found: list[list[tuple[Tensor, Tensor, Tensor | None]]] = []

    def look(call: AttentionCall) -> Tensor:
        units = torch.cat(groups, dim=1).to(call.query.device)
        mass, output, _ = grouped_mass(*_scored(call), units, **_options(call, None if per_token else units))
        found.append(_by_division(mass, groups, per_token))
        return _passed_on(call, output)

    _forward(model, ids, look)
    return [_stacked(group, [layer[i] for layer in found]) for i, group in enumerate(groups)]


@torch.inference_mode()
def attention_check(model: LoadedModel, tokens: TraceTokens) -> dict[str, float]:
    """The largest difference of a mass of one trace's sentences from a slower computation, by the name of that.

    A ValueError names the layer and head of one that is more than rounding (`probes.attention.check`).
    """
    found: dict[str, float] = {}

    def look(call: AttentionCall) -> Tensor:
        units = _members(len(tokens.ids), tokens.units).to(call.query.device)
        options = _options(call, units)
        mass, output, chosen = grouped_mass(*_scored(call), units, **options)
        name, difference = require_group_agreement(
            mass, output, chosen, *_scored(call), units, layer=call.layer, **options
        )
        found[name] = max(difference, found.get(name, 0.0))
        return _passed_on(call, output)

    _forward(model, tokens.ids, look)
    return found


def _scored(call: AttentionCall) -> tuple[Tensor, Tensor, float]:
    return call.query, call.key, call.scale


def _options(call: AttentionCall, readers: Tensor | None) -> dict[str, Any]:
    """What `grouped_mass` is told beside; nobody reads the output of the last layer."""
    others = {"mask": call.mask, "bias": call.bias, "softcap": call.softcap, "sinks": call.sinks}
    return {"readers": readers, "value": None if call.is_last else call.value, **others}


def _passed_on(call: AttentionCall, output: Tensor | None) -> Tensor:
    if call.is_last:
        raise Enough
    return call.output() if output is None else output.transpose(1, 2).contiguous()


def _forward(model: LoadedModel, ids: Sequence[int], look: Callable[[AttentionCall], Tensor]) -> None:
    with intercepting(model.model, look):
        model.model.base_model(input_ids=torch.tensor([list(ids)], device=model.device), use_cache=False)


def _members(n_tokens: int, units: Sequence[Unit]) -> Bool[Tensor, "key unit"]:
    return group_of_token(n_tokens, units)[:, None] == torch.arange(len(units))


def _by_division(
    mass: GroupMass, groups: Sequence[Bool[Tensor, "key unit"]], per_token: bool
) -> list[tuple[Tensor, Tensor, Tensor | None]]:
    """One layer's mass on the units of each division, by its units that read; and by token where asked for."""
    result, start = [], 0
    for group in groups:
        units = slice(start, start + group.shape[1])
        start = units.stop
        if per_token:
            weights = averaging(group.to(mass.mass.device), mass.mass.dtype)
            whole, without = (weights @ one[0, :, :, units] for one in mass)
            result.append((whole.cpu(), without.cpu(), mass.mass[0, :, :, units].cpu()))
        else:
            whole, without = (one[0, :, units, units].cpu() for one in mass)
            result.append((whole, without, None))
    return result


def _stacked(
    group: Bool[Tensor, "key unit"], layers: Sequence[tuple[Tensor, Tensor, Tensor | None]]
) -> SentenceAttention:
    whole, without, tokens = zip(*layers)
    lengths = group.sum(0).to(whole[0].dtype)
    kept = None if tokens[0] is None else torch.stack(tokens)
    return SentenceAttention(torch.stack(whole), torch.stack(without), lengths, lengths - group[0].to(lengths), kept)


def rotated(tokens: TraceTokens, by: int) -> tuple[Unit, ...]:
    """The units with the lengths of the reasoning's sentences in rotated order: as many, as long, out of step.

    The boundaries are those of the trace, moved around its reasoning so that one still falls on its beginning.
    """
    lengths = tokens.lengths
    start, moved = tokens.sentences[0].start, []
    for length in (*lengths[by % len(lengths) :], *lengths[: by % len(lengths)]):
        moved.append(Unit("reasoning", "", start, start + length))
        start += length
    if start != tokens.sentences[-1].end:
        raise ValueError(f"trace {tokens.trace.id}: its sentences do not follow one another; they cannot be rotated")
    before = tokens.units[: tokens.reasoning[0]]
    return (*before, *moved, *tokens.units[tokens.reasoning[-1] + 1 :])


def permuted(tokens: TraceTokens, order: Sequence[int]) -> TraceTokens:
    """The trace with the sentences of its reasoning in another order, token by token; the rest stays in place."""
    sentences = tokens.sentences
    if sorted(order) != list(range(len(sentences))):
        raise ValueError(f"order {list(order)}: expected each of {len(sentences)} sentences once")
    start, ids, moved = sentences[0].start, list(tokens.ids[: sentences[0].start]), []
    for place in order:
        unit = sentences[place]
        ids += tokens.ids[unit.start : unit.end]
        moved.append(replace(unit, start=start, end=start + unit.n_tokens))
        start += unit.n_tokens
    units = (*tokens.units[: tokens.reasoning[0]], *moved, *tokens.units[tokens.reasoning[-1] + 1 :])
    return TraceTokens(tokens.trace, (*ids, *tokens.ids[start:]), units)
