"""What changes when nobody can look back at a sentence? Its keys hidden from all later queries, in every layer.

As in Bogdan et al. 2025, section 5: the effect on each later token is the KL divergence between its distribution in
the intact model and with the sentence hidden (the rest of the row shares its weight). Up to the end of the sentence
nothing changes, so keys and values up to there are computed once, for all sentences; the rest is computed for several
sentences at a time. Equal to one full forward pass with a 4-D mask for each sentence, to rounding.
"""

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hf_analysis.attention.intercept import AttentionCall, intercepting
from hf_analysis.models.loading import LoadedModel
from hf_analysis.models.logits import Head, kl_divergence, output_head
from hf_analysis.traces.tokens import Unit

FLOOR = 1e-10
"""Nats below which a divergence is rounding; logarithms are of at least so much."""
CPU_TOKENS, GPU_TOKENS = 256, 8192
"""Tokens computed at once, unless a single sentence needs more. Sentences that are computed together all begin where
the first of them ends, so that large groups compute tokens that do not change."""
LOGIT_CELLS, KEPT_CELLS = 8 * 2**20, 64 * 2**20
"""Logits that are compared at once; those of the intact text are kept if they are no more than so many."""


@dataclass(frozen=True)
class Hidden:
    """Tokens [start, end) that no query from `end` on sees."""

    start: int
    end: int


def suppressed_kl(
    model: LoadedModel,
    ids: Sequence[int],
    spans: Sequence[Hidden],
    heads: Bool[Tensor, "layer head"] | None = None,
) -> Float[Tensor, "span pos"]:
    """KL(intact || span hidden) of the distribution of every token, given those before it; zero up to a span's end.

    The token right behind a span is predicted from the span's last token, which still sees all of it: zero, too.
    """
    check_spans(len(ids), spans)
    most = GPU_TOKENS if model.device.type == "cuda" else CPU_TOKENS
    found = torch.zeros(len(spans), len(ids))
    with torch.inference_mode():
        past, states = read(model, ids)
        intact = _Intact(output_head(model), states)
        for group in _groups(spans, len(ids), most):
            chosen = [spans[i] for i in group]
            start = min(span.end for span in chosen)
            changed, _ = continued(model, ids, past, start, chosen, heads)
            for row, i in enumerate(group):
                end = spans[i].end
                found[i, end + 1 :] = intact.divergences(changed[row, end - start : -1], end)
    return found


def check_spans(n_tokens: int, spans: Sequence[Hidden]) -> None:
    for span in spans:
        if not 1 <= span.start < span.end < n_tokens:
            raise ValueError(
                f"tokens {span.start} to {span.end} of {n_tokens} cannot be hidden: expected a span behind the first "
                "token, which is the sink of most heads, with tokens after it"
            )


def _groups(spans: Sequence[Hidden], n_tokens: int, most: int) -> list[list[int]]:
    """The spans by where they end, several at a time while what follows the first of them fits."""
    groups: list[list[int]] = []
    for i in sorted(range(len(spans)), key=lambda i: spans[i].end):
        rest = n_tokens - spans[groups[-1][0]].end if groups else 0
        if groups and rest * (len(groups[-1]) + 1) <= most:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def read(model: LoadedModel, ids: Sequence[int]) -> tuple[Any, Float[Tensor, "pos d_model"]]:
    """The keys and values of the intact text in every layer, and its last hidden states."""
    from transformers import DynamicCache

    past = DynamicCache()  # not of the model's configuration: layers with windows would forget
    network: Any = model.model.base_model
    inputs = torch.tensor([list(ids)], device=model.device)
    return past, network(input_ids=inputs, past_key_values=past, use_cache=True).last_hidden_state[0]


def continued(
    model: LoadedModel,
    ids: Sequence[int],
    past: Any,
    start: int,
    spans: Sequence[Hidden],
    heads: Bool[Tensor, "layer head"] | None,
) -> tuple[Float[Tensor, "span pos d_model"], Any]:
    """The last hidden states from `start` on, one row for each span that is hidden, and all keys and values."""
    cache, n = copy.copy(past), len(spans)
    cache.layers = [copy.copy(layer) for layer in past.layers]
    for layer in cache.layers:
        layer.keys = layer.keys[:, :, :start].expand(n, -1, -1, -1)
        layer.values = layer.values[:, :, :start].expand(n, -1, -1, -1)
    inputs = torch.tensor([list(ids[start:])], device=model.device).expand(n, -1)
    network: Any = model.model.base_model
    with hiding(model, len(ids), start, spans, heads):
        states = network(input_ids=inputs, past_key_values=cache, use_cache=True).last_hidden_state
    return states, cache


