"""The mean of a table of problems and runs: against an analysis of variance, and its coverage."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats

from interp.statistics.crossed import crossed_mean


def sampled(rng, n_problems: int, n_runs: int, problem: float, run: float, noise: float) -> np.ndarray:
    return (
        problem * rng.normal(size=(n_problems, 1))
        + run * rng.normal(size=(1, n_runs))
        + noise * rng.normal(size=(n_problems, n_runs))
    )


def test_the_mean_squares_are_those_of_an_analysis_of_variance():
    values = sampled(np.random.default_rng(0), 7, 3, 1.0, 0.5, 0.3)
    problem, run = np.indices(values.shape).reshape(2, -1)
    frame = pd.DataFrame({"y": values.reshape(-1), "problem": problem, "run": run})
    squares = sm.stats.anova_lm(smf.ols("y ~ C(problem) + C(run)", frame).fit())
    a, b = (squares.loc[name, "sum_sq"] / squares.loc[name, "df"] for name in ("C(problem)", "C(run)"))
    half = stats.t.ppf(0.975, (a + b) ** 2 / (a**2 / 6 + b**2 / 2)) * np.sqrt((a + b) / 21)
    found = crossed_mean(values)
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half))
    assert found.n == 7


def test_without_differences_between_problems_it_is_the_t_interval_over_runs():
    runs = np.array([0.1, 0.4, 0.2])
    found = crossed_mean(np.tile(runs, (50, 1)))
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 2, runs.mean(), stats.sem(runs)))


def test_without_differences_between_runs_it_is_the_t_interval_over_problems():
    problems = np.random.default_rng(1).normal(size=30)
    found = crossed_mean(np.tile(problems[:, None], (1, 3)))
    expected = stats.t.interval(0.95, 29, problems.mean(), stats.sem(problems))
    assert (found.low, found.high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("problem", "run", "noise"), [(1, 0, 0.1), (0.1, 1, 0.1), (1, 0.2, 1), (0, 0, 1), (1, 1, 0), (0.3, 0.1, 0.2)]
)
def test_it_covers_the_true_mean_where_problems_alone_would_not(problem, run, noise):
    rng = np.random.default_rng(2)
    found = [crossed_mean(sampled(rng, 40, 3, problem, run, noise)) for _ in range(1000)]
    covered = np.mean([interval.low <= 0 <= interval.high for interval in found])
    assert covered >= 0.93  # the Monte Carlo error is 0.007


@pytest.mark.parametrize("run", [0.2, 1.0])
def test_with_two_runs_it_covers_as_little_as_it_says(run):
    rng = np.random.default_rng(3)
    found = [crossed_mean(sampled(rng, 100, 2, 1, run, 0.3)) for _ in range(2000)]
    covered = np.mean([interval.low <= 0 <= interval.high for interval in found])
    assert 0.86 <= covered <= 0.93


def test_values_that_agree_have_no_width():
    found = crossed_mean(np.full((4, 3), 0.5))
    assert (found.low, found.value, found.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(("shape", "message"), [((1, 3), "1 units"), ((4, 1), "1 runs arrived.*more seeds")])
def test_one_problem_or_one_run_is_too_few(shape, message):
    with pytest.raises(ValueError, match=message):
        crossed_mean(np.zeros(shape))


def test_problems_of_one_cluster_count_once():
    rng = np.random.default_rng(3)
    values = sampled(rng, 12, 3, 1.0, 0.5, 0.3)
    once, copied = crossed_mean(values), crossed_mean(np.repeat(values, 4, axis=0), clusters=np.repeat(range(12), 4))
    assert (copied.low, copied.high, copied.n) == pytest.approx((once.low, once.high, 12))
    assert crossed_mean(values, clusters=np.arange(12)) == once
