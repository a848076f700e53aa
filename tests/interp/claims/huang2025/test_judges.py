"""The judges of huang2025 on rows made by hand, where the right verdict is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from interp.claims.huang2025 import fig1a, fig1b, fig2, fig5, fig6_7, mechanism, neurons, thm4_1, thm5_1, what_matters
from interp.claims.huang2025._parts import extreme
from interp.claims.huang2025._runs import LegoRun, curve_metrics, reach
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement
from interp.core.parts import NotMeasurable
from interp.core.severity import severity
from interp.statistics import Interval
from probes.rows import concat, setting, table, with_settings

MODULES = (fig1a, fig1b, fig2, fig5, fig6_7, mechanism, neurons, thm4_1, thm5_1, what_matters)

SEEDS = range(8)
LENGTHS = (5, 10, 20, 40, 80, 160)


def judged(claim: str, rows: pd.DataFrame, preset: str = "cpu") -> Judgement:
    known = CLAIMS[f"huang2025/{claim}"]
    return known.judge(rows, known.presets[preset])


def verdicts(claim: str, rows: pd.DataFrame, preset: str = "cpu") -> dict:
    return {v.key: v for v in judged(claim, rows, preset).verdicts}


def outcomes(claim: str, rows: pd.DataFrame, only: str = "") -> dict[str, str]:
    """By part, of those whose key begins with `only`, and without it."""
    found = verdicts(claim, rows)
    return {key.removeprefix(only): v.outcome for key, v in found.items() if key.startswith(only)}


def with_outcome(outcome: str, found: dict[str, str]) -> set[str]:
    return {key for key, value in found.items() if value == outcome}


def labels(condition: str, group: str, seed: int) -> dict[str, str]:
    return {"run": f"{condition},{group},{seed}", "condition": condition, "unit": str(seed), "scope": "test"}


def accuracies(condition: str, group: str, seed: int, step: int, length: float, **places) -> pd.DataFrame:
    """Sentences are solved up to `length`, and not at all at four times that; linear in log length between."""
    shares = np.clip(1 - 0.5 * np.log2(np.array(LENGTHS) / length), 0, 1)
    where = [setting(group=group, length=one, **places) for one in LENGTHS]
    place = labels(condition, group, seed)
    return table(metric="accuracy", value=shares.tolist(), setting=where, update=step, **place)


def test_the_length_reached_is_where_the_accuracy_crosses():
    rows = concat(
        table(
            metric="accuracy", value=shares, update=step, **labels("theory", "C6", 0),
            setting=[setting(group="C6", length=n) for n in (5, 10, 20)],
        )
        for step, shares in enumerate(([1.0, 0.95, 0.85], [0.8, 0.9, 1.0], [1.0, 1.0, 0.9], [1.0, 0.4, 0.4]))
    )  # fmt: skip
    far = reach(with_settings(rows)).set_index("update")["value"]
    assert far[0] == pytest.approx(np.log2(10) + 0.5)
    assert far[1] == pytest.approx(np.log2(2.5)), "it fails at the shortest"
    assert far[2] == pytest.approx(np.log2(20)), "exactly 0.9 is reached"
    assert far[3] == pytest.approx(np.log2(5) + 1 / 6)


def trainings(c6, s5, s5_loss=1.0, condition: str = "theory") -> pd.DataFrame:
    """Lengths by evaluation; C6 has a loss of 0.1, 0.05, ..., S5 `s5_loss` times that."""
    tables = []
    for seed in SEEDS:
        for group, lengths, factor in (("C6", c6, 1.0), ("S5", s5, s5_loss)):
            for index, length in enumerate(lengths):
                length *= 1 + 0.02 * seed * (2 if group == "C6" else 1)
                tables.append(accuracies(condition, group, seed, 100 * (index + 1), length))
                loss = factor * 0.1 * 0.5**index
                place = {"setting": setting(group=group, length=5), "update": 100 * (index + 1)}
                tables.append(table(metric="loss", value=loss, **place, **labels(condition, group, seed)))
    return concat(tables)


def test_octaves_are_the_area_under_the_curve_and_need_no_cap():
    rows = concat([accuracies("theory", "C6", seed, 1, length) for seed, length in enumerate((10, 20, 40, 1000, 1))])
    found = curve_metrics(with_settings(rows)).sort_values("unit")
    assert found["octaves"].to_list() == pytest.approx([2, 3, 4, 5, 0], abs=0.01)
    assert found["solves"].to_list() == [True, True, True, True, False]
    assert found["training"].to_list() == pytest.approx([1, 1, 1, 1, 0])
    assert found["longest"].to_list() == pytest.approx([0, 0, 0, 1, 0])


def test_a_cyclic_group_that_is_ahead_everywhere_supports_fig1a():
    rows = trainings((20, 40, 150), (5, 6, 8))
    found = outcomes("fig1a", rows, "theory_")
    supported = with_outcome("supported", found)
    assert supported >= {"c6_solves", "s5_solves", "c6_far", "farther", "way", "loss"}
    assert found["s5_short"] == "supported"
    assert judged("fig1a", rows).conclusion == "reproduced"
    assert verdicts("fig1a", rows)["theory_farther"].estimate == pytest.approx(3.2, abs=0.1)


def test_groups_that_go_equally_far_refute_it():
    rows = trainings((10, 40, 150), (10, 40, 150))
    found = outcomes("fig1a", rows, "theory_")
    assert with_outcome("refuted", found) == {"farther", "way", "loss", "s5_short"}
    assert judged("fig1a", rows).conclusion == "partly reproduced", "C6 is nearly perfect, and S5 no worse"


def test_a_group_that_is_only_later_is_no_worse_at_equal_loss():
    """S5 is one evaluation behind, in length and in loss: behind at equal steps, equal at equal loss."""
    found = verdicts("fig1a", trainings((10, 20, 80), (5, 10, 20), s5_loss=2.0))
    assert found["theory_farther"].outcome == "supported"
    assert found["theory_loss"].outcome == "refuted"
    assert found["theory_loss"].estimate == pytest.approx(0.0, abs=0.25)


def test_a_group_that_is_not_learned_at_the_training_length_leaves_the_comparison_untested():
    rows = trainings((20, 40, 150), (1, 1, 2))
    found = outcomes("fig1a", rows, "theory_")
    assert with_outcome("not testable here", found) >= {"farther", "s5_short", "way", "loss"}
    assert found["c6_far"] == "supported"
    assert "no estimate" in judged("fig1a", rows).finding


def test_losses_without_overlap_leave_the_comparison_open():
    found = verdicts("fig1a", trainings((10, 40, 150), (5, 6, 8), s5_loss=100.0))["theory_loss"]
    assert found.outcome == "not testable here"
    assert found.estimate is None
    assert "0 seeds" in found.note
    assert "common loss" in found.note


def test_a_changed_model_is_ours_and_judged_on_the_seeds_that_solve():
    same = trainings((20, 40), (20, 40), condition="theory, residual")
    found = verdicts("fig1a", concat([trainings((20, 40), (5, 6)), same]), "paper")
    assert {found[f"theory_residual_{way}"].outcome for way in ("way", "loss")} == {"refuted"}
    assert found["theory_residual_way"].role == "ours"
    unlearned = trainings((20, 40), (1, 1), condition="theory, residual")
    found = verdicts("fig1a", concat([trainings((20, 40), (5, 6)), unlearned]), "paper")
    assert {found[f"theory_residual_{way}"].outcome for way in ("way", "loss")} == {"not testable here"}


def self_training(own, same=(2, 2, 2, 2), right: float = 1.0) -> pd.DataFrame:
    """Lengths by stage for both arms."""
    names = {"self-labelled, doubled lengths": own, "true labels, length 5": same}
    tables = []
    for seed in SEEDS:
        for name, lengths in names.items():
            condition = f"theory, {name}"
            for stage, length in enumerate(lengths):
                length *= 1 + 0.01 * seed
                tables.append(accuracies(condition, "S5", seed, 100 * stage, length, stage=stage))
                share = (right if "self" in name and stage else 1.0) - 0.001 * seed
                place = {"setting": setting(group="S5", stage=stage), "update": 100 * stage}
                tables.append(table(metric="label_accuracy", value=share, **place, **labels(condition, "S5", seed)))
    return concat(tables)


def test_lengths_that_double_at_every_stage_support_fig1b():
    rows = self_training((10, 25, 60, 150))
    found = outcomes("fig1b", rows)
    assert len(found) == 6
    assert set(found.values()) == {"supported"}
    assert judged("fig1b", rows).conclusion == "reproduced"


def test_a_stage_that_loses_refutes_its_part():
    found = outcomes("fig1b", self_training((10, 30, 20, 150)))
    assert with_outcome("refuted", found) == {"rightward", "twice"}
    assert with_outcome("refuted", outcomes("fig1b", self_training((10, 30, 90, 90)))) == {"after"}


def test_a_model_that_was_there_already_or_does_not_solve_length_5_leaves_nothing_to_test():
    for own in ((300, 300, 300, 300), (1, 30, 90, 150)):
        found = outcomes("fig1b", self_training(own, same=own))
        assert found.pop("ready") == "inconclusive"
        assert set(found.values()) == {"not testable here"}


def test_wrong_labels_and_plain_training_that_is_better_refute_theirs():
    rows = self_training((10, 20, 30, 40), same=(10, 40, 150, 300), right=0.5)
    refuted = with_outcome("refuted", outcomes("fig1b", rows))
    assert refuted == {"after", "labels", "more_than_training", "twice"}


def targets(condition: str, group: str, length: int, predicate, answer) -> pd.DataFrame:
    """Attention by relative place in [0, 1), as functions of it."""
    tables = []
    for seed in SEEDS:
        for metric, function in (("predicate", predicate), ("answer", answer)):
            values = [function(index / length) + 0.001 * seed * (1 + index / length) for index in range(length)]
            where = [setting(group=group, length=length, answer=index) for index in range(length)]
            tables.append(table(metric=metric, value=values, setting=where, **labels(condition, group, seed)))
    return concat(tables)


@pytest.mark.parametrize(
    ("predicate", "answer", "expected"),
    [
        (0.5, 0.45, ["supported", "supported"]),
        (0.99, 0.0, ["supported", "refuted"]),
        (0.3, 0.3, ["refuted", "supported"]),
    ],
)
def test_two_bands_one_band_and_diffuse_attention(predicate, answer, expected):
    rows = concat(
        targets(model, group, 5, lambda _: predicate, lambda _: answer)
        for model in ("theory", "standard")
        for group in ("C6", "S5")
    )
    for run in ("theory_c6", "theory_s5", "standard_c6", "standard_s5"):
        assert list(outcomes("fig2", rows, f"{run}_").values()) == expected
    primary = [v for v in judged("fig2", rows).verdicts if v.primary]
    assert {v.key[:6] for v in primary} == {"theory"}


@pytest.mark.parametrize(("variable", "place", "outcome"), [(0.5, 0.1, "supported"), (0.1, 0.5, "refuted")])
def test_attention_follows_the_variable_or_the_place(variable, place, outcome):
    rows = concat(
        table(
            metric=metric, value=value + 0.001 * seed * (metric == "place"),
            setting=setting(group=group, change=change), **labels("theory", group, seed),
        )
        for seed in SEEDS
        for group in ("C6", "S5")
        for change in ("permuted", "moved")
        for metric, value in (("variable", variable), ("place", place))
    )  # fmt: skip
    found = outcomes("fig5", rows)
    assert len(found) == 4
    assert set(found.values()) == {outcome}
    roles = {v.key: (v.role, v.primary) for v in judged("fig5", rows).verdicts}
    assert roles["c6_permuted"] == ("paper", True)
    assert roles["c6_moved"] == ("control", False)


def dilution(s5_falls: bool, start: float = 0.5) -> pd.DataFrame:
    """One of the groups loses the predicate with length and place, the other the answer."""
    tables = []
    for length, scale in ((10, 1.0), (20, 0.7)):
        for group in ("C6", "S5"):
            falls = lambda x, scale=scale: scale * (start - 0.2 * x)  # noqa: E731
            steady = lambda x: start - 0.1  # noqa: E731
            predicate, answer = (falls, steady) if (group == "S5") == s5_falls else (steady, falls)
            tables += [targets(model, group, length, predicate, answer) for model in ("standard", "theory")]
    return concat(tables)


def test_the_papers_dilution_is_supported_and_the_opposite_is_refuted():
    for model in ("theory_", "standard_"):
        assert set(outcomes("fig6-7", dilution(True), model).values()) == {"supported"}
        found = outcomes("fig6-7", dilution(False), model)
        assert with_outcome("refuted", found) == {
            "s5_place", "c6_place", "answer_place", "answer_length", "c6_length", "s5_length",
        }  # fmt: skip
    assert judged("fig6-7", dilution(True)).conclusion == "reproduced"


def test_attention_that_is_nowhere_on_its_targets_leaves_dilution_untested():
    found = outcomes("fig6-7", dilution(True, start=0.22), "theory_")
    assert found.pop("retrieves") == "refuted"
    assert set(found.values()) == {"not testable here"}


def ladder(length_of, off_of=lambda points, simple: 0.02) -> pd.DataFrame:
    """Lengths as a function of (facts, points, simply transitive, solvable); attention off of (points, simply)."""
    from toy_models.lego.groups import group_action

    tables = []
    for group in what_matters.LADDER:
        action = group_action(group)
        facts = action.n_elements * action.n_points
        length = length_of(facts, action.n_points, action.is_simply_transitive, action.is_solvable)
        for seed in SEEDS:
            octaves = 0.1 * np.sin(1.7 * seed + facts)  # seeds differ, each group in its own way
            tables.append(accuracies("theory", group, seed, 100, length * 2**octaves))
        off = off_of(action.n_points, action.is_simply_transitive)
        tables.append(
            targets("theory", group, 5, lambda _: 0.5, lambda _, off=off * (1 + 0.01 * (facts % 7)): 0.49 - off)
        )
    return concat(tables)


def test_only_what_matters_is_found_to_matter():
    lengths = ["same_group", "same_facts", "a4", "solvable"]
    for length_of, expected in (
        (lambda *_: 20, ["refuted"] * 4),
        (lambda facts, points, simple, solvable: 40 if simple else 10, ["supported"] * 3 + ["refuted"]),
        (
            lambda facts, points, simple, solvable: 40 if solvable else 10,
            ["refuted", "supported", "refuted", "supported"],
        ),
    ):
        found = outcomes("what-matters", ladder(length_of))
        assert [found[key] for key in lengths] == expected


def test_sharper_attention_of_a_simple_action_is_told_from_that_of_many_points():
    simple = outcomes("what-matters", ladder(lambda *_: 20, lambda points, simple: 0.02 if simple else 0.2))
    assert [simple["sharper"], simple["same_points"]] == ["supported", "supported"]
    many = outcomes("what-matters", ladder(lambda *_: 20, lambda points, simple: 0.8 / points - 0.01))
    assert [many["sharper"], many["same_points"]] == ["supported", "refuted"]


def test_sizes_are_told_apart():
    found = outcomes("what-matters", ladder(lambda facts, points, *_: 100 * facts**-0.3))
    assert found["facts"] == "supported"
    assert found["points"] != "supported"
    found = outcomes("what-matters", ladder(lambda facts, points, *_: 7 * points**0.5))
    assert found["points"] == "supported"


def test_a_group_that_is_not_learned_is_left_out():
    rows = ladder(lambda facts, points, simple, solvable: 2 if facts == 600 else 20)
    found = outcomes("what-matters", rows)
    assert found["facts_solves"] == "inconclusive"
    assert {found[key] for key in ("same_facts", "sharper", "solvable")} == {"not testable here"}
    assert found["facts"] != "supported", "among the groups that solve, facts make no difference"


def test_the_least_of_several_means():
    values = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 6.0, 8.0], "one": [0.0, np.nan, np.nan]})
    least, largest = (extreme(values, 0.95, which=which) for which in ("least", "largest"))
    assert isinstance(least, Interval)
    assert isinstance(largest, Interval)
    assert (least.value, largest.value) == (2.0, 6.0)
    alone = extreme(values[["a"]], 0.95)
    assert isinstance(alone, Interval)
    assert least.low == alone.low, "the least is above a number only if all are"
    assert least.high > alone.high, "and below it as soon as one is, of two"
    assert isinstance(extreme(values[["one"]], 0.95), NotMeasurable)
    assert extreme(-values, 0.95, which="largest") == replace(
        least, value=-least.value, low=-least.high, high=-least.low
    )


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.ID)
def test_a_later_first_seed_moves_the_items_and_nothing_else(module):
    claim = CLAIMS[module.ID]
    preset = claim.presets["smoke"]
    first, later = claim.items(preset), claim.items(replace(preset, first_unit=10))  # pyright: ignore[reportArgumentType]
    assert {item.parameters["seed"] for item in first} == {0, 1}
    assert {item.parameters["seed"] for item in later} == {10, 11}
    assert [dict(item.parameters) | {"seed": 0} for item in first] == [
        dict(item.parameters) | {"seed": 0} for item in later
    ]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.ID)
def test_worlds_are_judged_by_parts_that_exist_and_not_fooled(module):
    claim = CLAIMS[module.ID]
    found = severity(claim, 4)
    assert {row.truth for row in found} == {True, False}
    primary = {part.key for part in claim.parts(claim.presets["cpu"]) if part.primary}
    assert primary <= {row.part for row in found if not row.truth}
    assert not any(row.above_nominal for row in found)


def test_a_run_survives_its_item():
    run = LegoRun(group="S5", change="half the learning rate", rate=0.5, lengths=(5, 10))
    item = run.item
    assert LegoRun(**item.parameters) == run
    assert item.name == "theory_half_the_learning_rate,S5,seed=0"
    assert [stage.lr for stage in run.stages] == [0.5 * stage.lr for stage in LegoRun().stages]
