"""Do the verdicts on the theorems of huang2025 follow from rows as declared? Rows made up to give each of them."""

import numpy as np
import pandas as pd
import pytest

from interp.claims.huang2025._theory_runs import LENGTHS, TheoryRun, final, slopes
from interp.claims.huang2025.thm4_1 import PRESETS, figures, items, judge
from interp.core.verdict import Verdict
from probes.rows import setting, table

SIZES, SEEDS, STAGES = (32, 64, 128), 5, 3
SYMMETRIC_1 = "beyond the paper: by Algorithm 1 the symmetric group gets as far as C6"
C6_STAGE_1 = "beyond the paper: by Algorithm 2 the first stage fails for C6 too"
SUPPORTING = {
    "diagonal": 0.8,  # slope against log d
    "imbalance": 0.05,
    "others": 0.05,  # share at the smallest d
    "others_power": -1.0,
    "error_power": -0.6,
    "reach_power": 0.6,
    "stage_slope": 1.0,
    "first_reach": 4.5,  # by stage 1 of Algorithm 2
    "symmetric_reach": 0.0,  # octaves against C6
    "c6_first_reach": 4.5,
}


class Records:
    """Rows of runs, put into a table at the end: many small tables are slow."""

    def __init__(self) -> None:
        self.columns: dict[str, list] = {name: [] for name in ("run", "condition", "unit", "setting", "update")}
        self.columns |= {"metric": [], "value": []}

    def add(self, run: TheoryRun, metrics: dict[str, float], step: int, **places: int) -> None:
        where = setting(d=run.d, group=run.group, **places)
        for metric, value in metrics.items():
            row = (run.item.name, run.algorithm, str(run.seed), where, step, metric, value)
            for column, entry in zip(self.columns.values(), row, strict=True):
                column.append(entry)

    def accuracy(self, run: TheoryRun, octaves: float, **places: int) -> None:
        """All right up to the length reached, none right from there on."""
        for length in LENGTHS:
            if length <= 64:
                self.add(run, {"accuracy": float(length <= 2**octaves)}, 10, length=length, **places)


def made_up(**changes: float) -> pd.DataFrame:
    """Rows of every run, with a little noise over seeds."""
    p = {**SUPPORTING, **changes}
    records = Records()
    for seed in range(SEEDS):
        noise = 1 + 0.002 * (seed - 2)
        for group, sizes in (("C6", SIZES), ("S4", SIZES[-1:])):
            for d in sizes:
                run = TheoryRun("algorithm_1", group, d, lr=0.2, seed=seed)
                diagonal = 3 + p["diagonal"] * np.log(d / 32) * noise
                other = p["others"] * (d / 32) ** p["others_power"] * diagonal * noise
                blocks = {"diagonal_43": diagonal * (1 + p["imbalance"] * noise / 2), "other_43": other}
                blocks |= {"diagonal_44": diagonal * (1 - p["imbalance"] * noise / 2), "other_44": other}
                blocks |= {"largest_other_43": 3 * other, "largest_other_44": 3 * other}
                error = 0.2 * (d / 32) ** (p["error_power"] * noise)
                looks = {"predicate": (1 - error) / 2, "answer": (1 - error) / 2, "error": error}
                records.add(run, {**blocks, "error": 0.9, "predicate": 0.05, "answer": 0.05, "loss": 1.0}, 5)
                records.add(run, {**blocks, **looks}, 10)
                behind = p["symmetric_reach"] if group == "S4" else 0
                records.accuracy(run, (3.3 + p["reach_power"] * np.log2(d / 32) + behind) * noise)
        for group in ("C6", "S4"):
            run = TheoryRun("algorithm_2", group, 159, lr=0.1, seed=seed)
            start = np.log2(p["c6_first_reach" if group == "C6" else "first_reach"])
            for stage in range(1, STAGES + 1):
                records.add(run, {"error": 0.1, "labels_right": 1.0, "loss": 0.1}, 10, stage=stage)
                records.accuracy(run, start + p["stage_slope"] * (stage - 1) * noise, stage=stage)
    return table(**records.columns)


def outcomes(**changes: float) -> dict[str, Verdict]:
    return {verdict.part: verdict for verdict in judge(made_up(**changes))}


