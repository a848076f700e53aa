"""What does the typical unit do? The median over units, or another quantile, with an interval for any distribution.

A mean of training runs can be moved anywhere by a rare run that collapses, which a handful of seeds need not contain:
seeds at 0.97 to 1 with a chance of 15% to fall to 0 have a mean below 0.85, and six of them look perfect in four
draws of ten. A statement about the median claims nothing about rare runs, so it is not fooled by their absence.
"""

import math

import numpy as np
from jaxtyping import Real

from interp.statistics.interval import Interval, Number, check_level, checked


def median_interval(
    values: Real[np.ndarray, "unit"],
    *,
    level: Number = 0.95,
    bounds: tuple[Number, Number] = (-np.inf, np.inf),
    share: Number = 0.5,
) -> Interval:
    """The median over units of a quantity within `bounds`, with the exact interval between two order statistics.

    At least half of all units lie on either side of the median, so the r-th smallest of n values is above it with
    probability at most P(Binomial(n, 1/2) < r); r is the largest rank for which that is at most (1 - level) / 2.
    Where even r = 1 is not (n < 6 at 95%, n < 8 at 98.75%), the interval reaches to the bounds. Coverage is at least
    `level` for every distribution, ties and atoms included. With another `share` than a half it is the quantile that
    this share of all units lies below, with the same guarantee at either end.
    """
    low, high = bounds
    data = np.sort(checked(values, "median_interval", at_least=1))
    check_level(level)
    if not 0 < share < 1:
        raise ValueError(f"median_interval: share {share:g}; expected a number between 0 and 1")
    if not low <= data[0] <= data[-1] <= high:
        raise ValueError(f"median_interval: values in [{data[0]:g}, {data[-1]:g}]; expected [{low:g}, {high:g}]")
    lower, upper = (_rank(len(data), (1 - level) / 2, of) for of in (share, 1 - share))
    ends = (float(data[lower - 1]) if lower else float(low), float(data[-upper]) if upper else float(high))
    return Interval(float(np.quantile(data, share)), *ends, level, len(data), "order statistics")


def _rank(n: int, tail: float, share: Number) -> int:
    """The largest r with P(Binomial(n, share) < r) <= tail; 0 if there is none."""
    below, rank = 0.0, 0
    while (below := below + math.comb(n, rank) * share**rank * (1 - share) ** (n - rank)) <= tail * (1 + 1e-12):
        rank += 1
    return rank
