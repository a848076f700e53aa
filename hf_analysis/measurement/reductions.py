"""What is reported of a passage? The rows of the measurement table, from the row statistics of its tokens.

Metrics are those of `probes.attention.statistics`: per layer and head, a statistic reduced over the tokens of a scope
(`hf_analysis.text.scopes`) on which it is defined. Length-matched reductions are expectations over a random subset of
m tokens. They, and scopes of m tokens, depend on the pair of texts that are compared; `measurement.pairs` says which
rows there are of a pair.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from hf_analysis.attention.recorder import NOT_FINITE, Recording
from hf_analysis.measurement.pairs import pair_setting
from hf_analysis.text.scopes import Scope, Selection, TokenCounts, find_scope
from probes import rows
from probes.attention.entropy import LENGTH_MATCHED, reduced, with_two_keys
from probes.attention.statistics import Metric, find_metric

WINDOW_VALUES = 2**22
"""Values of overlapping windows in memory at once; `nanquantile` takes at most four times as many."""
Pairs = Collection[frozenset[str]]
"""Pairs of conditions, in no order."""


@dataclass(frozen=True)
class PassageRows:
    """The row statistics of one passage, its pads and the other passages cut away."""

    condition: str
    setting: str
    ids: tuple[int, ...]
    counts: TokenCounts
    values: Mapping[str, Float[Tensor, "layer head pos"]]
    """By statistic; NaN for tokens that see fewer than two keys."""
    layers: tuple[int, ...]
    """The model's own numbers of the layers."""

    def within(self, statistic: str, part: Selection) -> Float[Tensor, "layer head in_part"]:
        """The values of the tokens of a part, without those that have none in some layer.

        They are the first of a text and, where attention is in chunks (Llama 4), the first of a chunk, which sees
        two keys in some layers only: every layer is reduced over the same tokens.
        """
        values = self.values[statistic][..., part.tokens.start : part.tokens.stop]
        return values[..., ~values[:, 0].isnan().any(0)]


class Cell(NamedTuple):
    """One metric of one passage in one scope."""

    condition: str
    setting: str
    metric: str
    scope: str
    n_tokens: int
    values: Float[Tensor, "layer head"]


@dataclass(frozen=True)
class Reduced:
    """What one problem is reduced to."""

    rows: pd.DataFrame
    set_aside: tuple[str, ...]
    """Scopes of identical tokens in which its passages differ: no rows there."""


def passage_rows(
    recording: Recording,
    row: int,
    where: Tensor,
    condition: str,
    setting: str,
    ids: Sequence[int],
    counts: TokenCounts,
) -> PassageRows:
    """The part of `recording` that belongs to the passage at the places `where` of batch row `row`."""
    overflow = recording.overflow[:, row].index_select(-1, where).nonzero()
    if len(overflow):
        layer, head, token = overflow[0].tolist()
        raise ValueError(
            f"condition {condition}: attention is not finite in layer {recording.layers[layer]}, head {head} at "
            f"token {token + 1} of {len(where)}; {NOT_FINITE}"
        )
    n_visible = recording.n_visible[:, row].index_select(-1, where)
    cut = {name: part[:, row].index_select(-1, where) for name, part in recording.values.items()}
    values = {name: with_two_keys(part, n_visible) for name, part in cut.items()}
    return PassageRows(condition, setting, tuple(ids), counts, values, recording.layers)


def reduce_problem(
    run: str,
    unit: str,
    passages: Sequence[PassageRows],
    metrics: Sequence[str],
    scopes: Sequence[str],
    pairs: Pairs | None = None,
) -> Reduced:
    """All rows of one problem: every metric of every passage in every scope.

    What depends on a pair of conditions is computed for those in `pairs`; None: for all.
    """
    asked = [find_metric(name) for name in metrics]
    cells: list[Cell] = []
    set_aside = []
    for name in scopes:
        scope = find_scope(name)
        if scope.identical and not identical(scope, passages):
            set_aside.append(name)
            continue
        for passage in passages:
            others = [p for p in passages if p is not passage and _is_pair(passage, p, pairs)]
            cells += (_of_pairs if scope.paired else _of_passage)(passage, others, scope, asked)
    layers = passages[0].layers if passages else ()
    return Reduced(_table(run, unit, cells, layers), tuple(set_aside))


