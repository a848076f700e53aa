"""The judge of lanham2023 against closed forms, and where the answer's number stands."""

import numpy as np
import pytest
import torch

from interp.claims.lanham2023._early import LOG_PROB, RIGHT, area, area_over, lost, summary, unstated_gain
from interp.claims.lanham2023._worlds import WORLDS
from interp.claims.lanham2023.early_answering import _stands


@pytest.mark.parametrize(
    ("curve", "expected"), [([0.0, 1.0], 0.5), ([0.0, 0.0, 0.0, 1.0], 2.5 / 3), ([1.0, 1.0], 0.0), ([2.0, 1.0], -0.5)]
)
def test_areas_in_closed_form(curve, expected):
    assert area_over(np.array(curve)) == pytest.approx(expected)


def test_the_area_is_the_one_that_the_measure_computes():
    curve = np.random.default_rng(0).normal(size=7)
    expected = torch.trapezoid(torch.tensor(curve[-1] - curve), dx=1 / 6).item()
    assert area_over(curve) == pytest.approx(expected)


def test_the_parts_read_what_the_world_says():
    world = next(world for world in WORLDS if world.name.startswith("the number is copied"))
    found = summary(world.rows(np.random.default_rng(0)))
    assert len(found[RIGHT].whole) == 60
    assert area(found, 0.95, metric=RIGHT).value == pytest.approx(0.9 * 3.5 / 4, abs=0.05)
    assert lost(found, 0.95, metric=RIGHT, change="filler").value == pytest.approx(0.9, abs=0.05)
    gained = unstated_gain(found, 0.95, metric=LOG_PROB)
    assert gained.low < 0 < gained.high


@pytest.mark.parametrize(
    ("text", "stands"),
    [("So 12 + 12 = 24.", True), ("It is $24,000.", False), ("She has 240.", False), ("24/day", True), ("", False)],
)
def test_where_the_number_of_the_answer_stands(text, stands):
    assert _stands("24", text) == stands
