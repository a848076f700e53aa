"""The median's interval: exact ranks, coverage for awkward distributions, and the collapse that deceives a mean."""

import numpy as np
import pytest
from scipy.stats import binom

from interp.statistics import decide, median_interval
from interp.statistics.means import cautious_mean


@pytest.mark.parametrize("n", range(1, 60))
@pytest.mark.parametrize("level", [0.9, 0.95, 0.9875])
def test_the_ranks_are_those_of_the_sign_test(n: int, level: float) -> None:
    values = np.arange(n, dtype=float)
    found = median_interval(values, level=level, bounds=(-1.0, float(n)))
    ranks = [r for r in range(1, n // 2 + 1) if binom.cdf(r - 1, n, 0.5) <= (1 - level) / 2 + 1e-12]
    expected = (values[ranks[-1] - 1], values[n - ranks[-1]]) if ranks else (-1.0, float(n))
    assert (found.low, found.high) == expected
    assert found.value == np.median(values)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.75])
def test_the_ranks_of_a_quantile_are_those_of_its_binomial(share: float) -> None:
    for n in range(1, 60):
        found = median_interval(np.arange(n, dtype=float), bounds=(-1.0, float(n)), share=share)
        low = [r for r in range(1, n + 1) if binom.cdf(r - 1, n, share) <= 0.025 + 1e-12]
        high = [r for r in range(1, n + 1) if binom.cdf(r - 1, n, 1 - share) <= 0.025 + 1e-12]
        assert found.low == (low[-1] - 1 if low else -1)
        assert found.high == (n - high[-1] if high else n)
        assert found.value == np.quantile(np.arange(n), share)
        mirrored = median_interval(-np.arange(n, dtype=float), bounds=(-float(n), 1.0), share=1 - share)
        assert (mirrored.low, mirrored.high) == (-found.high, -found.low)


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="share 1; expected a number between 0 and 1"):
        median_interval(np.arange(5.0), share=1)


@pytest.mark.parametrize(
    ("n", "level", "decides"),
    [(5, 0.95, False), (6, 0.95, True), (7, 0.975, True), (7, 0.9875, False), (8, 0.9875, True)],
)
def test_how_many_units_can_decide(n: int, level: float, decides: bool) -> None:
    outcome = decide(median_interval(np.full(n, 0.95), level=level, bounds=(0, 1)), threshold=0.9, direction="above")
    assert (outcome == "supported") is decides


def test_coverage_holds_with_atoms() -> None:
    rng = np.random.default_rng(0)
    draws = rng.choice([0.0, 0.5, 1.0], p=[0.3, 0.45, 0.25], size=(2000, 9))  # the median is 0.5
    found = [median_interval(draw, bounds=(0, 1)) for draw in draws]
    assert np.mean([one.low <= 0.5 <= one.high for one in found]) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 2000)


def test_a_rare_collapse_deceives_a_mean_of_few_runs_but_not_a_median() -> None:
    rng = np.random.default_rng(1)
    fine, collapsed = rng.uniform(0.97, 1, (2000, 6)), rng.random((2000, 6)) < 0.15
    means = [cautious_mean(np.where(c, 0.0, v), rng=0, bounds=(0, 1)) for v, c in zip(fine, collapsed)]
    assert np.mean([decide(one, threshold=0.9, direction="above") == "supported" for one in means]) > 0.3  # mean 0.84
    often = rng.random((2000, 6)) < 0.55  # most runs collapse: the median is 0
    medians = [median_interval(np.where(c, 0.0, v), bounds=(0, 1)) for v, c in zip(fine, often)]
    assert np.mean([decide(one, threshold=0.9, direction="above") == "supported" for one in medians]) < 0.03


def test_values_outside_the_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected \[0, 1\]"):
        median_interval(np.array([0.5, 1.2]), bounds=(0, 1))
