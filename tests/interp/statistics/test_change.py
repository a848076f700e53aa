"""Change points and onsets, against brute force and known curves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interp.statistics import change_point, onset

STEPS = np.arange(0, 100, 10)


def test_a_step_is_found_between_its_two_sides():
    values = np.array([0.5] * 6 + [1.0] * 4)
    assert change_point(STEPS, values) == 55
    assert onset(STEPS, values) == 60


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12))
def test_the_change_point_is_the_least_squares_split(values):
    curve = np.array(values)
    steps = np.arange(len(curve)) * 2.0

    def error(split: int) -> float:
        return sum(((part - part.mean()) ** 2).sum() for part in (curve[:split], curve[split:]))

    errors = [error(split) for split in range(1, len(curve))]
    chosen = round((change_point(steps, curve) + 1) / 2)
    assert errors[chosen - 1] <= min(errors) + 1e-9


def test_the_onset_ignores_an_excursion_that_comes_back():
    values = np.array([1.0, 0.7, 1.0, 1.0, 0.95, 0.5, 0.2, 0.0, 0.0, 0.0])
    assert onset(STEPS, values) == 50  # 0.95 is not yet a tenth of the way down, 0.5 is
    assert onset(STEPS, 1 - values) == 50


def test_a_flat_curve_has_its_onset_at_the_end():
    assert onset(STEPS, np.ones(10)) == 90


@pytest.mark.parametrize("steps", [np.array([0, 1]), np.array([0, 2, 1])])
def test_steps_must_fit_the_values(steps):
    with pytest.raises(ValueError, match="one each, steps ascending"):
        change_point(steps, np.array([0.0, 1.0, 2.0]))


def test_the_share_of_an_onset_is_a_share():
    with pytest.raises(ValueError, match=r"share 1\.5"):
        onset(STEPS, np.ones(10), 1.5)
