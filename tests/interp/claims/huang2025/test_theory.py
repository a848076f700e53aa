"""Do the verdicts on the theorems of huang2025 follow from rows as declared? Rows made up to give each of them."""

import numpy as np
import pandas as pd
import pytest

from interp.claims.huang2025._theory_runs import LENGTHS, TheoryRun, final, slopes
from interp.claims.huang2025.thm4_1 import ID, PRESETS, figures, items, published
from interp.core.claim import CLAIMS
from interp.core.verdict import Verdict
from probes.rows import setting, table

SIZES, SEEDS, STAGES = (32, 64, 128), 8, 3
SUPPORTING = {
    "diagonal": 0.8,  # slope against log d
    "imbalance": 0.05,
    "others": 0.02,  # share at the smallest d; the largest is three times that
    "others_power": -1.0,
    "error_power": -0.6,
    "reach_power": 0.6,
    "stage_slope": 1.0,
    "first_reach": 4.5,  # by stage 1 of Algorithm 2
    "symmetric_reach": 0.05,  # octaves against C6
    "c6_first_reach": 4.5,
    "off": 0.004,  # attention elsewhere after a stage
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
        """All right up to a length, none right at four times that, linear in log length between."""
        for length in LENGTHS:
            if length <= 64:
                share = float(np.clip(1 - (np.log2(length) - octaves) / 2, 0, 1))
                self.add(run, {"accuracy": share}, 10, length=length, **places)


def made_up(**changes: float) -> pd.DataFrame:
    """Rows of every run, with a little noise over seeds."""
    p = {**SUPPORTING, **changes}
    records = Records()
    for seed in range(SEEDS):
        noise = 1 + 0.002 * (seed - 3.5)
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
                metrics = {"error": p["off"] * noise, "labels_right": 1.0, "loss": 0.1}
                records.add(run, metrics, 10, stage=stage)
                records.accuracy(run, (start + p["stage_slope"] * (stage - 1)) * noise, stage=stage)
    return table(**records.columns)


def judge(rows: pd.DataFrame) -> dict[str, Verdict]:
    return {verdict.key: verdict for verdict in CLAIMS[ID].judge(rows, PRESETS["cpu"]).verdicts}


def outcomes(**changes: float) -> dict[str, Verdict]:
    return judge(made_up(**changes))


def test_rows_that_follow_the_theorems_support_every_part():
    found = outcomes()
    assert len(found) == 12
    assert {part: v.outcome for part, v in found.items()} == dict.fromkeys(found, "supported")
    assert found["twice"].estimate == 1.0
    assert all(v.n == SEEDS and v.unit == "seeds" for v in found.values())
    assert found["grow"].estimate == pytest.approx(0.8, abs=1e-3)
    assert found["others_shrink"].estimate == pytest.approx(-1.0, abs=1e-3)
    assert found["concentrates"].estimate == pytest.approx(0.6, abs=1e-3)
    assert found["others"].estimate == pytest.approx(0.06, rel=1e-3)
    assert found["balanced"].estimate == pytest.approx(0.05, rel=1e-3)
    assert {key for key, v in found.items() if v.primary} == {"concentrates", "length", "twice", "stage_attention"}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"imbalance": 0.4}, "balanced"),
        ({"imbalance": -0.4}, "balanced"),
        ({"diagonal": 0.1}, "grow"),
        ({"others": 0.1}, "others"),
        ({"others_power": 0.0}, "others_shrink"),
        ({"error_power": -0.1}, "concentrates"),
        ({"error_power": 0.5}, "concentrates"),
        ({"reach_power": 0.0}, "length"),
        ({"first_reach": 2.5}, "twice"),
        ({"stage_slope": 0.3}, "doubles"),
        ({"stage_slope": 0.3}, "twice"),
        ({"off": 0.2}, "stage_attention"),
        ({"first_reach": 14.0}, "first_fails"),
        ({"symmetric_reach": -2.0}, "symmetric_as_far"),
        ({"c6_first_reach": 14.0}, "c6_first_fails"),
    ],
)
def test_each_part_can_be_refuted_by_what_it_is_about(changes, part):
    assert outcomes(**changes)[part].outcome == "refuted"


def test_seeds_that_disagree_decide_nothing():
    rows = made_up()
    concentrated = (rows["condition"] == "algorithm_1") & (rows["metric"] == "error") & rows["unit"].isin(["0", "1"])
    flat = rows.assign(value=rows["value"].mask(concentrated, 0.2))
    assert judge(flat)["concentrates"].outcome == "inconclusive"


def test_runs_that_solve_every_length_tested_leave_the_power_open_above():
    capped = outcomes(reach_power=1.5)["length"]
    assert capped.high == np.inf
    assert "8 of 24 runs solve every length tested" in capped.note
    assert outcomes()["length"].high < np.inf


def test_a_run_that_fails_at_the_shortest_leaves_the_power_open_too():
    rows = made_up()
    small = rows["setting"].str.contains("d=32") & (rows["metric"] == "accuracy") & (rows["unit"] == "0")
    found = judge(rows.assign(value=rows["value"].mask(small, 0.0)))["length"]
    assert found.high == np.inf
    assert found.low > -np.inf


def test_the_mean_of_the_other_entries_is_not_judged():
    """It follows from the diagonals: rows of Q_{4,3} and Q_{4,4} together sum to zero."""
    rows = made_up()
    other = rows["metric"].isin(["other_43", "other_44"])
    assert judge(rows.assign(value=rows["value"].mask(other, 9.0))) == judge(rows)


def test_the_other_group_does_not_count_for_the_theorems():
    """Rows of the symmetric group under Algorithm 1, and of C6 under Algorithm 2, move their own parts alone."""
    before, after = outcomes(), outcomes(symmetric_reach=-2.0, c6_first_reach=64.0)
    moved = {part for part in before if before[part].estimate != after[part].estimate}
    assert moved == {"symmetric_as_far", "c6_first_fails"}


def test_published_rows_give_the_same_verdicts():
    rows = made_up()
    kept = published(rows)
    assert len(kept) < len(rows)
    assert judge(kept) == judge(rows)


def test_final_reads_the_last_step_and_the_length_reached():
    found = final(made_up(), "algorithm_1", simple=True)
    assert sorted(found["d"].unique()) == list(SIZES)
    assert len(found) == SEEDS * len(SIZES)
    assert found["error"].max() == pytest.approx(0.2)
    assert found[found["d"] == 32]["reach"].between(3.3, 3.5).all()  # between 8, all right, and 12, too few
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
