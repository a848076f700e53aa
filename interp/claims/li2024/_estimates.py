"""How do the errors of seeds become estimates? Means over seeds, and the least or largest of many cells.

A seed's error is a mean over its queries, so seeds that agree are no proof of a spread of zero: intervals are never
narrower than the queries, pooled, allow.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import stdtrit

from interp.core.parts import NotMeasurable
from interp.statistics import Interval, binomial_interval, cautious_mean


@dataclass(frozen=True)
class Bands:
    """The intervals of many cells at one level."""

    value: Float[np.ndarray, "cell"]
    low: Float[np.ndarray, "cell"]
    high: Float[np.ndarray, "cell"]
    n: int
    """Seeds."""


def bands(
    values: Float[np.ndarray, "cell seed"],
    level: float,
    n_queries: int = 0,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Bands:
    """t intervals of means over seeds, for every cell, of a quantity that cannot leave `bounds`.

    `n_queries` is the number of queries of a cell in all seeds together: no half-width is below 1 - tail^(1/n), the
    largest rate that n queries without an event allow. Without it, seeds that agree have an open interval.
    """
    n, tail = values.shape[1], (1 - level) / 2
    mean, spread = values.mean(1), values.std(1, ddof=1)
    half = stdtrit(n - 1, 1 - tail) * spread / np.sqrt(n)
    half = np.maximum(half, 1 - tail ** (1 / n_queries)) if n_queries else np.where(spread > 0, half, np.inf)
    return Bands(mean, np.maximum(mean - half, bounds[0]), np.minimum(mean + half, bounds[1]), n)


def least(bands_at: Callable[[float], Bands], level: float) -> Interval:
    """The least of the cells' values, its interval at `level`.

    The least value exceeds a bound if every cell does, so the lower end is the least of the cells' (an
    intersection-union test, which needs no correction). Any cell could make the least look small by chance, so the
    upper end is that of Bonferroni intervals.
    """
    found = bands_at(level)
    wide = bands_at(1 - (1 - level) / len(found.value))
    method = f"least of {len(found.value)} cells: lower end uncorrected, upper end by Bonferroni"
    value = float(found.value.min())
    return Interval(value, float(found.low.min()), float(wide.high.min()), level, found.n, method)


def largest(bands_at: Callable[[float], Bands], level: float) -> Interval:
    """The largest of the cells' values, as in `least`."""
    found = bands_at(level)
    wide = bands_at(1 - (1 - level) / len(found.value))
    method = f"largest of {len(found.value)} cells: upper end uncorrected, lower end by Bonferroni"
    value = float(found.value.max())
    return Interval(value, float(wide.low.max()), float(found.high.max()), level, found.n, method)


def largest_size(bands_at: Callable[[float], Bands], level: float) -> Interval:
    """The largest absolute value of the cells: below a margin exactly if every cell is equivalent to zero."""
    found = bands_at(level)
    wide = bands_at(1 - (1 - level) / len(found.value))
    method = f"largest size of {len(found.value)} cells: upper end uncorrected, lower end by Bonferroni"
    low = max(0.0, float(wide.low.max()), float(-wide.high.min()))
    high = float(max(found.high.max(), -found.low.min()))
    return Interval(float(np.abs(found.value).max()), low, high, level, found.n, method)


def over_seeds(found: pd.DataFrame, level: float) -> Interval:
    """The mean error over seeds, at one setting.

    The interval is the union of that of the mean over seeds and the exact binomial one of all queries pooled; the
    latter alone where all seeds agree, as with no error at all.
    """
    values = found.sort_values("unit")["value"].to_numpy(float)
    n_queries = int(found["n_tokens"].sum())
    mean = float(values.mean())
    exact = binomial_interval(round(mean * n_queries), n_queries, level=level)
    low, high = exact.low, exact.high
    if np.ptp(values) > 0:
        seeds = cautious_mean(values, rng=0, level=level, bounds=(0, 1))
        low, high = min(seeds.low, low), max(seeds.high, high)
    method = "mean over seeds, not narrower than the binomial interval of all queries"
    return Interval(mean, min(low, mean), max(high, mean), level, len(values), method)


def difference(first: pd.DataFrame, second: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """The mean of first - second over the seeds that both have."""
    pairs = (
        first.set_index("unit")["value"].to_frame("first").join(second.set_index("unit")["value"].rename("second"))
    )
    pairs = pairs.dropna().sort_index()
    if len(pairs) < 2:
        return NotMeasurable(f"{len(pairs)} seeds have both values; a paired difference needs two")
    values = (pairs["first"] - pairs["second"]).to_numpy(float)
    found = bands(values[None], level, int(first["n_tokens"].sum()))
    return Interval(float(found.value[0]), float(found.low[0]), float(found.high[0]), level, len(pairs), "paired t")
