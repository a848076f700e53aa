"""How large are the differences in a measurement? Every pair of conditions, for this model and these problems.

An effect is a mean difference, paired by problem, heads averaged within a problem, with an interval over problems or
over clusters of them. It says nothing about a paper's claim: that takes the declared test of the claim, on the
declared number of problems.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hf_analysis.text.problems import template_of
from interp.core.contrast import FEWEST_FOR_HEADS, Contrast, NotPaired, Side, contrast
from interp.core.verdict import number
from interp.statistics import ALPHA, Interval, cautious_mean
from probes.attention.statistics import find_metric
from probes.base.atomic import read_json, write_file, write_json

if TYPE_CHECKING:
    from rich.table import Table

AGAINST = "against "
"""Prefix of the runs of a comparison model."""
FILE = "effects.json"
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
        """Estimate and interval to two digits of the interval's width: "-0.0312 [-0.0350, -0.0274]"."""
        width = self.high - self.low
        if not 0 < width < math.inf:
            return f"{number(self.estimate)} [{number(self.low)}, {number(self.high)}]"
        digits = max(0, 1 - math.floor(math.log10(width)))
        return f"{self.estimate:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"

    def record(self) -> dict[str, Any]:
        """The effect as plain JSON, which has no infinity: an open end is the text "inf" or "-inf"."""
        return {k: str(v) if isinstance(v, float) and math.isinf(v) else v for k, v in asdict(self).items()}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Effect":
        """The effect that `record` came from."""
        read: dict[str, Any] = {k: float(v) if v in ("inf", "-inf") else v for k, v in record.items()}
        return cls(**read)


def effects(rows: pd.DataFrame, level: float = 1 - ALPHA) -> list[Effect]:
    """Every pair of conditions of a model, and every condition of a pair of models, in all metrics and scopes.

    None where all problems are of one cluster: there is no interval.
    """
    runs = set(rows["run"])
    return [_effect(found, first, second, runs, level) for first, second, found in compared(rows)]


def compared(rows: pd.DataFrame) -> Iterator[tuple[Side, Side, Contrast]]:
    """The same pairs with their contrasts; without those of one cluster or of unequal numbers of tokens."""
    if len({template_of(unit) for unit in rows["unit"].unique()}) < 2:
        return
    for (metric, scope), piece in rows.groupby(["metric", "scope"], sort=False):
        for first, second in pairs(piece, str(metric), str(scope)):
            try:
                found = contrast(piece, first, second)
            except NotPaired:
                continue
            if found.n_clusters > 1:
                yield first, second, found


def pairs(rows: pd.DataFrame, metric: str, scope: str) -> Iterator[tuple[Side, Side]]:
    """The sides of a metric that differ in one thing, the condition or the model, in the order of the rows."""
    measured = rows[(rows["metric"] == metric) & (rows["scope"] == scope)][["run", "condition"]].drop_duplicates()
    sides = [Side(condition, metric, scope, run) for run, condition in measured.itertuples(index=False)]
    for first, second in combinations(sides, 2):
        if (first.run == second.run) != (first.condition == second.condition):
            yield first, second


def _effect(found: Contrast, first: Side, second: Side, runs: Collection[str], level: float) -> Effect:
    metric = find_metric(first.metric)
    statistic = metric.statistic
    overall = _overall(found, level, math.inf if statistic.high is None else statistic.high - statistic.low)
    lower, higher = found.head_shares() if found.n_clusters >= FEWEST_FOR_HEADS else (None, None)
    return Effect(
        metric=metric.name,
        scope=first.scope,
        first=in_words(first, runs),
        second=in_words(second, runs),
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


def in_words(side: Side, runs: Collection[str]) -> str:
    """The condition; where there are several models, the model too."""
    return side.condition if len(runs) == 1 else f"{side.run}: {side.condition}"


def write_effects(path: Path, command: str, found: Sequence[Effect]) -> None:
    """Writes the effects, and the command that would make them again, atomically."""
    write_json(path, {"command": command, "effects": [effect.record() for effect in found]})


def head_effects(rows: pd.DataFrame) -> pd.DataFrame:
    """Every head's mean difference, and its p adjusted over heads (max-T), where there are enough clusters."""
    runs, tables = set(rows["run"]), []
    for first, second, found in compared(rows):
        if found.n_clusters < FEWEST_FOR_HEADS:
            continue
        mean = found.differences.mean(0)
        layer, head = np.indices(mean.shape).reshape(2, -1)
        columns = {
            "first": in_words(first, runs),
            "second": in_words(second, runs),
            "metric": first.metric,
            "scope": first.scope,
            "layer": layer,
            "head": head,
            "effect": mean.reshape(-1),
            "adjusted_p": found.head_p_values().reshape(-1),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def write_heads(path: Path, rows: pd.DataFrame) -> None:
    """Writes every head's effects as CSV, atomically; nothing where no pair has enough clusters."""
    table = head_effects(rows)
    if len(table):
        write_file(path, lambda temporary: table.to_csv(temporary, index=False, float_format="%.6g"))


def read_effects(path: Path) -> list[Effect]:
    """The effects in an effects.json; a ValueError names the file if it is none."""
    try:
        return [Effect.read(record) for record in read_json(path)["effects"]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not a file of effects: {error!r}") from error


def effect_table(found: Sequence[Effect], title: str) -> "Table":
    """The effects as a rich table for the terminal: a row for each metric and pair, a column for each scope."""
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    scopes = list(dict.fromkeys(effect.scope for effect in found))
    table = Table("difference", *(f"{scope} tokens" for scope in scopes), title=Text(title), box=SIMPLE)
    for metric in dict.fromkeys(effect.metric for effect in found):
        of_metric = [effect for effect in found if effect.metric == metric]
        table.add_section()
        table.add_row(Text(metric, style="bold"))
        for pair in dict.fromkeys((effect.first, effect.second) for effect in of_metric):
            cells = {effect.scope: effect.interval for effect in of_metric if (effect.first, effect.second) == pair}
            table.add_row(Text(f"{pair[0]} − {pair[1]}"), *(Text(cells.get(scope, "")) for scope in scopes))
    return table
