"""Times, exponents and inequalities along the training of li2024's model, on rows whose truth is known."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from interp.claims.li2024 import lemmas, log_m, prop1, thm1
from interp.claims.li2024._gradients import Gradients, first_time, violations
from interp.claims.li2024._patterns import all_right
from interp.claims.li2024._training import LEVELS, Curves, bound_updates, length_growth, straightness, summary
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement
from interp.core.parts import NotMeasurable


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

    def test_the_bound_is_the_papers_and_its_powers_are_those_of_its_largest_terms(self):
        base = {"alpha": 0.5, "n_training": 20, "n_steps": 2, "eta": 0.5}
        expected = (8 * np.log(2 / 0.1) / 0.5 + 20 * 2 * (2 + 10)) / 0.5
        assert bound_updates(base, 0.1) == pytest.approx(expected)
        thresholds = {part.key: part.threshold for part in thm1.parts(thm1.PRESETS["cpu"])}
        assert (thresholds["alpha_power"], thresholds["steps_power"]) == (0.68, 1.82)

    def test_context_examples_are_read_off_where_the_last_losses_cross(self):
        growth = length_growth(summary(thm1.WORLDS[0].rows(np.random.default_rng(1))))
        assert growth is not None
        np.testing.assert_allclose(growth.values, [0.125, 0.25, 0.5])
        # 0.5 exp(-c) is 0.1 at c = 1.61; between 1 and 2, in log c, it is read off the chord.
        chord = 2 ** ((0.5 * np.exp(-1) - 0.1) / (0.5 * np.exp(-1) - 0.5 * np.exp(-2)))
        np.testing.assert_allclose(np.median(growth.needed, 1), chord / growth.values, rtol=0.05)

    def test_straightness_is_one_for_a_line_with_any_intercept(self):
        x = 1 / np.array([0.1, 0.15, 0.25, 0.4, 0.6])
        for times, expected in ((300 + 50 * x, 1.0), (20 * x**2, 2.5)):
            curves = [np.array([[0.5], [0.019]]).repeat(2, 1) for _ in x]
            at = [np.array([t - 1e-6, t]) for t in times]
            found = Curves({"alpha": (1 / x, {"loss": curves})}, {"alpha": at})
            estimate = straightness(found, 0.95, line="alpha")
            assert not isinstance(estimate, NotMeasurable)
            assert estimate.value == pytest.approx(expected, abs=0.01 if expected == 1 else 0.3)

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
            ("other_pattern", "f7_other_pattern", [1.0, -0.5]),
        ],
    )
    def test_violations_are_distances_from_the_bound(self, kind, bound, expected):
        assert violations(self.values, kind, bound)[:, 0].tolist() == expected

    def test_worlds_are_told_apart(self):
        right, coin, between = (judgement("lemmas", world.rows(np.random.default_rng(0))) for world in lemmas.WORLDS)
        assert {v.outcome for v in right.verdicts} == {"supported"}
        assert "supported" not in {v.outcome for v in coin.verdicts}
        expected = {key: "supported" if truth else "refuted" for key, truth in lemmas.WORLDS[2].truth.items()}
        assert {v.key: v.outcome for v in between.verdicts} == expected

    def test_stages_meet_at_the_papers_time_or_where_attention_has_left(self):
        assert [round(first_time(k, 0.9, 0.4)) for k in (2, 3)] == [166, 638]
        mass = np.array([0.5, 0.2, 0.05, 0.01])[:, None]
        found = Gradients({3: {"other_step_mass": mass}}, {3: np.array([1.0, 99.0, 637.0, 638.0])}, {3: 637.7})
        stages = [(stage, split) for split in ("time", "attention") for stage in ("first", "second")]
        assert [found.within(3, *which)[:, 0].tolist() for which in stages] == [
            [True, True, True, False], [False, False, False, True],
            [True, True, False, False], [False, False, True, True],
        ]  # fmt: skip


class TestProp1:
    def test_the_worst_step_decides(self):
        rows = prop1.WORLDS[0].rows(np.random.default_rng(0))
        assert judgement("prop1", rows).conclusion == "reproduced"
        last = rows["setting"].str.contains("step=3") & (rows["metric"] == "mass")
        worse = rows.assign(value=rows["value"].where(~last, rows["value"] - 0.1))
        outcomes = {v.key: v.outcome for v in judgement("prop1", worse).verdicts}
        assert (outcomes["mass"], outcomes["outputs"]) == ("refuted", "supported")


class TestLogM:
    def test_the_number_for_all_at_once_is_read_off_the_error_that_lets_all_be_right(self):
        assert (1 - all_right(60)) ** 60 == pytest.approx(0.95)
        found = judgement("log-m", log_m.WORLDS[0].rows(np.random.default_rng(0)))
        assert {v.outcome for v in found.verdicts} == {"supported"}

    def test_models_that_need_more_examples_than_votes_fail_the_control(self):
        world = log_m._world(lambda m: 12.0, lambda m: 9.0)
        found = {v.key: v for v in judgement("log-m", world(np.random.default_rng(0))).verdicts}
        assert (found["vote"].outcome, found["vote"].estimate) == ("refuted", pytest.approx(1 / 3, abs=0.05))


@pytest.mark.parametrize("name", ["lemmas", "log-m", "prop1", "thm1"])
def test_fresh_seeds_begin_where_the_preset_says(name):
    claim = CLAIMS[f"li2024/{name}"]
    preset = claim.presets["cpu"]
    for item in claim.items(replace(preset, first_unit=1000)):  # pyright: ignore[reportArgumentType]
        assert item.parameters["seeds"] == list(range(1000, 1000 + preset.seeds))
