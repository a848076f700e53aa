"""Shares at the worst of several sizes, and what all kim2024 claims have in common."""

import importlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from interp.claims.kim2024._parts import counted, greatest_share, grid_exponent, least_share
from interp.core.claim import CLAIMS, seed_batches
from interp.core.judging import growth_exponent
from interp.core.parts import NotMeasurable

MODULES = ("lemmas", "thm2", "thm5", "thm5_noise", "thm7", "no_supervision")


def share(counts: list[int], n: int, level: float = 0.95):
    successes = pd.Series([seed < count for count in counts for seed in range(n)])
    return successes, pd.Series(np.repeat(16 * 2 ** np.arange(len(counts)), n)), level


class TestShares:
    def test_one_group_has_the_exact_interval(self):
        found = least_share(*share([10], 10))
        assert (found.value, found.n) == (1.0, 10)
        assert found.low == pytest.approx(0.025 ** (1 / 10))

    def test_the_worst_group_decides_and_only_the_upper_end_is_corrected(self):
        found, alone = least_share(*share([10, 4, 9], 10)), least_share(*share([4], 10))
        corrected = least_share(*share([4], 10, 1 - 0.05 / 3))
        assert (found.value, found.low, found.high) == (0.4, alone.low, corrected.high)
        assert found.level == 0.95

    def test_the_greatest_share_mirrors_the_least(self):
        found, mirrored = greatest_share(*share([0, 6, 1], 10)), least_share(*share([10, 4, 9], 10))
        assert (found.value, found.low, found.high) == pytest.approx((0.6, 1 - mirrored.high, 1 - mirrored.low))

    @pytest.mark.parametrize("shares", [(0.9, 0.9, 0.9), (0.9, 1.0, 1.0)])
    def test_the_least_share_is_covered(self, shares):
        generator = np.random.default_rng(0)
        draws = generator.binomial(10, shares, (500, 3))
        found = [least_share(*share(list(counts), 10)) for counts in draws]
        assert np.mean([one.low <= 0.9 <= one.high for one in found]) >= 0.95

    def test_counts_are_told_by_size(self):
        assert counted(*share([10, 9], 10)[:2]) == "10 of 10 at d=16, 9 of 10 at d=32"

    def test_no_seed_is_not_measurable(self):
        nothing = pd.Series([], dtype=bool)
        assert isinstance(least_share(nothing, nothing, 0.95), NotMeasurable)
        assert isinstance(greatest_share(nothing, nothing, 0.95), NotMeasurable)


def test_seeds_come_in_batches_from_any_first_seed():
    assert list(seed_batches(5, 2)) == [[0, 1], [2, 3], [4]]
    assert list(seed_batches(5, 2, first=100)) == [[100, 101], [102, 103], [104]]


@pytest.mark.parametrize("module", MODULES)
def test_fresh_seeds_change_the_seeds_alone(module):
    claim = importlib.import_module(f"interp.claims.kim2024.{module}")
    preset = claim.PRESETS["cpu"]
    old, new = claim.items(preset), claim.items(replace(preset, first_unit=1000))
    assert [seed + 1000 for item in old for seed in item.parameters["seeds"]] == [
        seed for item in new for seed in item.parameters["seeds"]
    ]
    assert [{**item.parameters, "seeds": 0} for item in old] == [{**item.parameters, "seeds": 0} for item in new]


@pytest.mark.parametrize("module", MODULES)
def test_published_rows_lead_to_the_same_judgement(module):
    claim = CLAIMS[importlib.import_module(f"interp.claims.kim2024.{module}").ID]
    rows = claim.worlds[-1].rows(np.random.default_rng(0))
    kept = claim.published(rows)
    assert claim.judge(kept, claim.presets["cpu"]) == claim.judge(rows, claim.presets["cpu"])
    assert list(kept.columns) == list(rows.columns)


def test_the_exponent_of_a_power_law_and_of_no_information():
    sizes = pd.Series(np.repeat([16.0, 32.0, 64.0], 10))
    noise = pd.Series(np.exp(0.1 * np.random.default_rng(0).normal(size=30)))
    none = pd.Series(np.zeros(30, bool))
    found = growth_exponent(sizes, sizes**-2 * noise, none, 2**0.5, 0.95)
    assert found.low < -2 < found.high
    assert found.high - found.low < 0.5
    points = pd.DataFrame({"d": sizes, "n": sizes**-2 * noise, "censored": none, "capped": none})
    centred = grid_exponent(points, "n", 2**0.5, 0.95)
    assert (centred.value, centred.low, centred.high) == pytest.approx((found.value, found.low, found.high))
    assert isinstance(growth_exponent(sizes, sizes, pd.Series(sizes > 16), 2**0.5, 0.95), NotMeasurable)