def test_rows_that_follow_the_theorems_support_every_part():
    found = outcomes()
    assert len(found) == 11
    assert {part: v.outcome for part, v in found.items()} == dict.fromkeys(found, "supported")
    assert all(v.n == SEEDS and v.unit == "seeds" for v in found.values())
    assert found["and grow like log d"].estimate == pytest.approx(0.8, abs=1e-3)
    assert found["and shrink against the diagonals"].estimate == pytest.approx(-1.0, abs=1e-3)
    assert found["attention concentrates as a power of d"].estimate == pytest.approx(0.6, abs=1e-3)
    assert found["other entries stay small"].estimate == pytest.approx(0.05, rel=1e-3)
    assert found["the diagonals of Q_{4,3} and Q_{4,4} are balanced"].estimate == pytest.approx(0.05, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"imbalance": 0.4}, "the diagonals of Q_{4,3} and Q_{4,4} are balanced"),
        ({"imbalance": -0.4}, "the diagonals of Q_{4,3} and Q_{4,4} are balanced"),
        ({"diagonal": 0.1}, "and grow like log d"),
        ({"others": 0.3}, "other entries stay small"),
        ({"others_power": 0.0}, "and shrink against the diagonals"),
        ({"error_power": -0.1}, "attention concentrates as a power of d"),
        ({"error_power": 0.5}, "attention concentrates as a power of d"),
        ({"reach_power": 0.0}, "the length solved grows as a power of d"),
        ({"first_reach": 3.5}, "every stage solves twice its length"),
        ({"stage_slope": 0.3}, "the length solved doubles with each stage"),
        ({"stage_slope": 0.3}, "every stage solves twice its length"),
        ({"first_reach": 64.0}, "the first stage alone does not get there"),
        ({"symmetric_reach": -2.0}, SYMMETRIC_1),
        ({"c6_first_reach": 64.0}, C6_STAGE_1),
    ],
)
def test_each_part_can_be_refuted_by_what_it_is_about(changes, part):
    assert outcomes(**changes)[part].outcome == "refuted"


def test_seeds_that_disagree_decide_nothing():
    rows = made_up()
    concentrated = (rows["condition"] == "algorithm_1") & (rows["metric"] == "error") & rows["unit"].isin(["0", "1"])
    flat = rows.assign(value=rows["value"].mask(concentrated, 0.2))
    (found,) = [v for v in judge(flat) if v.part == "attention concentrates as a power of d"]
    assert found.outcome == "inconclusive"


def test_the_other_group_does_not_count_for_the_theorems():
    """Rows of the symmetric group under Algorithm 1, and of C6 under Algorithm 2, move their own parts alone."""
    before, after = outcomes(), outcomes(symmetric_reach=-2.0, c6_first_reach=64.0)
    moved = {part for part in before if before[part].estimate != after[part].estimate}
    assert moved == {SYMMETRIC_1, C6_STAGE_1}


def test_final_reads_the_last_step_and_the_length_reached():
    found = final(made_up(), "algorithm_1", simple=True)
    assert sorted(found["d"].unique()) == list(SIZES)
    assert len(found) == SEEDS * len(SIZES)
    assert found["error"].max() == pytest.approx(0.2)
    assert found[found["d"] == 32]["reach"].between(2.9, 3.1).all()  # between 8, all right, and 12, none
    by_stage = final(made_up(), "algorithm_2", simple=False).groupby("stage")["reach"].mean()
    assert by_stage.is_monotonic_increasing
    line = pd.DataFrame({"unit": ["a", "a", "b", "b"], "x": [0, 2, 0, 2]})
    assert slopes(line, "x", pd.Series([1.0, 5.0, 0.0, -2.0])).to_dict() == pytest.approx({"a": 2.0, "b": -1.0})


def test_figures_are_drawn_from_rows():
    assert set(figures(made_up())) == {"blocks", "powers", "stages"}


def test_every_preset_can_test_what_the_parts_ask():
    """Enough variables for the double of the last stage, more than one size, and no more classes than neurons."""
    for preset in PRESETS.values():
        runs = [TheoryRun(**item.parameters) for item in items(preset)]
        assert len({run.d for run in runs if run.algorithm == "algorithm_1" and run.group == "C6"}) >= 2
        for run in runs:
            assert run.task.action.n_points <= run.m <= np.log(run.d) ** 2 + 1
            if run.algorithm == "algorithm_2":
                assert 2 ** (run.stages + 1) in LENGTHS
                assert 2 ** (run.stages + 1) <= run.longest
                assert run.task.n_variables > 2 ** (run.stages + 1)
