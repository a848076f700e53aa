"""Equivalence tests and power of paired designs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import ttost_paired

from interp.statistics import n_for_power, paired_equivalence, power_of_paired_t

repeatable = settings(deadline=None, derandomize=True)  # a busy machine or a new draw is no failure


def test_tost_equals_statsmodels():
    rng = np.random.default_rng(0)
    for n in (3, 10, 50):
        differences = 0.1 + rng.standard_normal(n)
        ours = paired_equivalence(differences, low=-0.5, high=0.7)
        assert ours.p_value == pytest.approx(ttost_paired(differences, np.zeros(n), -0.5, 0.7)[0])


@repeatable
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=20), st.floats(0.1, 2), st.floats(0.01, 0.4))
def test_tost_agrees_with_its_interval(values, margin, alpha):
    ours = paired_equivalence(np.array(values), low=-margin, high=margin, alpha=alpha)
    inside = -margin < ours.difference.low and ours.difference.high < margin
    ends = np.array([ours.difference.low, ours.difference.high])
    if np.abs(np.abs(ends) - margin).min() > 1e-9:  # a tie may round either way
        assert ours.equivalent == inside
    assert ours.difference.level == pytest.approx(1 - 2 * alpha)


def test_tost_without_variance():
    assert paired_equivalence(np.full(5, 0.1), low=-1, high=1).p_value == 0
    assert paired_equivalence(np.full(5, 1.0), low=-1, high=1).p_value == 1


def test_tost_type_one_error_is_nominal_at_the_margin_and_power_rises():
    rng, trials = np.random.default_rng(1), 4000
    null = [paired_equivalence(1 + 0.5 * rng.standard_normal(10), low=-1, high=1) for _ in range(trials)]
    # Exactly 0.05 in theory, the other margin being 12 standard errors away; Monte Carlo error 0.0034.
    assert abs(np.mean([test.equivalent for test in null]) - 0.05) < 4.5 * 0.0034
    rates = [
        np.mean([paired_equivalence(2 * rng.standard_normal(n), low=-1, high=1).equivalent for _ in range(400)])
        for n in (10, 40, 160)
    ]
    assert rates[0] + 0.1 < rates[1] < rates[2] - 0.1  # Monte Carlo error of a difference at most 0.035


@repeatable
@given(st.floats(0.01, 2), st.integers(2, 300), st.floats(0.001, 0.2))
def test_power_equals_statsmodels(effect, n, alpha):
    theirs = TTestPower().power(effect, n, alpha, alternative="two-sided")
    if np.isnan(theirs) and effect * np.sqrt(n) > 5:  # theirs is NaN where the wrong tail vanishes
        theirs = TTestPower().power(effect, n, alpha / 2, alternative="larger")
    assert power_of_paired_t(2 * effect, 2.0, n, alpha=alpha) == pytest.approx(theirs, abs=1e-7)
    theirs = TTestPower().power(effect, n, alpha, alternative="larger")
    ours = power_of_paired_t(-effect, 1.0, n, alpha=alpha, alternative="one-sided")
    assert ours == pytest.approx(theirs, abs=1e-7)


def test_power_without_effect_is_alpha_and_rises_with_n():
    assert power_of_paired_t(0, 1, 12, alpha=0.03) == pytest.approx(0.03)
    powers = [power_of_paired_t(0.3, 1, n) for n in range(2, 400)]
    assert np.all(np.diff(powers) >= -1e-12)
    assert powers[-1] > 0.99


def test_power_equals_simulation():
    samples = 0.8 + np.random.default_rng(2).standard_normal((20_000, 10))
    t = samples.mean(1) / (samples.std(1, ddof=1) / np.sqrt(10))
    # Monte Carlo error 0.0034.
    assert power_of_paired_t(0.8, 1, 10) == pytest.approx(np.mean(np.abs(t) > 2.2621572), abs=4.5 * 0.0034)


@repeatable
@given(st.floats(0.02, 5), st.floats(0.1, 0.99))
def test_n_for_power_is_the_smallest(effect, power):
    n = n_for_power(effect, 1.0, power=power)
    assert power_of_paired_t(effect, 1.0, n) >= power
    assert n == 2 or power_of_paired_t(effect, 1.0, n - 1) < power


def test_n_for_power_by_the_textbook():
    assert n_for_power(0.5, 1.0, power=0.8) == 34
    assert n_for_power(0.5, 1.0, power=0.8, alternative="one-sided") == 27


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_equivalence(np.array([1.0]), low=-1, high=1), "at least 2"),
        (lambda: paired_equivalence(np.ones(3), low=1, high=-1), "expected low < high"),
        (lambda: paired_equivalence(np.ones(3), low=-1, high=1, alpha=0.5), "alpha 0.5"),
        (lambda: power_of_paired_t(1, 0, 5), "sd 0"),
        (lambda: power_of_paired_t(1, 1, 1), "n = 1"),
        (lambda: n_for_power(0, 1), "effect 0"),
        (lambda: n_for_power(1e-9, 1), "2\\^31"),
        (lambda: n_for_power(1, 1, power=1), "level 1"),
    ],
)
def test_bad_input_says_what_arrived(call, message):
    with pytest.raises(ValueError, match=message):
        call()
