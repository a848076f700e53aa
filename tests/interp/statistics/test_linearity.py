"""Is the departure from a straight line zero for lines, right for powers, and its interval honest?"""

import numpy as np
import pytest

from interp.statistics import departure_from_line
from interp.statistics.linearity import RUNS

X = np.repeat(np.array([20.0, 40.0, 60.0, 80.0, 100.0]), 6)


@pytest.mark.parametrize(("a", "b"), [(0.0, 3.0), (1200.0, 100.0), (3000.0, 100.0), (5.0, 0.0)])
def test_every_straight_line_departs_by_nothing(a, b):
    assert departure_from_line(X, a + b * X, rng=0, n_resamples=100).value == pytest.approx(0.0, abs=1e-9)


def test_a_square_hangs_below_its_chord_by_the_closed_form():
    found = departure_from_line(X, X**2, rng=0, n_resamples=100)
    assert found.value == pytest.approx((60**2 - (20**2 + 100**2) / 2) / ((20**2 + 100**2) / 2))
    assert departure_from_line(X, np.sqrt(X), rng=0, n_resamples=100).value > 0.05


@pytest.mark.parametrize(
    ("intercept", "x"), [(0.0, X), (12.0, X), (30.0, X), (0.0, np.repeat([20.0, 60.0, 100.0], RUNS))]
)
def test_the_interval_covers_a_line_with_any_intercept(intercept, x):
    generator = np.random.default_rng(0)
    n, missed = 300, 0
    for _ in range(n):
        y = (intercept * 20 + x) * np.exp(generator.normal(0, 0.15, len(x)))
        found = departure_from_line(x, y, rng=0, n_resamples=199)
        missed += not found.low <= 0 <= found.high
    assert missed / n < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def test_the_lower_quartile_is_not_bent_by_a_third_of_the_runs_that_take_far_longer():
    generator = np.random.default_rng(0)
    x = np.repeat(X[::6], 16)
    n, missed, widths = 200, {0.25: 0, 0.5: 0}, {0.25: [], 0.5: []}
    for _ in range(n):
        late = (x == x.min()) & (generator.random(len(x)) < 1 / 3)
        y = (240 + x) * np.exp(generator.normal(0, 0.08, len(x)) + late * generator.exponential(1.5, len(x)))
        true = {0.25: _departure_of_quartiles(late_share=1 / 3), 0.5: None}
        for share in missed:
            found = departure_from_line(x, y, rng=0, n_resamples=199, share=share)
            widths[share].append(found.high - found.low)
            if true[share] is not None:
                missed[share] += not found.low <= true[share] <= found.high
    assert missed[0.25] / n < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)
    assert np.median(widths[0.25]) < np.median(widths[0.5])


def _departure_of_quartiles(late_share: float) -> float:
    """That of the true lower quartiles in the test above, from many draws at the least x."""
    generator = np.random.default_rng(1)
    sizes, n = X[::6], 200_000
    quartiles = []
    for size in sizes:
        late = (size == sizes.min()) & (generator.random(n) < late_share)
        y = (240 + size) * np.exp(generator.normal(0, 0.08, n) + late * generator.exponential(1.5, n))
        quartiles.append(np.quantile(y, 0.25))
    return departure_from_line(np.repeat(sizes, RUNS), np.repeat(quartiles, RUNS), rng=0, n_resamples=10).value


def test_too_few_runs_and_values_that_are_not_positive_are_refused():
    with pytest.raises(ValueError, match="expected 3 with 4"):
        departure_from_line(np.repeat([1.0, 2.0, 3.0, 4.0], 3), np.ones(12), rng=0)
    with pytest.raises(ValueError, match="positive"):
        departure_from_line(X, X - 20, rng=0)
