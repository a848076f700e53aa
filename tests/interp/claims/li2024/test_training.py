"""Times, exponents and inequalities along the training of li2024's model, on rows whose truth is known."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from interp.claims.li2024 import lemmas, prop1, thm1
from interp.claims.li2024._gradients import violations
from interp.claims.li2024._training import LEVELS, summary
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement


def judgement(name: str, rows: pd.DataFrame) -> Judgement:
    claim = CLAIMS[f"li2024/{name}"]
    return claim.judge(rows, claim.presets["cpu"])


class TestThm1:
    def test_times_are_where_the_curves_cross(self):
        rows = thm1.WORLDS[0].rows(np.random.default_rng(1))
        growth = summary(rows).growth("patterns", "loss", LEVELS[-1])
        assert growth is not None
        np.testing.assert_allclose(growth.values, 1 / np.array([40, 28, 20, 14, 10]), atol=1e-6)
        np.testing.assert_allclose(np.median(growth.needed, 1), 150 * np.array([2, 1.4, 1, 0.7, 0.5]), rtol=0.15)

    @pytest.mark.parametrize(("world", "conclusion"), [(0, "reproduced"), (2, "partly reproduced")])
    def test_worlds_are_told_apart(self, world, conclusion):
        found = judgement("thm1", thm1.WORLDS[world].rows(np.random.default_rng(2)))
        assert found.conclusion == conclusion
        outcomes = {v.key: v.outcome for v in found.verdicts}
        assert (outcomes["t1_theorem"], outcomes["t1_lemma"]) == (
            ("supported", "refuted") if world == 0 else ("refuted", "supported")
        )

    def test_a_loss_that_never_falls_leaves_the_length_refuted_and_the_growth_open(self):
        rows = thm1.WORLDS[0].rows(np.random.default_rng(3))
        stuck = rows.assign(value=rows["value"].where(rows["metric"] != "loss", 0.4))
        outcomes = {v.key: v.outcome for v in judgement("thm1", stuck).verdicts}
        assert outcomes["length"] == "refuted"
        assert outcomes["grows"] == "not testable here"


class TestLemmas:
    values: ClassVar = {
        "gradient_same": np.array([[-2.0], [-0.5]]), "f5_same": np.full((2, 1), -1.0),
        "gradient_other_step": np.array([[0.0], [3.0]]), "f5_other_step_low": np.full((2, 1), -1.0),
        "f5_other_step_high": np.full((2, 1), 1.0), "other_step_mass": np.full((2, 1), 0.5),
        "gradient_other_pattern": np.array([[-2.0], [0.5]]), "f7_other_pattern": np.full((2, 1), 1.0),
    }  # fmt: skip

    @pytest.mark.parametrize(
        ("kind", "bound", "expected"),
        [
            ("same", "", [-1.0, 0.5]),
            ("other_step", "", [-1.0, 2.0]),
            ("other_step", "epsilon", [-0.5, 2.5]),
            ("other_pattern", "f7_other_pattern", [1.0, -0.5]),
        ],
    )
    def test_violations_are_distances_from_the_bound(self, kind, bound, expected):
        assert violations(self.values, kind, bound)[:, 0].tolist() == expected

    def test_worlds_are_told_apart(self):
        right, coin = (judgement("lemmas", world.rows(np.random.default_rng(0))) for world in lemmas.WORLDS)
        assert {v.outcome for v in right.verdicts} == {"supported"}
        assert "supported" not in {v.outcome for v in coin.verdicts}


class TestProp1:
    def test_the_worst_step_decides(self):
        rows = prop1.WORLDS[0].rows(np.random.default_rng(0))
        assert judgement("prop1", rows).conclusion == "reproduced"
        last = rows["setting"].str.contains("step=3") & (rows["metric"] == "mass")
        worse = rows.assign(value=rows["value"].where(~last, rows["value"] - 0.1))
        outcomes = {v.key: v.outcome for v in judgement("prop1", worse).verdicts}
        assert (outcomes["mass"], outcomes["outputs"]) == ("refuted", "supported")


@pytest.mark.parametrize("name", ["lemmas", "prop1", "thm1"])
def test_fresh_seeds_begin_where_the_preset_says(name):
    claim = CLAIMS[f"li2024/{name}"]
    preset = claim.presets["cpu"]
    for item in claim.items(replace(preset, first_unit=1000)):  # pyright: ignore[reportArgumentType]
        assert item.parameters["seeds"] == list(range(1000, 1000 + preset.seeds))
