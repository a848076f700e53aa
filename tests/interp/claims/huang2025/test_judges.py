"""The judges of huang2025 on rows made by hand, where the right verdict is known."""

import numpy as np
import pandas as pd
import pytest

from interp.claims.huang2025 import what_matters
from interp.claims.huang2025._runs import LegoRun, reach
from interp.core.claim import load_claims
from probes.rows import concat, setting, table, with_settings

SEEDS = range(5)
LENGTHS = (5, 10, 20, 40, 80, 160)


def verdicts(claim: str, rows: pd.DataFrame) -> dict:
    return {v.part: v for v in load_claims()[f"huang2025/{claim}"].judge(rows)}


def outcomes(claim: str, rows: pd.DataFrame) -> dict[str, str]:
    return {part: verdict.outcome for part, verdict in verdicts(claim, rows).items()}


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
                length *= 1 + 0.02 * seed
                tables.append(accuracies(condition, group, seed, 100 * (index + 1), length))
                loss = factor * 0.1 * 0.5**index
                place = {"setting": setting(group=group, length=5), "update": 100 * (index + 1)}
                tables.append(table(metric="loss", value=loss, **place, **labels(condition, group, seed)))
    return concat(tables)


def test_a_cyclic_group_that_is_ahead_everywhere_supports_fig1a():
    found = outcomes("fig1a", trainings((20, 40, 320), (5, 6, 8)))
    assert len(found) == 5
    assert set(found.values()) == {"supported"}


def test_groups_that_go_equally_far_refute_it():
    found = outcomes("fig1a", trainings((10, 40, 320), (10, 40, 320)))
    assert {part for part, outcome in found.items() if outcome == "refuted"} == {
        "theory: farther at equal steps, on the way", "theory: farther at equal steps, at the end",
        "theory: farther at equal loss", "theory: S5 fails at the longest length",
    }  # fmt: skip


def test_a_group_that_is_only_later_is_no_worse_at_equal_loss():
    """S5 is one evaluation behind, in length and in loss: behind at equal steps, equal at equal loss."""
    c6, s5 = (10, 40, 160), (2.5, 10, 40)
    found = verdicts("fig1a", trainings(c6, s5, s5_loss=2.0))
    assert found["theory: farther at equal steps, at the end"].outcome == "supported"
    assert found["theory: farther at equal loss"].outcome == "refuted"
    assert found["theory: farther at equal loss"].estimate == pytest.approx(0.0, abs=0.25)


def test_losses_without_overlap_leave_the_comparison_open():
    found = verdicts("fig1a", trainings((10, 40, 160), (5, 6, 8), s5_loss=100.0))
    assert found["theory: farther at equal loss"].outcome == "inconclusive"
    assert found["theory: farther at equal loss"].n == 0


def test_a_changed_model_is_judged_on_the_way_and_at_equal_loss():
    rows = concat([trainings((20, 40), (5, 6)), trainings((20, 40), (20, 40), condition="theory, residual")])
    found = outcomes("fig1a", rows)
    assert {part: outcome for part, outcome in found.items() if "residual" in part} == {
        "theory, residual: farther at equal steps, on the way": "refuted",
        "theory, residual: farther at equal loss": "refuted",
    }


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
    found = outcomes("fig1b", self_training((10, 30, 90, 300)))
    assert len(found) == 5
    assert set(found.values()) == {"supported"}


def test_a_stage_that_loses_refutes_its_part_and_a_model_that_was_there_already_the_need():
    found = outcomes("fig1b", self_training((10, 30, 20, 300)))
    assert {part for part, outcome in found.items() if outcome == "refuted"} == {
        "every stage extends the length reached"
    }
    found = outcomes("fig1b", self_training((300, 300, 300, 300), same=(300, 300, 300, 300)))
    assert found["before self-training the longest length is out of reach"] == "refuted"
    assert found["every stage extends the length reached"] == "inconclusive", "nothing was left to extend"
    assert found["it is more than further training"] == "inconclusive"


