"""Does a quantity grow along a straight line? How far a fitted parabola departs from its chord."""

import numpy as np
from jaxtyping import Float, Real
from scipy.special import ndtr, stdtrit

from interp.statistics.interval import Interval, Number, check_level, checked
from interp.statistics.means import Rng, central_range


def departure_from_line(
    x: Real[np.ndarray, "run"],
    y: Real[np.ndarray, "_"],
    *,
    rng: Rng,
    level: Number = 0.95,
    n_resamples: int = 999,
) -> Interval:
    """(parabola - chord) / chord in the middle of the range of x: 0 for any straight line a + b x, whatever a is.

    The parabola is fitted to the positive y by least squares with relative errors, the chord joins its ends. Growth
    as x^2 over a range of 1 to 5 gives -0.31, as sqrt(x) +0.07. The interval is a bootstrap of runs within each x
    (n - 1 of n runs drawn, as in `growth_comparison`), with percentiles at the t quantile's tail. At least three
    values of x with two runs each.
    """
    check_level(level)
    sizes, values = checked(x, "departure_from_line", 6), checked(y, "departure_from_line", 6)
    if len(sizes) != len(values) or (values <= 0).any():
        raise ValueError("departure_from_line: expected one positive y for each x")
    distinct, place, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    if len(distinct) < 3 or counts.min() < 2:
        raise ValueError(
            f"departure_from_line: {len(distinct)} values of x with at least {counts.min()} runs; expected 3 with 2"
        )
    generator = np.random.default_rng(rng)
    weights = np.empty((n_resamples, len(sizes)))
    for size, n in enumerate(counts):
        weights[:, place == size] = generator.multinomial(n - 1, np.full(n, 1 / n), n_resamples) * (n / (n - 1))
    degrees = len(sizes) - len(distinct)
    tail = float(ndtr(-stdtrit(degrees, (1 + level) / 2)))
    value = float(_departures(sizes, values, place, np.ones((1, len(sizes))))[0])
    low, high = central_range(_departures(sizes, values, place, weights), tail)
    return Interval(value, min(low, value), max(high, value), level, len(sizes), "bootstrap of runs within x")


def _departures(
    x: Float[np.ndarray, "run"],
    y: Float[np.ndarray, "run"],
    place: np.ndarray,
    weights: Float[np.ndarray, "resample run"],
) -> Float[np.ndarray, "resample"]:
    scaled = 2 * (x - x.min()) / np.ptp(x) - 1  # the range becomes [-1, 1]
    design = np.stack([np.ones_like(scaled), scaled, scaled**2], -1)
    centre = np.array([y[place == size].mean() for size in range(place.max() + 1)])[place]
    precise = weights / centre**2
    moments = np.einsum("br,ri,rj->bij", precise, design, design)
    a, _, c = np.linalg.solve(moments, np.einsum("br,ri,r->bi", precise, design, y)[..., None])[..., 0].T
    chord = a + c  # the mean of the two ends
    return np.divide(-c, chord, out=np.full_like(chord, np.nan), where=chord > 0)
