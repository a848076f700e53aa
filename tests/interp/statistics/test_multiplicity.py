"""Tests over many dependent heads: sign-flip max-T and false discovery rates."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from statsmodels.stats.multitest import multipletests

from interp.statistics import benjamini_hochberg, benjamini_yekutieli, multiplicity, sign_flip_max_t

repeatable = settings(deadline=None, derandomize=True)  # a busy machine or a new draw is no failure


def correlated(rng, n, n_heads, rho):
    shared = rng.standard_normal((n, 1))
    return np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.standard_normal((n, n_heads))


def brute_force(data, sign=None):
    """Step-down max-T by its definition, every flip a fresh t-test."""
    extreme = np.abs if sign is None else lambda t: sign * t
    observed = extreme(stats.ttest_1samp(data, 0).statistic)
    flips = [
        extreme(stats.ttest_1samp(data * np.array(s)[:, None], 0).statistic)
        for s in itertools.product((1, -1), repeat=len(data))
    ]
    order = np.argsort(-observed)
    adjusted, running = np.empty(len(observed)), 0.0
    for rank, head in enumerate(order):
        largest = np.array([flip[order[rank:]].max() for flip in flips])
        running = max(running, np.mean(largest >= observed[head] - 1e-7))
        adjusted[head] = running
    return adjusted


@pytest.mark.parametrize(("alternative", "sign"), [("two-sided", None), ("greater", 1), ("less", -1)])
def test_max_t_equals_its_definition(alternative, sign):
    data = correlated(np.random.default_rng(0), 7, 4, 0.5) + np.array([0, 0.5, -1, 2])
    ours = sign_flip_max_t(data, rng=0, alternative=alternative)
    assert ours.exact
    assert ours.n_flips == 128
    np.testing.assert_allclose(ours.t, stats.ttest_1samp(data, 0).statistic)
    np.testing.assert_allclose(ours.p_adjusted, brute_force(data, sign), atol=1e-12)


def test_random_flips_approach_the_exact_ones():
    data = correlated(np.random.default_rng(1), 10, 5, 0.3) + np.array([0, 0.2, 0.4, 0.6, 0.8])
    exact = sign_flip_max_t(data, rng=0, n_flips=1023)
    random = sign_flip_max_t(data, rng=0, n_flips=1022)
    assert (exact.exact, random.exact) == (True, False)
    # Monte Carlo error of a p-value from 1022 flips is at most 0.016.
    np.testing.assert_allclose(random.p_adjusted, exact.p_adjusted, atol=0.07)
    assert (random.p_adjusted >= random.smallest_p).all()


def test_closed_forms():
    data = np.stack([np.ones(5), np.zeros(5), -np.ones(5)], 1)
    ours = sign_flip_max_t(data, rng=0)
    np.testing.assert_array_equal(ours.t, [np.inf, 0, -np.inf])
    np.testing.assert_allclose(ours.p_adjusted, [2 / 32, 1, 2 / 32])
    assert ours.smallest_p == 2 / 32


@repeatable
@given(arrays(float, (6, 3), elements=st.floats(-5, 5).map(lambda x: round(x, 3))), st.permutations(range(3)))
def test_max_t_ignores_head_order_unit_and_sign(data, order):
    ours = sign_flip_max_t(data, rng=0).p_adjusted
    assert ((ours > 0) & (ours <= 1)).all()
    changed = sign_flip_max_t(data[:, order] * np.array([2.0, -3, 0.5]), rng=0).p_adjusted
    np.testing.assert_allclose(changed, ours[list(order)])


def test_chunking_changes_nothing(monkeypatch):
    data = correlated(np.random.default_rng(2), 30, 6, 0.5)
    whole = sign_flip_max_t(data, rng=3, n_flips=500)
    monkeypatch.setattr(multiplicity, "_CHUNK", 400)
    np.testing.assert_array_equal(sign_flip_max_t(data, rng=3, n_flips=500).p_adjusted, whole.p_adjusted)


def test_familywise_error_is_nominal_for_strongly_correlated_heads():
    rng, trials = np.random.default_rng(3), 1000
    smallest, bonferroni = np.empty(trials), np.empty(trials)
    for i in range(trials):
        data = correlated(rng, 20, 50, 0.9)
        ours = sign_flip_max_t(data, rng=rng, n_flips=199)
        smallest[i] = ours.p_adjusted.min()
        bonferroni[i] = 50 * 2 * stats.t.sf(np.abs(ours.t).max(), 19)
    # Exactly 0.05 in theory; Monte Carlo error 0.0069, bound 4 of them.
    assert abs((smallest <= 0.05).mean() - 0.05) < 0.028
    assert (bonferroni <= 0.05).mean() < 0.02  # what ignoring the dependence would waste


def test_familywise_error_holds_beside_real_effects_and_finds_them():
    rng, trials = np.random.default_rng(4), 600
    errors = found = 0.0
    for _ in range(trials):
        data = correlated(rng, 20, 20, 0.8)
        data[:, :10] += 1.5
        p = sign_flip_max_t(data, rng=rng, n_flips=199).p_adjusted
        errors += (p[10:] <= 0.05).any() / trials
        found += (p[:10] <= 0.05).mean() / trials
    assert errors <= 0.05 + 4 * 0.0089  # Monte Carlo error 0.0089
    assert found > 0.95


def test_power_rises_with_problems():
    rng, trials = np.random.default_rng(5), 200
    rates = []
    for n in (10, 20, 40):
        hits = [
            sign_flip_max_t(correlated(rng, n, 20, 0.5) + 0.6 * (np.arange(20) == 0), rng=rng, n_flips=199)
            for _ in range(trials)
        ]
        rates.append(np.mean([hit.p_adjusted[0] <= 0.05 for hit in hits]))
    assert rates[0] + 0.15 < rates[1] < rates[2] - 0.15  # Monte Carlo error of a difference at most 0.05


@repeatable
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_false_discovery_rates_equal_statsmodels(values):
    p = np.array(values)
    bh, by = benjamini_hochberg(p), benjamini_yekutieli(p)
    np.testing.assert_allclose(bh, multipletests(p, method="fdr_bh")[1], atol=1e-12)
    np.testing.assert_allclose(by, multipletests(p, method="fdr_by")[1], atol=1e-12)
    assert (p <= bh + 1e-12).all()
    assert (bh <= by + 1e-12).all()


def test_benjamini_hochberg_by_hand():
    np.testing.assert_allclose(benjamini_hochberg(np.array([0.01, 0.04, 0.03, 0.5])), [0.04, 0.16 / 3, 0.16 / 3, 0.5])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sign_flip_max_t(np.ones((1, 3)), rng=0), "1 units arrived"),
        (lambda: sign_flip_max_t(np.ones((3, 0)), rng=0), "no heads"),
        (lambda: sign_flip_max_t(np.full((3, 2), np.nan), rng=0), "6 of 6 values"),
        (lambda: sign_flip_max_t(np.ones((3, 2)), rng=0, n_flips=0), "n_flips 0"),
        (lambda: benjamini_hochberg(np.array([])), "0 units"),
        (lambda: benjamini_yekutieli(np.array([0.5, 1.5])), "expected \\[0, 1\\]"),
    ],
)
def test_bad_input_says_what_arrived(call, message):
    with pytest.raises(ValueError, match=message):
        call()
