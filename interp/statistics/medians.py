"""What does the typical unit do? The median over units, with an interval that assumes no distribution.

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
) -> Interval:
    """The median over units of a quantity within `bounds`, with the exact interval between two order statistics.

    At least half of all units lie on either side of the median, so the r-th smallest of n values is above it with
    probability at most P(Binomial(n, 1/2) < r); r is the largest rank for which that is at most (1 - level) / 2.
    Where even r = 1 is not (n < 6 at 95%, n < 8 at 98.75%), the interval reaches to the bounds. Coverage is at least
    `level` for every distribution, ties and atoms included.
    """
    low, high = bounds
    data = np.sort(checked(values, "median_interval", at_least=1))
    check_level(level)
    if not low <= data[0] <= data[-1] <= high:
        raise ValueError(f"median_interval: values in [{data[0]:g}, {data[-1]:g}]; expected [{low:g}, {high:g}]")
    rank = _rank(len(data), (1 - level) / 2)
    ends = (float(data[rank - 1]), float(data[-rank])) if rank else (float(low), float(high))
    return Interval(float(np.median(data)), *ends, level, len(data), "order statistics")


def _rank(n: int, tail: float) -> int:
    """The largest r with P(Binomial(n, 1/2) < r) <= tail; 0 if there is none."""
    allowed, below, rank = tail * 2.0**n * (1 + 1e-12), 0, 0
    while rank < n // 2 and (below := below + math.comb(n, rank)) <= allowed:
        rank += 1
    return rank
