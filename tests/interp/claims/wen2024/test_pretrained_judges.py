"""The judges of the mechanism claims on rows whose right verdict is known."""

import numpy as np
import pytest

from interp.claims.wen2024 import mechanism_sparse_heads as heads
from interp.claims.wen2024 import mechanism_steps as steps
from interp.claims.wen2024._pretrained import by_problem
from probes import rows


def knockout_table(lost: dict[str, float], n: int = 40):
    """Rows in which cutting a kind costs `lost[kind]` nats more than its control, give or take 0.05."""
    generator, tables = np.random.default_rng(0), []
    for unit in range(n):
        for metric in (steps.FINAL, steps.STEPS):
            values = [("intact", "intact", -1.0, 0)]
            for kind in {kind for _, kind in steps.TESTS}:
                control = -1.5 + generator.normal(0, 0.2)
                target = control - lost[kind] + generator.normal(0, 0.05)
                values += [(kind, "full", target - 1, 9), (kind, "target", target, 7), (kind, "control", control, 7)]
            kinds, arms, numbers, cut = zip(*values)
            settings = [rows.setting(arm=arm) for arm in arms]
            names = {"run": "m", "condition": kinds, "unit": f"p{unit}", "setting": settings, "metric": metric}
            tables.append(rows.table(**names, value=numbers, n_tokens=cut))
    return rows.concat(tables)


@pytest.mark.parametrize(("lost", "outcome"), [(1.0, "supported"), (-1.0, "refuted"), (0.0, "refuted")])
def test_a_knockout_must_cost_more_than_its_control(lost, outcome):
    table = knockout_table({kind: lost for _, kind in steps.TESTS})
    verdicts = steps.judge(table)
    assert [v.outcome for v in verdicts] == [outcome] * len(steps.TESTS)
    assert all(v.estimate == pytest.approx(lost, abs=0.2) for v in verdicts)
    assert all(v.level == pytest.approx(1 - 0.05 / 7) for v in verdicts)


def test_each_kind_is_judged_by_its_own_rows():
    lost = {kind: 0.0 for _, kind in steps.TESTS} | {"answer to steps": 2.0}
    supported = [v.part for v in steps.judge(knockout_table(lost)) if v.outcome == "supported"]
    assert supported == ["final answer: answer to steps"]


def test_a_solution_of_one_line_is_no_evidence_about_steps():
    table = knockout_table({kind: 1.0 for _, kind in steps.TESTS})
    one_line = (table["unit"] == "p0") & (table["condition"] == "steps to earlier steps")
    changed = table.copy()
    changed.loc[one_line, ["value", "n_tokens"]] = [-1.0, 0]
    n = {v.part: v.n for v in steps.judge(changed)}
    assert n["final answer: steps to earlier steps"] == 39
    assert n["final answer: answer to steps"] == 40


def ablation_table(lost: float, n: int = 40):
    generator, tables = np.random.default_rng(0), []
    for unit in range(n):
        for metric in (heads.FINAL, heads.STEPS):
            values = [("intact", "intact", 0, -1.0)]
            for group in heads._groups():
                controls = -1.2 + generator.normal(0, 0.2, 2)
                target = controls.mean() - lost + generator.normal(0, 0.1)
                values += [(group, "target", 0, target), *((group, "control", d, v) for d, v in enumerate(controls))]
            groups, arms, draws, numbers = zip(*values)
            settings = [rows.setting(arm=arm, draw=draw) for arm, draw in zip(arms, draws)]
            names = {"run": "m", "condition": groups, "unit": f"p{unit}", "setting": settings, "metric": metric}
            tables.append(rows.table(**names, value=numbers))
    return rows.concat(tables)


@pytest.mark.parametrize(("lost", "outcome"), [(0.5, "supported"), (0.0, "refuted"), (0.1, "inconclusive")])
def test_the_sparsest_heads_must_matter_more_than_others(lost, outcome):
    verdicts = heads.judge(ablation_table(lost))
    assert [v.outcome for v in verdicts] == [outcome] * 4
    assert all(v.n == 40 and v.unit == "problems" for v in verdicts)


def test_controls_are_averaged_over_draws_within_a_problem():
    table = ablation_table(0.0, n=3)
    group = heads._groups()[0]
    expected = table[(table["condition"] == group) & table["setting"].str.contains("control")]
    expected = expected[expected["metric"] == heads.FINAL].groupby("unit")["value"].mean()
    assert by_problem(table, heads.FINAL)[group, "control"].to_numpy() == pytest.approx(expected.to_numpy())


def test_as_many_heads_are_chosen_as_leave_a_match():
    assert heads._sizes(30, 9) == (27, 3)
    assert heads._sizes(28, 28) == (78, 9)
    assert heads._sizes(2, 2) == (1, 1)
