"""Rank correlations against scipy and against regressions written out; reliability where the truth is known."""

import numpy as np
import pytest
from scipy import stats

from interp.statistics.ranks import rank_correlation, split_half


def drawn(n, seed=0):
    return np.random.default_rng(seed).normal(size=n)


def test_plain_correlation_is_spearmans_with_ties():
    first, second = np.round(drawn(30), 1), np.round(drawn(30, 1) + drawn(30), 1)
    assert rank_correlation(first, second) == pytest.approx(stats.spearmanr(first, second).statistic)
    assert rank_correlation(first, -first) == pytest.approx(-1)


def test_partial_correlation_is_that_of_residuals_of_ranks():
    position, length = np.arange(25.0), drawn(25, 3)
    first, second = drawn(25) + position, drawn(25, 1) - position + length
    design = np.stack([np.ones(25), *map(stats.rankdata, (position, length))], axis=1)
    left = [
        ranks - design @ np.linalg.lstsq(design, ranks, rcond=None)[0]
        for ranks in map(stats.rankdata, (first, second))
    ]
    found = rank_correlation(first, second, np.stack([position, length]))
    assert found == pytest.approx(stats.pearsonr(*left).statistic)
    assert rank_correlation(first, second) < -0.3
    assert abs(found) < 0.45, "what position alone does is gone"


def test_nothing_left_or_too_few_items_is_not_a_number():
    assert np.isnan(rank_correlation(np.arange(5.0), drawn(5), np.arange(5.0)[None]))
    assert np.isnan(rank_correlation(drawn(4), drawn(4, 1), np.stack([drawn(4, 2), drawn(4, 3)])))
    assert np.isnan(rank_correlation(np.ones(6), drawn(6)))


def test_reliability_is_high_where_items_differ_and_about_zero_where_they_do_not():
    items, noise = drawn(200, 5), np.random.default_rng(6).normal(size=(20, 200))
    assert split_half(items + 0.5 * noise, rng=0, n_splits=20) > 0.95
    assert abs(split_half(noise, rng=0, n_splits=20)) < 0.2
    with pytest.raises(ValueError, match="1 unit"):
        split_half(noise[:1], rng=0)
