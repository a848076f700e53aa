"""Do the verdicts on the theorems of huang2025 follow from rows as declared? Rows made up to give each of them."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from interp.claims.huang2025 import neurons, thm4_1, thm5_1
from interp.claims.huang2025._theory_reading import slopes
from interp.claims.huang2025._theory_runs import LENGTHS, TheoryRun
from interp.claims.huang2025._thm4_1 import summary
from interp.claims.huang2025._worlds_thm4_1 import logarithm, power
from interp.claims.huang2025._worlds_thm4_1 import simulated as rows_4_1
from interp.claims.huang2025._worlds_thm5_1 import simulated as rows_5_1
from interp.core.claim import CLAIMS
from interp.core.verdict import Verdict
from toy_models.lego.groups import group_action

TRUE = {
    thm4_1.ID: partial(
        rows_4_1, growth=power(0.6), diagonal=0.8, imbalance=0.01, others=0.05, others_power=-1.0, noise=2.0,
        lead=1.5, left=0.1,
    ),
    thm5_1.ID: partial(rows_5_1, first=2.2, off=0.005, dilution=2.0, degree=5.0),
    neurons.ID: partial(
        neurons.simulated, one=0.99, few=0.1, response=0.0, predicted=0.95, strength=1.0, ratio=1.0, fiber_ratio=1.0,
        small=0.03, unrelated=-1.0, order=0.9,
    ),
}  # fmt: skip


def made_up(claim: str, **changes) -> pd.DataFrame:
    return TRUE[claim](np.random.default_rng(0), **changes)


def judge(claim: str, rows: pd.DataFrame) -> dict[str, Verdict]:
    return {v.key: v for v in CLAIMS[claim].judge(rows, CLAIMS[claim].presets["cpu"]).verdicts}


@pytest.mark.parametrize(("claim", "n"), [(thm4_1.ID, 10), (thm5_1.ID, 8), (neurons.ID, 12)])
def test_rows_that_follow_the_theorems_support_every_part(claim, n):
    found = judge(claim, made_up(claim))
    assert {key: v.outcome for key, v in found.items()} == dict.fromkeys(found, "supported")
    assert len(found) == n
    assert all(v.n == 8 and v.unit == "seeds" for v in found.values())


def test_what_is_estimated_is_what_was_put_in():
    found = judge(thm4_1.ID, made_up(thm4_1.ID))
    expected = {"concentrates": 0.6, "sampled": 0.6, "grow": 0.8, "others_shrink": -1.0}
    assert {key: found[key].estimate for key in expected} == pytest.approx(expected, abs=0.03)
    assert found["noise"].estimate == pytest.approx(2.0, rel=0.05)
    assert found["gap_closes"].estimate == pytest.approx(0.1, abs=0.03)
    found = judge(thm5_1.ID, made_up(thm5_1.ID))
    assert found["diluted"].estimate == pytest.approx(2.0, rel=0.05)
    assert found["degree_matters"].estimate == pytest.approx(5.0, rel=0.05)


@pytest.mark.parametrize(
    ("claim", "changes", "part"),
    [
        (thm4_1.ID, {"imbalance": 0.4}, "balanced"),
        (thm4_1.ID, {"diagonal": 0.1}, "grow"),
        (thm4_1.ID, {"others": 0.3}, "others"),
        (thm4_1.ID, {"others_power": 0.0}, "others_shrink"),
        (thm4_1.ID, {"noise": 1.0}, "noise"),
        (thm4_1.ID, {"growth": power(0.1)}, "concentrates"),
        (thm4_1.ID, {"growth": power(0.1)}, "sampled"),
        (thm4_1.ID, {"growth": power(0.0)}, "length"),
        (thm4_1.ID, {"lead": 0.1}, "lead"),
        (thm4_1.ID, {"left": 0.9}, "gap_closes"),
        (thm5_1.ID, {"first": 1.2}, "twice"),
        (thm5_1.ID, {"first": 1.2}, "every_length"),
        (thm5_1.ID, {"first": 5.0}, "first_fails"),
        (thm5_1.ID, {"first": 5.0}, "c6_first_fails"),
        (thm5_1.ID, {"off": 0.1}, "stage_attention"),
        (thm5_1.ID, {"dilution": 1.0}, "diluted"),
        (thm5_1.ID, {"degree": 1.0}, "degree_matters"),
        (thm5_1.ID, {"ended": 0.0}, "ended"),
        (neurons.ID, {"one": 0.5}, "one"),
        (neurons.ID, {"one": 0.5}, "fibers"),
        (neurons.ID, {"few": 0.99}, "large_q"),
        (neurons.ID, {"response": -0.6}, "response"),
        (neurons.ID, {"predicted": 0.1}, "predicted"),
        (neurons.ID, {"strength": 0.5}, "strength"),
        (neurons.ID, {"ratio": 2.0}, "balanced"),
        (neurons.ID, {"fiber_ratio": 0.5}, "imbalance"),
        (neurons.ID, {"small": 0.4}, "runner_up"),
        (neurons.ID, {"small": 0.4}, "cancelled"),
        (neurons.ID, {"unrelated": 0.0}, "unrelated"),
        (neurons.ID, {"order": 0.0}, "order"),
    ],
)
def test_each_part_can_be_refuted_by_what_it_is_about(claim, changes, part):
    assert judge(claim, made_up(claim, **changes))[part].outcome == "refuted"


def test_a_logarithm_is_no_power():
    found = judge(thm4_1.ID, made_up(thm4_1.ID, growth=logarithm))
    assert "supported" not in {found[key].outcome for key in ("concentrates", "length", "sampled")}


def test_stages_that_were_cut_leave_the_theorem_untested():
    found = judge(thm5_1.ID, made_up(thm5_1.ID, ended=0.0))
    assert {found[key].outcome for key in ("twice", "stage_attention", "every_length")} == {"not testable here"}


def test_runs_that_solve_every_length_tested_leave_the_power_open_above():
    found = judge(thm4_1.ID, made_up(thm4_1.ID, growth=power(1.8)))["length"]
    assert found.high == np.inf
    assert " of 48 runs solve every length tested" in found.note
    assert judge(thm4_1.ID, made_up(thm4_1.ID))["length"].high < np.inf


def test_a_run_that_fails_at_the_shortest_leaves_the_power_open_too():
    rows = made_up(thm4_1.ID)
    small = rows["setting"].str.contains("d=32") & (rows["metric"] == "accuracy") & (rows["unit"] == "0")
    found = judge(thm4_1.ID, rows.assign(value=rows["value"].mask(small, 0.0)))["length"]
    assert (found.high, found.low > -np.inf) == (np.inf, True)


def test_the_first_stage_is_shared_and_the_largest_degree_is_judged():
    rows = made_up(thm5_1.ID)
    other = rows["setting"].str.contains("degree=0.6") & (rows["metric"] == "accuracy")
    before, after = judge(thm5_1.ID, rows), judge(thm5_1.ID, rows.assign(value=rows["value"].mask(other, 0.0)))
    assert before == after


@pytest.mark.parametrize("module", [thm4_1, thm5_1, neurons], ids=lambda module: module.ID)
def test_figures_are_drawn_and_published_rows_give_the_same_verdicts(module):
    rows = made_up(module.ID)
    claim = CLAIMS[module.ID]
    assert judge(module.ID, claim.published(rows)) == judge(module.ID, rows)
    if module is not thm4_1:  # its lines need entries that no part reads
        assert module.figures(claim.published(rows))


def test_the_last_step_is_read_and_what_was_on_the_way():
    runs = summary(made_up(thm4_1.ID)).runs
    assert len(runs) == 48
    assert runs["error"].max() < 0.2  # 0.5 on the way
    assert (runs["lead"] * runs["log_d"]).mean() == pytest.approx(1.5, rel=0.05)
    line = pd.DataFrame({"unit": ["a", "a", "b", "b"], "x": [0, 2, 0, 2]})
    assert slopes(line, "x", pd.Series([1.0, 5.0, 0.0, -2.0])).to_dict() == pytest.approx({"a": 2.0, "b": -1.0})


def test_every_preset_can_test_what_the_parts_ask():
    """Enough variables for the double of the last stage, more than one size, and no more classes than neurons."""
    for preset in thm4_1.PRESETS.values():
        runs = [TheoryRun(**item.parameters) for item in thm4_1.items(preset)]
        assert len({run.d for run in runs}) >= 2
        assert all(run.task.action.n_points <= run.m <= np.log(run.d) ** 2 + 1 for run in runs)
    for preset in thm5_1.PRESETS.values():
        for run in (TheoryRun(**item.parameters) for item in thm5_1.items(preset)):
            assert {2 ** (run.stages + 1), run.task.n_variables - 1} <= set(run.lengths)
            assert run.task.d_vocab <= run.d
            assert run.first_degree is not None
            assert max(run.degrees) < min(run.first_degree, run.clip - 1)
            assert 2 ** (run.stages + 1) in LENGTHS
    assert not group_action(thm5_1.PRESETS["cpu"].symmetric).is_solvable
