"""What do wen2024's claims about pretrained models share? The smallest difference of interest, and intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.core.contrast import Contrast
from interp.core.judging import DIFFERENCE, UNBOUNDED, mean_over
from interp.core.parts import NotMeasurable
from interp.core.problem_runs import clustered, clusters_of
from interp.statistics import Interval, clustered_mean
from interp.statistics.crossed import crossed_mean

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


def by_problem(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One line per problem, one column per (condition, arm): the mean over the arm's draws."""
    chosen = rows[rows["metric"] == metric]
    arms = chosen["setting"].str.extract(r"arm=(\S+)", expand=False)
    table = chosen.assign(arm=arms).pivot_table(index="unit", columns=["condition", "arm"], values="value")
    return table.sort_index()


def read_of(rows: pd.DataFrame, places: set[tuple[str, str, str]]) -> pd.DataFrame:
    """The rows at these conditions, metrics and scopes."""
    return rows[pd.MultiIndex.from_frame(rows[["condition", "metric", "scope"]]).isin(list(places))]


def mean_over_problems(
    values: pd.Series, level: float, bounds: tuple[float, float] = UNBOUNDED
) -> Interval | NotMeasurable:
    """The mean over problems, whose ids are the index, with an interval for new templates."""
    return clustered(values.to_numpy(float), clusters_of(values.index), level, bounds)


def mean_difference(
    found: Contrast, level: float, bounds: tuple[float, float] = DIFFERENCE
) -> Interval | NotMeasurable:
    """The mean difference over problems, heads averaged within a problem; of normalised entropies, if not told."""
    return clustered(found.differences.mean((1, 2)), found.labels, level, bounds)


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
