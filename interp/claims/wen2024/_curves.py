"""What do training curves say of attention and accuracy? Curves by run, and contrasts of runs that solve and fail."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from jaxtyping import Real

from interp.core.judging import mean_over
from interp.core.parts import NotMeasurable
from interp.statistics import Interval

DRAWN = ("sample_complexity", "censored_at", "test_accuracy", "accuracy", "entropy_min")
"""The metrics of a run's outcome and of its two curves."""


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy, and entropy averaged over heads, of every run at every evaluation."""
    metrics = rows[rows["metric"].isin(["accuracy", "entropy_min"])]
    return metrics.groupby(["run", "samples", "metric"])["value"].mean().unstack("metric").reset_index()


def excess_fall(
    steps: Real[np.ndarray, "point"], values: Real[np.ndarray, "point"], start: float, end: float
) -> float:
    """How much more a curve falls from `start` to `end` than its rates before and after would have it fall.

    The fall, minus its time times the mean of two rates: from the first step to `start`, and after `end` over as much
    time, or what there is of it. 0 for any line, and the height of a step in between. NaN where the curve ends before
    half of that time.
    """
    length, after = end - start, min(end - start, steps[-1] - end)
    if not 0 < length <= 2 * after:
        return np.nan
    first, left, right, last = np.interp([steps[0], start, end, end + after], steps, values)
    before = (first - left) / (start - steps[0]) if start > steps[0] else 0.0
    return float((left - right) - length * (before + (right - last) / after) / 2)


def difference_of_means(
    first: pd.Series | np.ndarray, second: pd.Series | np.ndarray, level: float, bounds: tuple[float, float]
) -> Interval | NotMeasurable:
    """The mean of `first` minus that of `second`, two independent groups of runs with values in `bounds`."""
    return difference_of_centres(first, second, level, bounds)


def difference_of_centres(
    first: pd.Series | np.ndarray,
    second: pd.Series | np.ndarray,
    level: float,
    bounds: tuple[float, float],
    centre: Callable[..., Interval | NotMeasurable] = mean_over,
) -> Interval | NotMeasurable:
    """The mean, or another `centre`, of `first` minus that of `second`, two independent groups of runs.

    The interval recovers the variances from those of the two centres (MOVER: Zou and Donner 2008; Newcombe's interval
    is the same for proportions), so that two or three runs in a group, or runs that all agree, widen it.
    """
    a, b = (centre(group, level, bounds) for group in (first, second))
    if isinstance(a, NotMeasurable) or isinstance(b, NotMeasurable):
        return NotMeasurable(f"{len(first)} and {len(second)} runs to compare; each group needs two")
    gap = a.value - b.value
    low = gap - float(np.hypot(a.value - a.low, b.high - b.value))
    high = gap + float(np.hypot(a.high - a.value, b.value - b.low))
    widest = bounds[1] - bounds[0]
    return Interval(
        gap,
        max(low, -widest),
        min(high, widest),
        level,
        a.n + b.n,
        f"MOVER of two {'means' if centre is mean_over else 'medians'}",
    )
