"""How do the values of seeds or problems become estimates? Means, shares and growth exponents, for any paper's parts.

Each function returns an interval at the level it is given, or `NotMeasurable` with the reason.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from interp.core.parts import NotMeasurable
from interp.statistics import Interval, binomial_interval, cautious_mean, median_interval, power_exponent

UNBOUNDED, SHARE, DIFFERENCE = (-np.inf, np.inf), (0.0, 1.0), (-1.0, 1.0)
"""Bounds of a quantity: none; those of a share, an accuracy, an attention mass or a normalised entropy; and of a
difference of two of these, or a correlation."""

MEDIANS = (
    "A mean of a few seeds is deceived by a rare run that collapses: parts that say of the median seed what they "
    "measure said it of the mean before."
)
"""For the history of the claims that this changed."""


def mean_over(
    values: pd.Series | np.ndarray,
    level: float,
    bounds: tuple[float, float] = UNBOUNDED,
    *,
    open_above: bool = False,
    open_below: bool = False,
) -> Interval | NotMeasurable:
    """The mean over units of replication; undefined units (NaN) make it not measurable: drop them on purpose only.

    `open_above` and `open_below` say that some values are floors or caps (a budget or a grid ended first), so that
    the mean may be any larger or smaller.
    """
    data = np.asarray(values, dtype=float)
    if len(data) < 2:
        return NotMeasurable(f"{len(data)} units with a value; a mean with an interval needs two")
    found = cautious_mean(data, rng=0, level=level, bounds=bounds)
    low, high = bounds
    return Interval(
        found.value,
        low if open_below else found.low,
        high if open_above else found.high,
        level,
        found.n,
        found.method,
    )


def typical_of(
    values: pd.Series | np.ndarray, level: float, bounds: tuple[float, float] = SHARE
) -> Interval | NotMeasurable:
    """The median over training runs of a quantity within `bounds`: what most runs reach, whatever rare ones do."""
    data = np.asarray(values, dtype=float)
    if len(data) == 0:
        return NotMeasurable("no unit with a value")
    return median_interval(data, level=level, bounds=bounds)


def share_of(successes: Sequence[bool] | pd.Series, level: float) -> Interval | NotMeasurable:
    """The share of units that succeed, with its exact (Clopper-Pearson) interval."""
    if len(successes) == 0:
        return NotMeasurable("no unit to count")
    return binomial_interval(int(sum(successes)), len(successes), level=level)


def growth_exponent(
    sizes: pd.Series, values: pd.Series, censored: pd.Series, ratio: float, level: float
) -> Interval | NotMeasurable:
    """The exponent p of values ~ sizes^p by censored likelihood; `ratio` is that of neighbouring grid values."""
    if sizes[~censored].nunique() < 2:
        return NotMeasurable("fewer than two sizes have a value that is not censored")
    if sizes.value_counts().min() < 2:
        return NotMeasurable("a size has one seed only")
    return power_exponent(
        sizes.to_numpy(float),
        values.to_numpy(float),
        censored.to_numpy(bool),
        resolution=(ratio - 1) * float(values.median()),
        level=level,
        rng=0,
    )


def least_share(successes: pd.Series, groups: pd.Series, level: float) -> Interval | NotMeasurable:
    """The share of seeds that succeed, in the group (a size) where it is smallest; n is the seeds of a group.

    For theorems that speak of every size at once. The least of m shares is supported only if each of them is, which
    needs no correction; it is refuted if any of them is, so its upper end is the least of m upper ends at
    1 - (1 - level) / m.
    """
    if successes.empty:
        return NotMeasurable("no seed to count")
    counts = [count for _, *count in counts_by_group(successes, groups)]
    found = [binomial_interval(*count, level=level) for count in counts]
    corrected = [binomial_interval(*count, level=1 - (1 - level) / len(counts)) for count in counts]
    return Interval(
        min(one.value for one in found),
        min(one.low for one in found),
        min(one.high for one in corrected),
        level,
        min(one.n for one in found),
        "Clopper-Pearson" if len(counts) == 1 else f"Clopper-Pearson, least of {len(counts)}",
    )


def counts_by_group(successes: pd.Series, groups: pd.Series) -> list[tuple[int, int, int]]:
    """Each group, which is a number, with its successes and its size."""
    known, index = np.unique(groups.to_numpy(), return_inverse=True)
    n = np.bincount(index, successes.to_numpy(float)).round().astype(int)
    return list(zip(known.tolist(), n.tolist(), np.bincount(index).tolist()))
