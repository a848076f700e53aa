"""Does a quantity grow along a straight line? How far a fitted parabola departs from its chord."""

import numpy as np
from jaxtyping import Float, Real
from scipy.special import ndtr, stdtrit

from interp.statistics.interval import Interval, Number, check_level, checked
from interp.statistics.means import Rng, central_range

RUNS = 4
"""The fewest runs at each x."""


def departure_from_line(
    x: Real[np.ndarray, "run"],
    y: Real[np.ndarray, "_"],
    *,
    rng: Rng,
    level: Number = 0.95,
    share: Number = 0.5,
    n_resamples: int = 999,
) -> Interval:
    """(parabola - chord) / chord in the middle of the range of x: 0 for any straight line a + b x, whatever a is.

    The parabola is fitted to the median of the positive y at each x by least squares with relative errors, the chord
    joins its ends; medians, because a rare run that takes several times as long bends a curve of means; where such
    runs are not rare, a lower quantile, below which a `share` of the runs lies. Growth as x^2
    over a range of 1 to 5 gives -0.31, as sqrt(x) +0.07. The interval is a bootstrap of runs within each x (n - 1 of
    n runs drawn, as in `growth_comparison`), with percentiles at the t quantile's tail. At least three values of x
    with four runs each: with two or three the median of a resample takes too few values for it to cover what it says.
    """
    check_level(level)
    sizes, values = checked(x, "departure_from_line", 3 * RUNS), checked(y, "departure_from_line", 3 * RUNS)
    if len(sizes) != len(values) or (values <= 0).any():
        raise ValueError("departure_from_line: expected one positive y for each x")
    distinct, place, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    if len(distinct) < 3 or counts.min() < RUNS:
        raise ValueError(
            f"departure_from_line: {len(distinct)} values of x with {counts.min()} runs each; expected 3 with {RUNS}"
        )
    generator = np.random.default_rng(rng)
    groups = [values[place == size] for size in range(len(distinct))]
    middles = np.array([np.quantile(group, share) for group in groups])
    drawn = np.stack(
        [
            np.quantile(group[generator.integers(n, size=(n_resamples, n - 1))], share, -1)
            for group, n in zip(groups, counts)
        ],
        -1,
    )
    tail = float(ndtr(-stdtrit(len(sizes) - len(distinct), (1 + level) / 2)))
    value = float(_departures(distinct, middles[None], middles)[0])
    low, high = central_range(_departures(distinct, drawn, middles), tail)
    return Interval(value, min(low, value), max(high, value), level, len(sizes), "bootstrap of runs within x")


def _departures(
    x: Float[np.ndarray, "size"], y: Float[np.ndarray, "resample size"], scale: Float[np.ndarray, "size"]
) -> Float[np.ndarray, "resample"]:
    """Those of each row of `y`; errors are in proportion to `scale`."""
    scaled = 2 * (x - x.min()) / np.ptp(x) - 1  # the range becomes [-1, 1]
    design = np.stack([np.ones_like(scaled), scaled, scaled**2], -1)
    a, _, c = np.linalg.lstsq(design / scale[:, None], (y / scale).T, rcond=None)[0]
    chord = a + c  # the mean of the two ends
    return np.divide(-c, chord, out=np.full_like(chord, np.nan), where=chord > 0)
