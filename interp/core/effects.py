"""How large are the differences in a measurement? Every pair of conditions, for this model and these problems.

An effect is a mean difference, paired by problem, heads averaged within a problem, with an interval over problems or
over clusters of them. It says nothing about a paper's claim: that takes the declared test of the claim, on the
declared number of problems.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hf_analysis.text.comparisons import reasoning_rank
from hf_analysis.text.problems import template_of
from interp.core.contrast import FEWEST_FOR_HEADS, Contrast, NotPaired, Reading, Side, paired
from interp.core.verdict import number
from interp.statistics import ALPHA, Interval, cautious_mean
from probes.attention.statistics import Metric, find_metric
from probes.base.atomic import read_json, write_file, write_json
from probes.parts import Frame, Place, Table, plain

AGAINST = "against "
"""Prefix of the runs of a comparison model."""
FILE = "effects.json"
MOST_DECIMALS = 4
"""That are printed; the file has all."""
HEADS = "heads.csv"


@dataclass(frozen=True)
class Effect:
    """The difference first - second of one metric, mean over heads and problems."""

    metric: str
    scope: str
    first: str
    """A condition; with two models, one of them and the condition."""
    second: str
    quantity: str
    """What the metric is, with its unit."""
    estimate: float
    low: float
    high: float
    level: float
    """Confidence of [low, high], of this interval alone: not corrected for the number of effects."""
    n: int
    unit: str
    """What n counts: problems, or clusters of problems made from one template."""
    problems: int
    method: str
    first_mean: float
    second_mean: float
    heads_lower: float | None
    """Share of heads that are clearly lower in the first, familywise 5% over heads; None with too few units."""
    heads_higher: float | None

    @property
    def interval(self) -> str:
        """Estimate and interval to two digits of its width, or four decimals: "-0.031 [-0.035, -0.027]"."""
        width = self.high - self.low
        if not 0 < width < math.inf:
            return f"{number(self.estimate)} [{number(self.low)}, {number(self.high)}]"
        digits = min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(width))))
        estimate, low, high = (f"{x:z.{digits}f}" for x in (self.estimate, self.low, self.high))
        return f"{estimate} [{low}, {high}]"

    def record(self) -> dict[str, Any]:
        """The effect as plain JSON, which has no infinity: an open end is the text "inf" or "-inf"."""
        return {k: str(v) if isinstance(v, float) and math.isinf(v) else v for k, v in asdict(self).items()}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Effect":
        """The effect that `record` came from."""
        read: dict[str, Any] = {k: float(v) if v in ("inf", "-inf") else v for k, v in record.items()}
        return cls(**read)


@dataclass(frozen=True)
class SidesCompared:
    """Two sides that differ in one thing, and how they differ."""

    first: Side
    second: Side
    names: tuple[str, str]
    """The sides in words: the condition; where there are several models, the model too."""
    contrast: Contrast


def effects(rows: pd.DataFrame, level: float = 1 - ALPHA) -> list[Effect]:
    """Every pair of conditions of a model, and every condition of a pair of models, in all metrics and scopes.

    None where all problems are of one cluster: there is no interval.
    """
    return [effect_of(pair, level) for pair in compared(rows)]


def compared(rows: pd.DataFrame) -> list[SidesCompared]:
    """The same pairs with their contrasts; without those of one cluster or of unequal numbers of tokens."""
    return [pair for pairs in comparisons(Frame(rows)) for pair in pairs]


def comparisons(table: Table) -> Iterator[list[SidesCompared]]:
    """The pairs of one metric in one scope after another, in memory one at a time.

    Effects, heads and figures all need them. What no pair has of its own is one array for all pairs of a side.
    """
    if len({template_of(unit) for unit in table.units}) < 2:
        return
    for metric, scope in table.places:
        readings = {}
        piece = table.piece((metric, scope))
        for (run, condition), part in piece.groupby(["run", "condition"], sort=False, observed=True):
            side = Side(str(condition), metric, scope, str(run))
            readings[side] = Reading(plain(part), side)
        yield list(_compared(readings, several=len(table.runs) > 1))


def _compared(readings: Mapping[Side, Reading], several: bool) -> Iterator[SidesCompared]:
    for first, second in pairs(readings):
        try:
            difference = paired(readings[first], readings[second])
        except NotPaired:
            continue
        if difference.n_clusters > 1:
            names = [f"{side.run}: {side.condition}" if several else side.condition for side in (first, second)]
            yield SidesCompared(first, second, (names[0], names[1]), difference)


def pairs(sides: Iterable[Side]) -> Iterator[tuple[Side, Side]]:
    """Those of the sides of a metric that differ in one thing, the condition or the model.

    Of two conditions the one with more of the reasoning is the first, as in docs/conditions.md, so that the sign of a
    difference does not depend on the order in which they were measured. Models stay in their order.
    """
    sides = list(sides)
    runs = list(dict.fromkeys(side.run for side in sides))
    ordered = sorted(sides, key=lambda side: (runs.index(side.run), reasoning_rank(side.condition)))
    for first, second in combinations(ordered, 2):
        if (first.run == second.run) != (first.condition == second.condition):
            yield first, second


def effect_of(pair: SidesCompared, level: float = 1 - ALPHA) -> Effect:
    """The mean difference of two sides, with its interval."""
    found, metric = pair.contrast, find_metric(pair.first.metric)
    statistic = metric.statistic
    overall = _overall(found, level, math.inf if statistic.high is None else statistic.high - statistic.low)
    lower, higher = found.head_shares() if found.n_clusters >= FEWEST_FOR_HEADS else (None, None)
    return Effect(
        metric=metric.name,
        scope=pair.first.scope,
        first=pair.names[0],
        second=pair.names[1],
        quantity=f"{metric.label}, {statistic.unit}" if statistic.unit else metric.label,
        estimate=float(overall.value),
        low=float(overall.low),
        high=float(overall.high),
        level=float(overall.level),
        n=overall.n,
        unit="problems" if found.n_clusters == len(found.first) else "clusters",
        problems=len(found.first),
        method=overall.method,
        first_mean=float(found.first.mean()),
        second_mean=float(found.second.mean()),
        heads_lower=lower,
        heads_higher=higher,
    )


def _overall(found: Contrast, level: float, widest: float) -> Interval:
    """The mean difference, which is at most `widest`; problems that all agree say little about others."""
    by_problem = found.differences.mean((1, 2))
    if np.ptp(by_problem) == 0:
        return cautious_mean(by_problem[: found.n_clusters], rng=0, level=level, bounds=(-widest, widest))
    overall = found.overall(level)
    return replace(overall, low=max(overall.low, -widest), high=min(overall.high, widest))


def shown_places(places: Sequence[Place]) -> set[Place]:
    """Where heads are drawn one by one: the first metric and its length-matched form, in one scope."""
    first = find_metric(places[0][0])
    scope = shown_scope([scope for metric, scope in places if metric == first.name])
    return {(metric, scope) for metric in shown_metrics(first)}


def shown_metrics(metric: Metric) -> set[str]:
    """The metric and its length-matched form."""
    matched = [m for m in metric.statistic.metrics if m.reduction.startswith("length_matched")]
    return {m.name for m in (metric, *matched)}


def shown_scope(scopes: Sequence[str]) -> str:
    """The answer, if it was measured."""
    return "answer" if "answer" in scopes else scopes[0]


def write_effects(path: Path, command: str, found: Sequence[Effect]) -> None:
    """Writes the effects, and the command that would make them again, atomically."""
    write_json(path, {"command": command, "effects": [effect.record() for effect in found]})


def head_effects(pairs: Sequence[SidesCompared]) -> pd.DataFrame:
    """Every head's mean difference, and its p adjusted over heads (max-T), where there are enough clusters."""
    tables = []
    for pair in pairs:
        found = pair.contrast
        if found.n_clusters < FEWEST_FOR_HEADS:
            continue
        mean = found.differences.mean(0)
        layer, head = np.indices(mean.shape).reshape(2, -1)
        columns = {
            "first": pair.names[0],
            "second": pair.names[1],
            "metric": pair.first.metric,
            "scope": pair.first.scope,
            "layer": found.layer_numbers[layer],
            "head": head,
            "effect": mean.reshape(-1),
            "adjusted_p": found.head_p_values().reshape(-1),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def write_heads(path: Path, tables: Sequence[pd.DataFrame]) -> None:
    """Writes every head's effects (`head_effects`) as CSV, atomically; nothing where no pair has enough clusters."""
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    if len(table):
        write_file(path, lambda temporary: table.to_csv(temporary, index=False, float_format="%.6g"))


def read_effects(path: Path) -> list[Effect]:
    """The effects in an effects.json; a ValueError names the file if it is none."""
    try:
        return [Effect.read(record) for record in read_json(path)["effects"]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not a file of effects: {error!r}") from error
