"""Exponents, required numbers, and the least and largest of many cells: estimates of li2024 against closed forms."""

import numpy as np
import pytest

from interp.claims.li2024._estimates import Bands, bands, largest, largest_size, least, over_seeds
from interp.claims.li2024._factors import Growth, exponents, needed_examples
from interp.core.parts import NotMeasurable
from probes.rows import table

SEEDS = [str(seed) for seed in range(6)]


def jitter(seed: int = 0) -> np.ndarray:
    return np.exp(0.05 * np.random.default_rng(seed).normal(size=6))


def test_needed_examples_interpolates_and_marks_floors_and_caps():
    lengths = np.array([5, 10, 20, 40, 80, 160, 320], dtype=float)
    scales = np.array([10.0, 1e4, 0.1])
    errors = 0.9 * np.exp(-lengths / scales[:, None])[..., None]
    needed, more, fewer = needed_examples(lengths, errors)
    np.testing.assert_allclose(needed[0], 10 * np.log(0.9 / 0.05), rtol=0.15)
    assert more[:, 0].tolist() == [False, True, False]
    assert fewer[:, 0].tolist() == [False, False, True]
    assert needed[1:, 0].tolist() == [320, 5]


class TestExponents:
    values = np.array([0.2, 0.4, 0.8])
    none = np.zeros((3, 6), bool)

    def growth(self, **marks: np.ndarray) -> Growth:
        needed = 10 * self.values[:, None] ** -1.5 * jitter()
        return Growth(self.values, needed, **{"more": self.none, "fewer": self.none, **marks})

    def test_a_power_law_has_its_exponent(self):
        found = exponents(self.growth(), 0.95)
        assert isinstance(found, Bands)
        np.testing.assert_allclose(found.value, 1.5)

    @pytest.mark.parametrize(
        ("mark", "place", "open_end"),
        [("more", 0, "high"), ("more", 2, "low"), ("fewer", 2, "high"), ("fewer", 0, "low")],
    )
    def test_floors_and_caps_open_the_end_that_they_could_move(self, mark, place, open_end):
        marks = self.none.copy()
        marks[place, 3] = True
        found = exponents(self.growth(**{mark: marks}), 0.95)
        assert isinstance(found, Bands)
        assert np.isinf(getattr(found, open_end))
        assert np.isfinite(getattr(found, "low" if open_end == "high" else "high"))

    def test_one_value_within_reach_is_no_slope(self):
        marks = self.none.copy()
        marks[:2] = True
        assert isinstance(exponents(self.growth(more=marks), 0.95), NotMeasurable)


class TestCells:
    values = np.array([[0.5, 0.6, 0.7], [0.1, 0.2, 0.3], [-0.5, -0.4, -0.6]])

    def at(self, level: float) -> Bands:
        return bands(self.values, level)

    def test_the_least_is_no_higher_than_any_cell_and_as_wide_as_its_selection_asks(self):
        found, single = least(self.at, 0.95), bands(self.values[2:], 0.95)
        assert found.value == pytest.approx(-0.5)
        assert found.low == pytest.approx(single.low[0])
        assert found.high > single.high[0]

    def test_the_largest_mirrors_the_least(self):
        found, mirrored = largest(self.at, 0.95), least(lambda level: bands(-self.values, level), 0.95)
        assert (found.value, found.low, found.high) == pytest.approx((-mirrored.value, -mirrored.high, -mirrored.low))

    def test_the_largest_size_looks_at_both_sides(self):
        found = largest_size(self.at, 0.95)
        assert found.value == pytest.approx(0.6)
        assert found.high == pytest.approx(max(self.at(0.95).high.max(), -self.at(0.95).low.min()))

    def test_the_least_of_equal_cells_covers(self):
        generator, missed = np.random.default_rng(0), 0
        for _ in range(400):
            draw = generator.normal(size=(20, 6))
            found = least(lambda level, draw=draw: bands(draw, level), 0.95)
            missed += not found.low <= 0 <= found.high
        assert missed / 400 < 0.05

    def test_seeds_that_agree_have_a_width(self):
        found = bands(np.zeros((1, 6)), 0.95, n_queries=6000)
        assert 0.0005 < found.high[0] < 0.001
        assert np.isinf(bands(np.zeros((1, 6)), 0.95).high[0])


def test_the_interval_of_no_error_at_all_has_a_width():
    rows = table(run="r", condition="c", unit=SEEDS[:5], metric="e", value=np.zeros(5), n_tokens=1000)
    found = over_seeds(rows, 0.95)
    assert found.low == found.value == 0
    assert 0.0005 < found.high < 0.001