def hiding(
    model: LoadedModel,
    n_tokens: int,
    start: int,
    spans: Sequence[Hidden],
    heads: Bool[Tensor, "layer head"] | None,
) -> AbstractContextManager[None]:
    """A pass over the tokens from `start` up to `n_tokens`, those before in a cache; row i sees no `spans[i]`."""
    return intercepting(model.model, _Hiding(_hidden(n_tokens, start, spans), heads), cached=True)


def _hidden(n_tokens: int, start: int, spans: Sequence[Hidden]) -> Bool[Tensor, "span 1 query key"]:
    queries, keys = torch.arange(start, n_tokens)[:, None], torch.arange(n_tokens)
    return torch.stack([(queries >= one.end) & (keys >= one.start) & (keys < one.end) for one in spans])[:, None]


class _Hiding:
    """Attention without what is hidden. What is added to the scores is the same in layers with the same mask."""

    def __init__(self, hidden: Bool[Tensor, "span 1 query key"], heads: Bool[Tensor, "layer head"] | None) -> None:
        self.hidden, self.heads = hidden, heads
        self.added: dict[int, tuple[Tensor | None, Tensor]] = {}  # by mask, which is kept so that its id stays taken

    def __call__(self, call: AttentionCall) -> Float[Tensor, "span query head d"]:
        if self.heads is not None:
            chosen = self.heads[call.layer]
            return call.output(self.hidden & chosen[None, :, None, None] if bool(chosen.any()) else None)
        if id(call.attention_mask) not in self.added or call.bias is not None:
            self.added[id(call.attention_mask)] = (call.attention_mask, call.hiding(self.hidden))
        return call.biased_output(self.added[id(call.attention_mask)][1])


class _Intact:
    """The distributions of the intact text, kept where they are not too large, else computed again when asked for."""

    def __init__(self, head: Head, states: Float[Tensor, "pos d_model"]) -> None:
        self.head, self.states = head, states
        n_words = head(states[:1]).shape[-1]
        self.step = max(1, LOGIT_CELLS // n_words)
        self.kept = head(states) if len(states) * n_words <= KEPT_CELLS else None

    def divergences(self, changed: Float[Tensor, "pos d_model"], start: int) -> Float[Tensor, "pos"]:
        """KL(intact || changed) at the positions from `start` on, a few at a time."""
        parts = [torch.zeros(0)]  # nothing follows a span before the last token
        for first in range(0, len(changed), self.step):
            logits = self.head(changed[first : first + self.step])
            rows = slice(start + first, start + first + len(logits))
            intact = self.head(self.states[rows]) if self.kept is None else self.kept[rows]
            parts.append(kl_divergence(intact, logits).cpu())
        return torch.cat(parts)


def by_unit(
    kl: Float[Tensor, "span pos"], spans: Sequence[Hidden], units: Sequence[Unit]
) -> Float[Tensor, "span unit"]:
    """The mean over the tokens of each unit of the log of the divergence; NaN where a unit is not all behind a span.

    The unit right behind a span is read without its first token, which nothing was hidden from.
    """
    logs = kl.double().clamp(min=FLOOR).log()
    found = torch.full((len(spans), len(units)), torch.nan, dtype=torch.float64)
    for i, span in enumerate(spans):
        for j, unit in enumerate(units):
            first = max(unit.start, span.end + 1)
            if unit.start >= span.end and first < unit.end:
                found[i, j] = logs[i, first : unit.end].mean()
    return found


def without_usual(effects: Float[Tensor, "span unit"]) -> Float[Tensor, "span unit"]:
    """Effects minus the usual one at their place: the mean over all spans of the effect on the same unit."""
    return effects - effects.nanmean(0, keepdim=True)


def control_span(sentence: Hidden, last: int, generator: torch.Generator) -> Hidden | None:
    """A random span of equal length that begins half to a whole length before or after the sentence: as near, on
    average, and not the sentence. Within the tokens from 1 up to `last`; None if there is no room."""
    length = sentence.end - sentence.start
    shifts = range((length + 1) // 2, length + 1)
    places = [sentence.start + sign * shift for shift in shifts for sign in (-1, 1)]
    places = [place for place in places if place >= 1 and place + length <= last]
    if not places:
        return None
    start = places[int(torch.randint(len(places), (), generator=generator))]
    return Hidden(start, start + length)