def identical(scope: Scope, passages: Sequence[PassageRows]) -> bool:
    """Whether all passages that have a part in scope have the same tokens there, at least one."""
    parts = [(passage, scope.selection(passage.counts)) for passage in passages]
    tokens = {p.ids[part.tokens.start : part.tokens.stop] for p, part in parts if part is not None}
    return () not in tokens and len(tokens) <= 1


def _is_pair(first: PassageRows, second: PassageRows, pairs: Pairs | None) -> bool:
    return pairs is None or frozenset((first.condition, second.condition)) in pairs


def _of_passage(
    passage: PassageRows, others: Sequence[PassageRows], scope: Scope, metrics: Sequence[Metric]
) -> Iterator[Cell]:
    """Metrics over the tokens in scope; the length-matched ones also at the length of every shorter passage."""
    part = scope.selection(passage.counts)
    if part is None:
        return
    for metric in metrics:
        values = passage.within(metric.statistic.name, part)
        n, place = values.shape[-1], (metric.name, scope.name)
        if metric.reduction not in LENGTH_MATCHED or part.window is not None:
            yield Cell(passage.condition, passage.setting, *place, n, _over(metric.reduction, values, part))
            continue
        lengths = {
            other.condition: other.within(metric.statistic.name, theirs).shape[-1]
            for other in others
            if (theirs := scope.selection(other.counts)) is not None
        }
        at: dict[int, Tensor] = {}
        for against, m in _lengths(n, lengths).items():
            if m not in at:
                at[m] = reduced(metric.reduction, values, m)
            yield Cell(passage.condition, pair_setting(passage.setting, m, against), *place, n, at[m])


def _of_pairs(
    passage: PassageRows, others: Sequence[PassageRows], scope: Scope, metrics: Sequence[Metric]
) -> Iterator[Cell]:
    """Metrics over the tokens that a scope of m tokens chooses: for each shorter passage, and for the others."""
    sizes = _lengths(passage.counts.n_answer, {other.condition: other.counts.n_answer for other in others})
    parts = {m: scope.selection(passage.counts, m) for m in set(sizes.values())}
    for metric in metrics:
        at: dict[int, tuple[int, Tensor]] = {}
        for against, m in sizes.items():
            part = parts[m]
            if part is None:
                continue
            if m not in at:
                values = passage.within(metric.statistic.name, part)
                at[m] = values.shape[-1], _over(metric.reduction, values, part)
            yield Cell(passage.condition, pair_setting(passage.setting, m, against), metric.name, scope.name, *at[m])


def _lengths(n: int, others: Mapping[str, int]) -> dict[str | None, int]:
    """At which lengths a text of n tokens is compared: that of each shorter one by name; its own for the others."""
    shorter: dict[str | None, int] = {name: m for name, m in others.items() if m < n}
    return shorter if others and len(shorter) == len(others) else {None: n, **shorter}


def _over(
    reduction: str, values: Float[Tensor, "layer head in_part"], part: Selection
) -> Float[Tensor, "layer head"]:
    """The reduction over a part of a passage, or its mean over all windows of it, a few heads at a time."""
    if part.window is None or part.window >= values.shape[-1]:
        return reduced(reduction, values)
    windows = values.flatten(0, 1).unfold(-1, part.window, 1)  # [head place window]
    blocks = windows.split(max(1, WINDOW_VALUES // windows[0].numel()))
    return torch.cat([reduced(reduction, block).mean(-1) for block in blocks]).view(values.shape[:2])


def _table(run: str, unit: str, cells: Sequence[Cell], layers: Sequence[int]) -> pd.DataFrame:
    if not cells:
        return rows.concat([])
    condition, setting, metric, scope, n_tokens, values = zip(*cells)
    n_layers, n_heads = values[0].shape
    each = n_layers * n_heads
    return rows.table(
        run=run,
        condition=np.repeat(condition, each),
        unit=unit,
        setting=np.repeat(setting, each),
        layer=np.tile(np.repeat(layers, n_heads), len(cells)),
        head=np.tile(np.arange(n_heads), n_layers * len(cells)),
        metric=np.repeat(metric, each),
        scope=np.repeat(scope, each),
        value=torch.stack(values).double().numpy().reshape(-1),
        n_tokens=np.repeat(n_tokens, each),
    )
