"""What do the claims about pretrained models share? Shards of problems, clusters of problems, intervals over them."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from hf_analysis.text.problems import template_of
from interp.core.claim import Item
from interp.core.contrast import Contrast
from interp.core.judging import DIFFERENCE, UNBOUNDED, mean_over
from interp.core.parts import NotMeasurable, Unit
from interp.statistics import Interval, clustered_mean
from interp.statistics.crossed import crossed_mean

if TYPE_CHECKING:
    from hf_analysis.models.loading import LoadedModel
    from hf_analysis.text.problems import Problem

TINY = "tiny "
"""Prefix that asks for a small, randomly initialised model with the tokenizer of the named one."""
SMALLEST = 0.01
"""The smallest difference of normalised entropies that is of interest."""
WHY_SMALLEST = (
    f"lower is what the paper says; {SMALLEST:g}, one hundredth of the range of the normalised entropy, is the "
    "smallest difference that we count, whatever n is"
)
CLUSTERED = (
    "Problems made from one template (the built-in ones) are one cluster: intervals are for new templates, n counts "
    "templates; problems of GSM8K are their own clusters."
)


def load(name: str) -> "LoadedModel":
    """The model called `name`, or its tiny twin."""
    from hf_analysis.models.loading import load_model

    if name.startswith(TINY):
        twin = _tiny(name.removeprefix(TINY))
        return replace(twin, model=deepcopy(twin.model))  # an item may train its own
    return load_model(name)


@cache
def _tiny(name: str) -> "LoadedModel":
    """The twin of `name`, kept: every item would read all weights of `name` for its tokenizer alone."""
    from hf_analysis.models.loading import load_model, tiny_twin

    return tiny_twin(load_model(name), seed=0)


def some_problems(data: str, first: int, limit: int | None) -> list["Problem"]:
    """`limit` problems from the first one on, counted from 0; without a limit all that follow."""
    from hf_analysis.text.problems import load_problems

    return load_problems(data, limit=None if limit is None else first + limit)[first:]


def shards(preset: Any, total: int) -> list[Item]:
    """One item for each `preset.shard` problems of `total`, from the preset's first one on."""
    end = preset.first_unit + total
    return [
        Item(f"problems={start}-{min(start + preset.shard, end) - 1}", {**asdict(preset), "start": start})
        for start in range(preset.first_unit, end, preset.shard)
    ]


def unit_of(data: str) -> Unit:
    """What n counts: built-in problems come from templates, any others are their own clusters."""
    return "clusters" if data == "builtin" else "problems"


def by_problem(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One line per problem, one column per (condition, arm): the mean over the arm's draws."""
    chosen = rows[rows["metric"] == metric]
    arms = chosen["setting"].str.extract(r"arm=(\S+)", expand=False)
    table = chosen.assign(arm=arms).pivot_table(index="unit", columns=["condition", "arm"], values="value")
    return table.sort_index()


def read_of(rows: pd.DataFrame, places: set[tuple[str, str, str]]) -> pd.DataFrame:
    """The rows at these conditions, metrics and scopes."""
    return rows[pd.MultiIndex.from_frame(rows[["condition", "metric", "scope"]]).isin(list(places))]


def clusters_of(units: pd.Index | Sequence[str]) -> np.ndarray:
    """The cluster of each problem."""
    return np.array([template_of(str(unit)) for unit in units])


def mean_over_problems(
    values: pd.Series, level: float, bounds: tuple[float, float] = UNBOUNDED
) -> Interval | NotMeasurable:
    """The mean over problems, whose ids are the index, with an interval for new templates."""
    return _mean(values.to_numpy(float), clusters_of(values.index), level, bounds)


def mean_difference(
    found: Contrast, level: float, bounds: tuple[float, float] = DIFFERENCE
) -> Interval | NotMeasurable:
    """The mean difference over problems, heads averaged within a problem; of normalised entropies, if not told."""
    return _mean(found.differences.mean((1, 2)), found.labels, level, bounds)


def _mean(
    values: Float[np.ndarray, "problem"], clusters: np.ndarray, level: float, bounds: tuple[float, float]
) -> Interval | NotMeasurable:
    _, first = np.unique(clusters, return_index=True)
    if len(first) < 2:
        return NotMeasurable(f"{len(values)} problems of {len(first)} templates; a mean with an interval needs two")
    if np.ptp(values) == 0:  # as many units as clusters agree
        return mean_over(values[first], level, bounds)
    found = clustered_mean(values, clusters, rng=0, level=level)
    return replace(found, low=max(found.low, bounds[0]), high=min(found.high, bounds[1]))


def over_problems_and_runs(
    values: Float[np.ndarray, "problem run"],
    clusters: np.ndarray,
    level: float,
    bounds: tuple[float, float] = UNBOUNDED,
) -> Interval | NotMeasurable:
    """The mean over problems and training runs, with an interval for new templates and new runs.

    A problem that was not measured under every run does not count.
    """
    complete = ~np.isnan(values).any(1)
    values, clusters = values[complete], clusters[complete]
    n, n_runs = len(np.unique(clusters)), values.shape[1]
    if min(n, n_runs) < 2:
        return NotMeasurable(f"{n} templates of problems and {n_runs} training runs; an interval needs two of each")
    if np.ptp(values) == 0:
        return mean_over(values[0], level, bounds)
    found = crossed_mean(values, level=level, clusters=clusters)
    return replace(found, low=max(found.low, bounds[0]), high=min(found.high, bounds[1]))


def sides(found: Contrast) -> str:
    """Both means, and how many problems of how many templates they are of, in words."""
    n, templates = len(found.first), found.n_clusters
    of = f"{n} problems" + (f" of {templates} templates" if templates < n else "")
    return f"{found.first.mean():.3f} against {found.second.mean():.3f}, {of}"


def change_intervals(
    table: pd.DataFrame, groups: Sequence[str], arms: Mapping[str, str], intact: str
) -> dict[str, dict[str, Interval]]:
    """For every group and arm, the mean change from the intact model over problems, with its 95% interval."""
    found: dict[str, dict[str, Interval]] = {}
    for group in groups:
        found[group] = {}
        for arm, name in arms.items():
            change = (table[group, arm] - table[intact, intact]).dropna()
            found[group][name] = clustered_mean(change.to_numpy(), clusters_of(change.index), rng=0)
    return found
