"""Intervals for means, clusters and proportions, and the verdict rule."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from interp.statistics import (
    Interval,
    binomial_interval,
    binomial_p_value,
    bootstrap_mean,
    cautious_mean,
    cluster_bootstrap,
    clustered_mean,
    decide,
    paired_difference,
    proportion_difference,
)
from interp.statistics.means import central_range, expanded_tail

repeatable = settings(deadline=None, derandomize=True)  # a busy machine or a new draw is no failure

numbers = st.floats(-100, 100)


def within(rate: float, target: float, trials: int, sds: float = 4.5) -> bool:
    """Whether a simulated rate is within `sds` Monte Carlo standard deviations of its target."""
    return abs(rate - target) <= sds * np.sqrt(target * (1 - target) / trials)


@pytest.mark.parametrize(
    ("low", "high", "threshold", "direction", "outcome"),
    [
        (1.0, 2.0, 0.5, "above", "supported"),
        (1.0, 2.0, 1.5, "above", "inconclusive"),
        (1.0, 2.0, 2.5, "above", "refuted"),
        (1.0, 2.0, 2.5, "below", "supported"),
        (1.0, 2.0, 0.5, "below", "refuted"),
        (1.0, 2.0, 1.0, "above", "inconclusive"),  # touching is not beyond
        (0.0, 0.0, 0.0, "above", "inconclusive"),
        (1.0, np.inf, 0, "above", "supported"),
        (-np.inf, np.inf, 0, "above", "inconclusive"),
    ],
)
def test_decide_by_the_whole_interval(low, high, threshold, direction, outcome):
    estimate = Interval((low + high) / 2 if np.isfinite(low + high) else 1.0, low, high, 0.95, 5)
    assert decide(estimate, threshold=threshold, direction=direction) == outcome


@repeatable
@given(numbers, st.floats(0, 50), st.floats(0, 50), numbers)
def test_decide_mirrors_itself(value, down, up, threshold):
    estimate = Interval(value, value - down, value + up, 0.95, 5)
    opposite = {"supported": "refuted", "refuted": "supported", "inconclusive": "inconclusive"}
    above = decide(estimate, threshold=threshold, direction="above")
    assert decide(estimate, threshold=threshold, direction="below") == opposite[above]
    wider = Interval(value, value - down - 300, value + up + 300, 0.95, 5)
    assert decide(wider, threshold=threshold, direction="above") == "inconclusive"


@pytest.mark.parametrize("bad", [(np.nan, 0, 1), (0, np.nan, 1), (0, 1, -1), (44.2, -1, 1), (-1.1, -1, 1)])
def test_interval_refuses_nonsense(bad):
    with pytest.raises(ValueError, match="Interval"):
        Interval(*bad, 0.95, 5)


def test_the_interval_of_a_statistic_that_resamples_lessen_holds_its_estimate():
    found = cluster_bootstrap(np.arange(9.0), np.arange(9), lambda x: len(np.unique(x)), rng=0, n_resamples=200)
    assert found.value == found.high == 9 > found.low


def test_an_estimate_may_leave_its_interval_by_rounding():
    assert Interval(1 + 1e-8, -1, 1, 0.95, 5).value > 1
    assert Interval(-np.inf, -np.inf, 1, 0.95, 5).low == -np.inf


@repeatable
@given(st.lists(numbers, min_size=2, max_size=19), st.floats(0.5, 0.99))
def test_t_interval_is_scipys(values, level):
    data = np.array(values)
    ours = bootstrap_mean(data, rng=0, level=level)
    assert ours.method == "t"
    if data.std() > 1e-6:
        theirs = stats.ttest_1samp(data, 0).confidence_interval(level)
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("method", ["t", "percentile", "studentised"])
def test_intervals_move_and_stretch_with_the_data(method):
    data = np.random.default_rng(0).exponential(size=30)
    plain = bootstrap_mean(data, rng=1, method=method)
    moved = bootstrap_mean(10 - 2 * data, rng=1, method=method)
    assert plain.low < plain.value < plain.high
    assert (moved.low, moved.high) == pytest.approx((10 - 2 * plain.high, 10 - 2 * plain.low))
    assert bootstrap_mean(data, rng=1, method=method) == plain
    narrower = bootstrap_mean(data, rng=1, method=method, level=0.8)
    assert plain.low < narrower.low < narrower.high < plain.high


def test_studentised_equals_enumeration():
    data = np.array([1.0, 2.0, 4.0])  # all 27 resamples enumerated, those without variance are infinite
    draws = data[np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3)]
    with np.errstate(divide="ignore"):
        t = (draws.mean(1) - data.mean()) / (draws.std(1, ddof=1) / np.sqrt(3))
    exact = np.sort(t)[[5, 21]]  # a tail of 0.2 of 27 skips 5 at either end
    ours = bootstrap_mean(data, rng=0, method="studentised", level=0.6, n_resamples=200_000)
    error = data.std(ddof=1) / np.sqrt(3)
    assert (ours.low, ours.high) == pytest.approx((data.mean() - exact[1] * error, data.mean() - exact[0] * error))


def test_percentile_stays_inside_the_data_and_equal_units_have_no_width():
    hits = np.array([1.0] * 19 + [0.9])
    ours = bootstrap_mean(hits, rng=0, method="percentile")
    assert 0.9 <= ours.low < ours.high <= 1.0
    assert "percentile" in bootstrap_mean(hits, rng=0).method
    for method in ("t", "percentile", "studentised"):
        flat = bootstrap_mean(np.full(6, 0.25), rng=0, method=method)
        assert flat.low == flat.value == flat.high == 0.25


def test_expanded_tail_limits():
    assert expanded_tail(10**7, 0.95) == pytest.approx(0.025, rel=1e-5)
    assert expanded_tail(5, 0.95) == pytest.approx(stats.norm.cdf(-np.sqrt(5 / 4) * stats.t.ppf(0.975, 4)))


def test_undefined_replicates_count_as_anything():
    replicates = np.array([np.nan, *range(99)], dtype=float)
    assert central_range(replicates, 0.0) == (-np.inf, np.inf)
    assert central_range(replicates, 0.01) == (0.0, 98.0)


def test_t_interval_covers_at_five_seeds_and_plain_percentiles_would_not():
    rng, trials = np.random.default_rng(0), 4000
    samples = rng.standard_normal((trials, 5))
    intervals = [bootstrap_mean(sample, rng=0) for sample in samples]
    assert within(np.mean([i.low <= 0 <= i.high for i in intervals]), 0.95, trials)
    resampled = samples[np.arange(1000)[:, None, None], rng.integers(0, 5, (1000, 999, 5))].mean(-1)
    low, high = np.quantile(resampled, [0.025, 0.975], axis=1)
    assert np.mean((low <= 0) & (high >= 0)) < 0.88  # 0.84 expected, Monte Carlo error 0.012


@pytest.mark.parametrize(("method", "expected"), [("percentile", 0.919), ("studentised", 0.943)])
def test_bootstrap_coverage_for_skewed_data(method, expected):
    rng, trials = np.random.default_rng(1), 1500
    intervals = [
        bootstrap_mean(rng.exponential(size=20), rng=rng, method=method, n_resamples=999) for _ in range(trials)
    ]
    assert within(np.mean([i.low <= 1 <= i.high for i in intervals]), expected, trials)


@settings(repeatable, max_examples=30)
@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=30))
def test_paired_difference_is_antisymmetric(pairs):
    first, second = np.array(pairs).T.copy()
    forward = paired_difference(first, second, rng=0, n_resamples=199)
    backward = paired_difference(second, first, rng=0, n_resamples=199)
    assert forward.value == pytest.approx(np.mean(first - second))
    assert (forward.low, forward.high) == pytest.approx((-backward.high, -backward.low), abs=1e-9)


def test_paired_difference_uses_the_pairing():
    rng = np.random.default_rng(0)
    problem = 100 * rng.standard_normal(40)
    ours = paired_difference(problem + 1 + 0.1 * rng.standard_normal(40), problem, rng=0)
    assert 0.9 < ours.low < 1 < ours.high < 1.1
    with pytest.raises(ValueError, match="join the two conditions"):
        paired_difference(problem, problem[:-1], rng=0)


def test_cluster_bootstrap_covers_where_observations_do_not():
    rng, trials, covered, naive = np.random.default_rng(2), 300, 0, 0
    clusters = np.repeat(np.arange(20), 5)
    for _ in range(trials):
        values = rng.standard_normal(20)[clusters] + 0.3 * rng.standard_normal(100)
        ours = cluster_bootstrap(values, clusters, np.mean, rng=rng, n_resamples=399)
        covered += ours.low <= 0 <= ours.high
        token = bootstrap_mean(values, rng=rng, n_resamples=399)
        naive += token.low <= 0 <= token.high
    assert within(covered / trials, 0.95, trials)
    assert naive / trials < 0.75  # 0.63 expected, Monte Carlo error 0.028: the cluster is the replication


@pytest.mark.parametrize("sizes", [np.full(20, 5), np.arange(1, 21), np.full(4, 3)])
def test_clustered_mean_covers_where_observations_do_not(sizes):
    rng, clusters = np.random.default_rng(4), np.repeat(np.arange(len(sizes)), sizes)
    covered = 0
    for _ in range(1000):
        values = rng.standard_normal(len(sizes))[clusters] + 0.3 * rng.standard_normal(len(clusters))
        ours = clustered_mean(values, clusters, rng=0)
        covered += ours.low <= 0 <= ours.high
        assert ours.n == len(sizes)
    assert covered >= 930  # the Monte Carlo error is 7


def test_clustered_mean_of_single_observations_is_the_plain_mean():
    values, names = np.random.default_rng(5).normal(size=30), np.array([f"p{i}" for i in range(30)])
    assert clustered_mean(values, names, rng=0, level=0.9) == bootstrap_mean(values, rng=0, level=0.9)
    same = np.repeat(values[:10], 3)  # copies add nothing
    ours, theirs = clustered_mean(same, np.repeat(names[:10], 3), rng=0), bootstrap_mean(values[:10], rng=0)
    assert (ours.value, ours.low, ours.high) == pytest.approx((theirs.value, theirs.low, theirs.high))


def test_cluster_bootstrap_resamples_whole_clusters_of_any_size_and_label():
    values = np.array([[1.0, 1], [2, 2], [2, 2], [3, 3], [4, 4], [5, 5]])
    labels = np.array(["a", "b", "b", "c", "d", "e"])

    def total(rows):
        assert (rows == 2).all(1).sum() % 2 == 0  # both rows of b or neither
        return float(rows[:, 0].sum())

    ours = cluster_bootstrap(values, labels, total, rng=0, n_resamples=500)
    assert (ours.value, ours.n) == (17.0, 5)
    assert 5 <= ours.low < 17 < ours.high <= 25


@repeatable
@given(st.integers(1, 200), st.data(), st.floats(0.5, 0.999))
def test_binomial_interval_is_clopper_pearson(trials, data, level):
    successes = data.draw(st.integers(0, trials))
    ours = binomial_interval(successes, trials, level=level)
    low, high = proportion_confint(successes, trials, alpha=1 - level, method="beta")
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=1e-9)


def test_binomial_closed_forms():
    assert binomial_interval(5, 5).low == pytest.approx(0.025 ** (1 / 5))
    assert binomial_p_value(5, 5, chance=0.5, alternative="greater") == pytest.approx(1 / 32)
    assert binomial_p_value(5, 5, chance=0.5) == pytest.approx(2 / 32)
    probabilities = stats.binom.pmf(np.arange(13), 12, 0.3)
    assert binomial_p_value(7, 12, chance=0.3) == pytest.approx(
        probabilities[probabilities <= probabilities[7] * (1 + 1e-9)].sum()
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_mean(np.array([]), rng=0), "0 units arrived"),
        (lambda: bootstrap_mean(np.array([1.0]), rng=0), "at least 2"),
        (lambda: bootstrap_mean(np.array([1.0, np.nan]), rng=0), "1 of 2 values are NaN"),
        (lambda: bootstrap_mean(np.array([1.0, 2]), rng=0, level=95), "level 95"),
        (lambda: bootstrap_mean(np.ones(30), rng=0, n_resamples=10), "at least 100"),
        (lambda: cluster_bootstrap(np.ones(4), np.arange(4), np.mean, rng=0), "4 clusters"),
        (lambda: clustered_mean(np.ones(4), np.zeros(4), rng=0), "1 cluster arrived"),
        (lambda: clustered_mean(np.ones(4), np.zeros(3), rng=0), "3 labels for 4"),
        (lambda: cluster_bootstrap(np.ones(4), np.arange(3), np.mean, rng=0), "3 labels for 4"),
        (lambda: cluster_bootstrap(np.ones(9), np.arange(9), lambda _: np.nan, rng=0), "NaN on a resample"),
        (lambda: binomial_interval(3, 2), "3 successes in 2 trials"),
        (lambda: binomial_interval(0, 0), "0 successes in 0 trials"),
        (lambda: binomial_p_value(1, 2, chance=1.5), "chance 1.5"),
        (lambda: decide(Interval(0, 0, 0, 0.9, 1), threshold=np.nan, direction="above"), "threshold"),
    ],
)
def test_bad_input_says_what_arrived(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_import_is_light():
    code = "import sys, interp.statistics; print(*{'torch', 'scipy.stats', 'statsmodels'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(("first", "second"), [((5, 5), (0, 5)), ((3, 8), (4, 9)), ((0, 4), (0, 4))])
def test_a_difference_of_proportions_equals_newcombe_in_statsmodels(first, second):
    found = proportion_difference(first, second)
    low, high = confint_proportions_2indep(*first, *second, method="newcomb", compare="diff")
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)
    assert found.value == pytest.approx(first[0] / first[1] - second[0] / second[1])


def test_a_cautious_mean_stays_in_its_bounds_and_refuses_one_seed():
    wide = cautious_mean(np.array([0.9, 1.0, 1.0]), rng=0, bounds=(0, 1))
    assert (wide.high, wide.n) == (1, 3)
    assert wide.low < 0.9
    for values in ([0.7], []):
        with pytest.raises(ValueError, match="at least 2 are needed"):
            cautious_mean(np.array(values), rng=0, bounds=(0, 1))
