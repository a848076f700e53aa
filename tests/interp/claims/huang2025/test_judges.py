"""The judges of huang2025 on rows made by hand, where the right verdict is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from interp.claims.huang2025 import (
    fig1a,
    fig1a_rate,
    fig1b,
    fig2,
    fig5,
    fig6_7,
    mechanism,
    neurons,
    nope,
    regime,
    thm4_1,
    thm5_1,
    what_matters,
)
from interp.claims.huang2025._parts import extreme
from interp.claims.huang2025._runs import END, LegoRun, at_loss, curve_metrics, reached
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement
from interp.core.parts import NotMeasurable
from interp.core.severity import severity
from interp.statistics import Interval
from probes.rows import concat, setting, table, with_settings

MODULES = (
    fig1a,
    fig1a_rate,
    fig1b,
    fig2,
    fig5,
    fig6_7,
    mechanism,
    neurons,
    nope,
    regime,
    thm4_1,
    thm5_1,
    what_matters,
)

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


def accuracies(condition: str, group: str, seed: int, length: float, **places) -> pd.DataFrame:
    """Sentences are solved up to `length`, and not at all at four times that; linear in log length between."""
    shares = np.clip(1 - 0.5 * np.log2(np.array(LENGTHS) / length), 0, 1)
    where = [setting(group=group, length=one, **places) for one in LENGTHS]
    return table(metric="accuracy", value=shares.tolist(), setting=where, **labels(condition, group, seed))


def test_the_length_reached_is_where_the_accuracy_crosses():
    shares = [[1.0, 0.95, 0.85], [0.8, 0.9, 1.0], [1.0, 1.0, 0.9], [1.0, 0.4, 0.4]]
    far = reached(pd.DataFrame(shares, columns=[5, 10, 20]))
    assert far[0] == pytest.approx(np.log2(10) + 0.5)
    assert far[1] == pytest.approx(np.log2(2.5)), "it fails at the shortest"
    assert far[2] == pytest.approx(np.log2(20)), "exactly 0.9 is reached"
    assert far[3] == pytest.approx(np.log2(5) + 1 / 6)


POINTS = (at_loss(0.01), at_loss(0.001), END)


def cell(condition: str, group: str, lengths, steps: float = 4000, seeds=SEEDS) -> pd.DataFrame:
    """Runs that reach these lengths at the last of `POINTS`, and learn after so many steps; 0: never."""
    tables = []
    for seed in seeds:
        for point, length in zip(POINTS[-len(lengths) :], lengths):
            wiggle = np.sin(1.7 * seed + sum(map(ord, condition + group + point)))  # its own in every cell
            length *= 1 + 0.05 * (1 + wiggle)
            tables.append(accuracies(condition, group, seed, length, point=point))
        when = {at_loss(0.1): steps, END: 22_000} if steps else {END: 22_000}
        for point, value in when.items():
            place = {"setting": setting(group=group, point=point), **labels(condition, group, seed)}
            spread = 1 + 0.01 * seed * (2 if group == "S5" else 1)
            tables.append(table(metric="updates", value=value * spread, **place))
    return concat(tables)


def trainings(c6, s5) -> pd.DataFrame:
    """Lengths of both groups at the points."""
    return concat([cell("theory", "C6", c6), cell("theory", "S5", s5, steps=16_000)])


def test_octaves_are_the_area_under_the_curve_and_end_with_the_lengths():
    rows = concat(
        [accuracies("theory", "C6", seed, length, point=END) for seed, length in enumerate((10, 20, 40, 1000, 1))]
    )
    found = curve_metrics(with_settings(rows)).sort_values("unit")
    assert found["octaves"].to_list() == pytest.approx([2, 3, 4, 5, 0], abs=0.01)
    assert found["solves"].to_list() == [True, True, True, True, False]
    assert found["training"].to_list() == pytest.approx([1, 1, 1, 1, 0])
    assert found["longest"].to_list() == pytest.approx([0, 0, 0, 1, 0])


def test_a_cyclic_group_that_is_ahead_everywhere_supports_fig1a():
    rows = trainings((40, 80, 150), (5, 6, 8))
    found = outcomes("fig1a", rows, "theory_")
    assert set(found.values()) == {"supported"}
    assert len(found) == 9
    assert judged("fig1a", rows).conclusion == "reproduced"
    farther = verdicts("fig1a", rows)["theory_farther"]
    assert farther.estimate == pytest.approx(3.2, abs=0.1)
    assert "S5 learned after 17,120 steps (8 seeds), then reaches" in farther.note


def test_groups_that_go_equally_far_refute_it_however_late_one_learns():
    rows = trainings((10, 40, 150), (10, 40, 150))
    found = outcomes("fig1a", rows, "theory_")
    assert with_outcome("refuted", found) == {"apart", "loss_0_01", "loss_0_001", "s5_short"}
    assert found["farther"] == "inconclusive", "C6 solves the longest sentences: by how much it leads is not seen"
    assert judged("fig1a", rows).conclusion == "partly reproduced", "C6 is nearly perfect, and S5 no worse"


def test_a_group_that_catches_up_at_the_end_is_behind_at_equal_loss():
    found = outcomes("fig1a", trainings((40, 80, 150), (5, 10, 150)), "theory_")
    assert found["farther"] == "inconclusive"
    assert found["loss_0_01"] == found["loss_0_001"] == "supported"


def test_a_gap_between_curves_that_end_is_no_lower_bound_and_one_that_goes_on_is():
    ended, going_on = (verdicts("fig1a", trainings((5, 6, c6), (5, 6, 20)))["theory_farther"] for c6 in (22, 150))
    assert (ended.outcome, going_on.outcome) == ("refuted", "supported")
    assert ended.high < 1
    assert going_on.high == 5, "of five octaves"


def test_seeds_that_miss_the_training_length_count_where_all_seeds_are_asked_for():
    rows = concat([trainings((5, 6, 60), (5, 6, 40)).query("unit not in ['0', '1']"), *(
        cell("theory", group, lengths, seeds=(0, 1)) for group, lengths in (("C6", (5, 6, 60)), ("S5", (1, 1, 1)))
    )])  # fmt: skip
    found = verdicts("fig1a", rows)
    solving, everyone = found["theory_farther"], found["theory_all_seeds"]
    assert (solving.n, everyone.n) == (6, 8)
    assert everyone.estimate > solving.estimate + 1


def test_a_group_that_is_not_learned_at_the_training_length_leaves_the_comparison_untested():
    rows = trainings((20, 40, 150), (1, 1, 2))
    found = outcomes("fig1a", rows, "theory_")
    assert with_outcome("not testable here", found) >= {"farther", "s5_short", "loss_0_01", "loss_0_001"}
    assert found["c6_far"] == "supported"
    assert "no estimate" in judged("fig1a", rows).finding


def self_training(own, same=2, right: float = 1.0, true=150, cyclic=150) -> pd.DataFrame:
    """Lengths by stage for self-training; the other arms stay at theirs."""
    arms = {"self-labelled, doubled lengths": own} | {
        name: (length,) * 4
        for name, length in (
            ("true labels, doubled lengths", true), ("true labels, length 5", same),
            ("C6, true labels, length 5", cyclic),
        )
    }  # fmt: skip
    tables = []
    for seed in SEEDS:
        for name, lengths in arms.items():
            condition = f"theory, {name}"
            for stage, length in enumerate(lengths):
                length *= 1 + 0.01 * seed * (2 if "self" in name else 1)
                tables.append(accuracies(condition, "S5", seed, length, stage=stage))
                share = (right if "self" in name and stage else 1.0) - 0.001 * seed
                place = {"setting": setting(group="S5", stage=stage)}
                tables.append(table(metric="label_accuracy", value=share, **place, **labels(condition, "S5", seed)))
    return concat(tables)


def test_lengths_that_double_at_every_stage_support_fig1b():
    rows = self_training((10, 25, 60, 150))
    found = outcomes("fig1b", rows)
    assert len(found) == 8
    assert set(found.values()) == {"supported"}
    assert judged("fig1b", rows).conclusion == "reproduced"


def test_a_stage_that_loses_refutes_its_part():
    found = outcomes("fig1b", self_training((10, 30, 20, 150)))
    assert with_outcome("refuted", found) == {"rightward", "twice"}
    found = outcomes("fig1b", self_training((10, 30, 90, 90)))
    assert with_outcome("refuted", found) == {"after", "matches", "true_labels"}


def test_a_model_that_was_there_already_or_does_not_solve_length_5_leaves_nothing_to_test():
    for own in ((300, 300, 300, 300), (1, 30, 90, 150)):
        found = outcomes("fig1b", self_training(own, same=own[-1]))
        assert found.pop("ready") == "inconclusive"
        assert set(found.values()) == {"not testable here"}


def test_wrong_labels_and_plain_training_that_is_better_refute_theirs():
    rows = self_training((10, 20, 30, 40), same=300, right=0.5)
    refuted = with_outcome("refuted", outcomes("fig1b", rows))
    assert refuted == {"after", "labels", "more_than_training", "twice", "matches", "true_labels"}


def targets(condition: str, group: str, length: int, predicate, answer, **places) -> pd.DataFrame:
    """Attention by relative place in [0, 1), as functions of it, of runs that solve the training length."""
    tables = []
    for seed in SEEDS:
        place = labels(condition, group, seed)
        tables.append(table(metric="accuracy", value=1.0, setting=setting(group=group, length=5), **place))
        for metric, function in (("predicate", predicate), ("answer", answer)):
            values = [function(index / length) + 0.001 * seed * (1 + index / length) for index in range(length)]
            where = [setting(group=group, length=length, answer=index, **places) for index in range(length)]
            tables.append(table(metric=metric, value=values, setting=where, **place))
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
    unsolved = rows.assign(value=rows["value"].where(rows["metric"] != "accuracy", 0.9))
    assert set(outcomes("fig2", unsolved).values()) == {"not testable here"}
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
        for metric, value in (("variable", variable), ("place", place), ("accuracy", 1.0))
    )  # fmt: skip
    found = outcomes("fig5", rows)
    assert len(found) == 4
    assert set(found.values()) == {outcome}
    roles = {v.key: (v.role, v.primary) for v in judged("fig5", rows).verdicts}
    assert roles["c6_permuted"] == ("paper", False), "it cannot fail"
    assert roles["c6_moved"] == ("paper", True)


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


CELLS = [(condition, group) for condition in ("theory", "standard") for group in ("C6", "S5")] + [("theory", "C5")]


def decided(lengths: dict, steps: dict, off: dict) -> dict[str, str]:
    """What the judge says of cells that differ from 20, 4000 and 0.02 as given, without any change of training."""
    tables = []
    for number, where in enumerate(CELLS):
        length = lengths.get(where, 20)
        tables.append(cell(*where, length if isinstance(length, tuple) else (length,) * 3, steps.get(where, 4000)))
        elsewhere = off.get(where, 0.02) * (1 + 0.1 * number)
        both = targets(*where, 5, lambda _: 0.5, lambda _, of=elsewhere: 0.49 - of, point=END)
        tables.append(both[both["metric"] != "accuracy"])
    return outcomes("what-matters", concat(tables))


def test_time_length_and_attention_are_told_apart():
    s5 = [("theory", "S5"), ("standard", "S5")]
    late = decided({}, dict.fromkeys(s5, 16_000), {})
    assert with_outcome("supported", late) >= {"time_theory", "time_standard", "time_points"}
    assert with_outcome("refuted", late) >= {"same_points", "sharper", "block_c6", "training_s5"}
    short = decided(dict.fromkeys(s5, 7), {}, {("theory", "S5"): 0.2})
    assert with_outcome("refuted", short) >= {"time_theory", "time_standard", "time_points"}
    assert with_outcome("supported", short) >= {"same_points", "sharper"}
    block = decided({("theory", "C6"): 80, ("theory", "S5"): (10, 20, 40)}, {}, {})
    assert with_outcome("supported", block) >= {"block_c6", "block_s5", "training_s5"}
    assert block["length1_time"] == block["finite_farther"] == "not testable here", "there are no such rows"


def test_a_group_that_never_learns_is_late_and_has_no_length():
    found = decided({("theory", "S5"): 2}, {("theory", "S5"): 0}, {})
    assert found["time_theory"] == "supported", "the steps that it had are a lower bound"
    assert {found[key] for key in ("same_points", "sharper", "block_s5")} == {"not testable here"}
    assert decided({}, {("theory", "C6"): 0}, {})["time_theory"] == "not testable here"


def test_the_longest_sentences_show_what_octaves_that_end_there_cannot():
    name = regime.CHANGES[regime.PAPERS].condition
    found = verdicts("regime", concat([cell(name, "C6", (10, 150, 150)), cell(name, "S5", (10, 80, 80))]))
    assert found["rate4_farther"].outcome == "inconclusive"
    assert found["rate4_farther"].estimate == pytest.approx(0.23, abs=0.03)
    assert "had C6 solved every length tested: 0.2" in found["rate4_farther"].note
    c6, s5, both = (found[f"rate4_{key}"].estimate for key in ("c6_longest", "s5_longest", "longest"))
    assert (c6, s5, both) == pytest.approx((0.98, 0.54, c6 - s5), abs=0.03)
    assert {found[f"rate4_{key}"].outcome for key in ("c6_longest", "longest")} == {"supported"}
    assert found["rate4_early"].outcome == "refuted", "both go as far when the loss falls below 0.01"
    assert found["rate3_longest"].outcome == found["four_early"].outcome == "not testable here", "no such rows"
    swapped = verdicts("regime", concat([cell(name, "S5", (40, 1000, 1000)), cell(name, "C6", (5, 40, 40))]))
    behind = {swapped[f"rate4_{key}"].outcome for key in ("c6_longest", "s5_longest", "longest", "early")}
    assert behind == {"refuted"}


def test_the_most_that_a_gap_could_be_is_told_beside_it():
    found = verdicts("fig1a", trainings((10, 40, 1000), (10, 40, 80)))["theory_farther"]
    assert found.note.endswith(f"had C6 solved every length tested: {found.estimate:.3f}")


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


def placed(none, learned, zeroed, shuffled, content, permuted: float) -> pd.DataFrame:
    """Lengths by arm and point, sinusoidal positions as learned ones; what of length 5 survives a random order."""
    names = {key: run.condition for key, run in nope.RUNS.items()}
    cells = [
        ("none", END, none), ("learned", END, learned), ("sinusoidal", END, learned), ("learned", "zeroed", zeroed),
        ("shuffled", END, shuffled), ("shuffled", "zeroed", content),
    ]  # fmt: skip
    tables = []
    for seed in SEEDS:
        for number, (name, point, length) in enumerate(cells):
            length *= 1.05 + 0.05 * np.sin(1.7 * seed + number)
            tables.append(accuracies(names[name], "C6", seed, length, point=point))
        place = {"setting": setting(group="C6", length=5, point=END), **labels(names["learned"], "C6", seed)}
        tables.append(table(metric="permuted", value=permuted, **place))
    return concat(tables)


def test_positions_that_take_the_place_of_contents_support_nope():
    rows = placed(60, 6, 6, 6, 20, permuted=0.05)
    assert set(outcomes("nope", rows).values()) == {"supported"}
    assert judged("nope", rows).conclusion == "reproduced"
    found = verdicts("nope", rows)
    assert found["content"].estimate == pytest.approx(np.log2(20 / 6), abs=0.1)
    assert found["by_place"].estimate == pytest.approx(0.05)


def test_positions_that_only_miss_training_leave_what_zeros_mend_refuted():
    found = outcomes("nope", placed(40, 6, 40, 6, 40, permuted=1.0))
    assert with_outcome("refuted", found) == {"zeroed_farther", "by_place", "rest", "content"}


def test_positions_that_do_no_harm_refute_nope():
    rows = placed(40, 40, 40, 40, 40, permuted=1.0)
    assert judged("nope", rows).conclusion == "not reproduced"


def test_positions_under_which_length_5_is_not_learned_leave_their_part_untested():
    found = outcomes("nope", placed(40, 2, 2, 40, 40, permuted=0.0))
    assert found["learned_farther"] == found["by_place"] == found["content"] == "not testable here"


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
    run = LegoRun(group="S5", change="attention x10", attention=10.0, first=5, lengths=(5, 10))
    item = run.item
    assert LegoRun(**item.parameters) == run
    assert item.name == "theory_attention_x10,S5,seed=0"
    assert [(stage.length, stage.lr, stage.attention_lr) for stage in run.stages] == [(1, 1e-3, 0), (5, 1e-3, 1e-2)]
    (alone,) = LegoRun().stages
    assert (alone.lr, alone.attention_lr, alone.schedule) == (1e-3, 1e-3, "constant")