def test_wrong_labels_and_plain_training_that_is_better_refute_theirs():
    rows = self_training((10, 20, 30, 40), same=(10, 40, 160, 300), right=0.5)
    found = outcomes("fig1b", rows)
    assert {part for part, outcome in found.items() if outcome == "refuted"} == {
        "after self-training it is solved", "the labels of its own are right",
        "it is more than further training",
    }  # fmt: skip


def targets(condition: str, group: str, length: int, predicate, answer) -> pd.DataFrame:
    """Attention by relative place in [0, 1), as functions of it."""
    tables = []
    for seed in SEEDS:
        for metric, function in (("predicate", predicate), ("answer", answer)):
            values = [function(index / length) + 0.001 * seed for index in range(length)]
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
    rows = targets("theory", "C6", 5, lambda _: predicate, lambda _: answer)
    assert list(outcomes("fig2", rows).values()) == expected


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


def dilution(s5_falls: bool) -> pd.DataFrame:
    """One of the groups loses the predicate with length and place, the other the answer."""
    falling, steady = lambda scale: lambda x: scale * (0.6 - 0.3 * x), lambda scale: lambda x: scale * 0.4 + 0.1
    tables = []
    for length, scale in ((10, 1.0), (20, 0.7)):
        for group in ("C6", "S5"):
            loses = (group == "S5") == s5_falls
            predicate, answer = (falling(scale), lambda x: 0.2) if loses else (steady(scale), falling(scale))
            tables.append(targets("standard", group, length, predicate, answer))
    return concat(tables)


def test_the_papers_dilution_is_supported_and_the_opposite_is_refuted():
    assert set(outcomes("fig6-7", dilution(True)).values()) == {"supported"}
    found = outcomes("fig6-7", dilution(False))
    assert {part.removeprefix("standard model, ") for part, outcome in found.items() if outcome == "refuted"} == {
        "S5: attention on the predicate falls with place", "it does so more for S5 than for C6",
        "attention on the answer falls more with length for C6 than for S5",
        "attention on the answer falls more with place for C6 than for S5",
    }  # fmt: skip


def ladder(length_of) -> pd.DataFrame:
    """Lengths as a function of (facts, points, simply transitive, solvable)."""
    from toy_models.lego.groups import group_action

    tables = []
    for group in what_matters.LADDER:
        action = group_action(group)
        facts = action.n_elements * action.n_points
        length = length_of(facts, action.n_points, action.is_simply_transitive, action.is_solvable)
        for seed in SEEDS:
            tables.append(accuracies("theory", group, seed, 100, length * (1 + 0.01 * seed * (facts % 5))))
            place = {"setting": setting(group=group, length=5), "update": 100}
            tables.append(table(metric="loss", value=0.1, **place, **labels("theory", group, seed)))
        tables.append(targets("theory", group, 5, lambda _: 0.5, lambda _: 0.4))
    return concat(tables)


def test_only_what_matters_is_found_to_matter():
    transitive, same_size, solvable = load_claims()["huang2025/what-matters"].judge(ladder(lambda *_: 20))[:3]
    assert {transitive.outcome, same_size.outcome, solvable.outcome} == {"refuted"}
    found = outcomes("what-matters", ladder(lambda facts, points, simple, solvable: 40 if simple else 10))
    assert list(found.values())[:3] == ["supported", "supported", "refuted"]
    found = outcomes("what-matters", ladder(lambda facts, points, simple, solvable: 40 if solvable else 10))
    assert list(found.values())[:3] == ["refuted", "supported", "supported"]


def test_sizes_are_told_apart():
    found = outcomes("what-matters", ladder(lambda facts, points, *_: 100 * facts**-0.3))
    assert found["more facts shorten the length"] == "supported"
    assert found["more points, hence fewer distractors, lengthen it"] != "supported"
    found = outcomes("what-matters", ladder(lambda facts, points, *_: 5 * points**0.5))
    assert found["more points, hence fewer distractors, lengthen it"] == "supported"


def test_a_run_survives_its_item():
    run = LegoRun(group="S5", change="half the learning rate", rate=0.5, lengths=(5, 10))
    item = run.item
    assert LegoRun(**item.parameters) == run
    assert item.name == "theory_half_the_learning_rate,S5,seed=0"
    assert [stage.lr for stage in run.stages] == [0.5 * stage.lr for stage in LegoRun().stages]
