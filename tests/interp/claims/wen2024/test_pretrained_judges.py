"""The judges of the mechanism claims on rows whose right verdict is known."""

import numpy as np
import pytest

from interp.claims.wen2024 import fig6, fig6_finetune, fig6_model
from interp.claims.wen2024 import mechanism_sparse_heads as heads
from interp.claims.wen2024 import mechanism_steps as steps
from interp.claims.wen2024._ablations import KNOWN, chosen_heads, known_heads, sizes
from interp.claims.wen2024._fig6 import read_by_parts
from interp.claims.wen2024._fig6_comparisons import COMPARISONS
from interp.claims.wen2024._pretrained import by_problem, mean_over_problems
from interp.claims.wen2024._steps import DISTANCE, FINAL, STEPS
from interp.claims.wen2024._worlds_pretrained import simulated_entropies
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement
from interp.core.parts import NotMeasurable
from interp.core.problem_runs import built_in
from probes import rows

KINDS = {test.kind for test in steps.TESTS.values()}
MODULES = (fig6, fig6_model, fig6_finetune, steps, heads)


def judged(module, table, preset: str = "cpu") -> Judgement:
    """What the claim's published rows say, which must be what all rows say."""
    claim = CLAIMS[module.ID]
    found = claim.judge(table, module.PRESETS[preset])
    assert claim.judge(claim.published(table), module.PRESETS[preset]) == found
    return found


def knockout_table(lost: dict[str, float], n: int = 40):
    """Rows in which cutting a kind costs `lost[kind]` nats more than its control, give or take 0.05."""
    generator, tables = np.random.default_rng(0), []
    for unit in range(n):
        for metric in (FINAL, STEPS, DISTANCE):
            values = [("intact", "arm=intact", -1.0, 0)] if metric != DISTANCE else []
            for kind in sorted(KINDS):
                controls = -1.5 + generator.normal(0, 0.2) + np.array([-0.1, 0.1])
                target = controls.mean() - lost[kind] + generator.normal(0, 0.05)
                values += [(kind, "arm=target draw=0", target, 7)]
                values += [(kind, f"arm=control draw={draw}", value, 7) for draw, value in enumerate(controls)]
            kinds, settings, numbers, cut = zip(*values)
            names = {"run": "m", "condition": kinds, "unit": f"p{unit}", "setting": settings, "metric": metric}
            tables.append(rows.table(**names, value=numbers, n_tokens=cut))
    return rows.concat(tables)


@pytest.mark.parametrize(("lost", "outcome"), [(1.0, "supported"), (-1.0, "refuted"), (0.0, "refuted")])
def test_a_cut_must_cost_more_than_its_control(lost, outcome):
    found = judged(steps, knockout_table(dict.fromkeys(KINDS, lost))).verdicts
    over = [v for v in found if v.key.endswith("_over")]
    assert [v.outcome for v in over] == [outcome] * len(steps.TESTS)
    assert all(v.estimate == pytest.approx(lost, abs=0.2) for v in over)


def test_what_any_cut_costs_is_not_reproduced_as_sparse_dependence():
    """The intact model is at -1, cut and control are at -1.5: half a nat is lost, whatever is cut."""
    found = judged(steps, knockout_table(dict.fromkeys(KINDS, 0.0)))
    by_key = {v.key: v for v in found.verdicts}
    assert {by_key[key].outcome for key in steps.TESTS} == {"supported"}
    assert all(by_key[key].estimate == pytest.approx(0.5, abs=0.2) for key in steps.TESTS)
    primary = {v.key: v.outcome for v in found.verdicts if v.primary}
    assert primary == {
        "answer_steps": "supported",
        "steps_steps": "supported",
        "answer_number_over": "refuted",
        "steps_results_over": "refuted",
    }
    assert found.conclusion == "partly reproduced"
    assert "mean distance of the keys" in by_key["answer_number_over"].note


def test_the_papers_parts_are_one_family():
    found = judged(steps, knockout_table(dict.fromkeys(KINDS, 1.0)))
    assert found.conclusion == "reproduced"
    assert {v.level for v in found.verdicts if v.primary} == {1 - 0.05 / 4}
    assert {v.level for v in found.verdicts if not v.primary} == {0.95}


def test_each_kind_is_judged_by_its_own_rows():
    found = judged(steps, knockout_table(dict.fromkeys(KINDS, 0.0) | {"answer to steps": 2.0})).verdicts
    assert [v.key for v in found if v.key.endswith("_over") and v.outcome == "supported"] == ["answer_steps_over"]


def test_a_solution_of_one_line_is_no_evidence_about_steps():
    table = knockout_table(dict.fromkeys(KINDS, 1.0))
    one_line = (table["unit"] == "p0") & (table["condition"] == "steps to earlier steps")
    changed = table.copy()
    changed.loc[one_line, ["value", "n_tokens"]] = [-1.0, 0]
    n = {v.key: v.n for v in judged(steps, changed).verdicts}
    assert n["steps_steps"] == n["final_steps_steps"] == 39
    assert n["answer_steps"] == 40


def test_a_cut_that_no_problem_has_is_not_measurable():
    table = knockout_table(dict.fromkeys(KINDS, 1.0))
    found = judged(steps, table[table["condition"] != "steps to earlier results"])
    outcomes = {v.key: v.outcome for v in found.verdicts}
    assert outcomes["steps_results"] == outcomes["steps_results_over"] == "not testable here"
    assert steps.figures(table[table["condition"] != "steps to earlier results"]).keys() == {"knockouts"}


def ablation_table(lost: float, n: int = 40):
    generator, tables = np.random.default_rng(0), []
    for unit in range(n):
        for metric in (heads.FINAL, heads.STEPS):
            values = [("intact", "intact", 0, -1.0)]
            for group in [group.condition for group in heads.GROUPS]:
                controls = -1.2 + generator.normal(0, 0.2, 2)
                target = controls.mean() - lost + generator.normal(0, 0.1)
                values += [(group, "target", 0, target), *((group, "control", d, v) for d, v in enumerate(controls))]
            groups, arms, draws, numbers = zip(*values)
            settings = [rows.setting(arm=arm, draw=draw) for arm, draw in zip(arms, draws)]
            names = {"run": "m", "condition": groups, "unit": f"p{unit}", "setting": settings, "metric": metric}
            tables.append(rows.table(**names, value=numbers))
    return rows.concat(tables)


@pytest.mark.parametrize(
    ("lost", "outcome", "conclusion"),
    [(0.5, "supported", "reproduced"), (0.0, "refuted", "not reproduced"), (0.1, "inconclusive", "undecided")],
)
def test_the_sparsest_heads_must_matter_more_than_others(lost, outcome, conclusion):
    found = judged(heads, ablation_table(lost))
    assert [v.outcome for v in found.verdicts] == [outcome] * 8
    assert all(v.n == 40 for v in found.verdicts)
    assert found.conclusion == conclusion
    assert [v.key for v in found.verdicts if v.primary] == ["sparsest_mean", "sparsest_zero"]
    assert [v.key for v in found.verdicts if v.role == "control"] == [
        "sparsest_unknown_mean", "sparsest_unknown_zero", "no_sink_unknown_mean", "no_sink_unknown_zero"
    ]  # fmt: skip


def test_without_heads_of_no_known_kind_their_parts_are_not_testable():
    table = ablation_table(0.5)
    found = judged(heads, table[~table["condition"].str.contains("no known kind")])
    outcomes = {v.key: v.outcome for v in found.verdicts}
    assert {outcome for key, outcome in outcomes.items() if "unknown" in key} == {"not testable here"}
    assert found.conclusion == "reproduced"


def selection(values: dict[str, np.ndarray]):
    """Rows of one problem: a score of every head, by metric."""
    tables = []
    for metric, scores in values.items():
        layer, head = np.indices(scores.shape).reshape(2, -1)
        text = KNOWN[metric][0] if metric in KNOWN else "cot"
        place = {"run": "m", "condition": text, "unit": "p", "metric": metric, "layer": layer, "head": head}
        tables.append(rows.table(**place, value=scores.reshape(-1)))
    return rows.concat(tables)


def test_heads_of_a_known_kind_are_neither_chosen_nor_drawn():
    import torch

    from hf_analysis.causal.ablation import matched_heads

    generator = np.random.default_rng(0)
    kinds = {kind: np.where(generator.random((10, 9)) < 0.1, 0.9, 0.0) for kind in KNOWN}
    table = selection({"length_matched_min": generator.random((10, 9)), **kinds})
    known = np.any([scores > 0.5 for scores in kinds.values()], axis=0)
    assert 0 < known.sum() < 60
    assert (known_heads(table) == known).all()
    chosen, among = chosen_heads(table, "length_matched_min", unknown=True)
    assert chosen.sum() == 9
    assert not (chosen.numpy() & known).any()
    for seed in range(20):
        other = matched_heads(chosen, torch.Generator().manual_seed(seed), among)
        assert not (other.numpy() & (known | chosen.numpy())).any()
        assert torch.equal(other.sum(1), chosen.sum(1))
    everything, _ = chosen_heads(table, "length_matched_min", unknown=False)
    assert (everything.numpy() & known).any()
    crowded = selection({"length_matched_min": np.ones((2, 4)), "sink": np.full((2, 4), 0.9)})
    assert not chosen_heads(crowded, "length_matched_min", unknown=True)[0].any()


def test_controls_are_averaged_over_draws_within_a_problem():
    table = ablation_table(0.0, n=3)
    group = heads.GROUPS[0].condition
    expected = table[(table["condition"] == group) & table["setting"].str.contains("control")]
    expected = expected[expected["metric"] == heads.FINAL].groupby("unit")["value"].mean()
    assert by_problem(table, heads.FINAL)[group, "control"].to_numpy() == pytest.approx(expected.to_numpy())


def test_as_many_heads_are_chosen_as_leave_a_match():
    assert sizes(30, 9) == (27, 3)
    assert sizes(28, 28) == (78, 9)
    assert sizes(2, 2) == (1, 1)


def entropies(changes: dict[str, float], n: int = 40, noise: float = 0.002):
    """Rows of fig6 in which CoT text differs by `changes`; a side that no part changes is at 0.3."""
    generator, values = np.random.default_rng(0), {}
    for key, of in COMPARISONS.items():
        sides = ((of.first, 0.0), (of.second, -changes.get(key, 0.0)))
        for side, shift in sides:
            if key in changes:
                value = 0.3 + shift + noise * generator.normal(size=n)
                values.setdefault((side.run, side.condition, side.metric, side.scope), value)
    return simulated_entropies(built_in(n), values)


def test_what_the_paper_measures_and_what_it_infers_are_primary_and_the_rest_are_controls():
    changes = {"published": -0.03, "sentence": 0.02, "no_sink": 0.0, "position": 0.0, "relevance": 0.0}
    found = judged(fig6, entropies({**changes, "tokens": -0.05, "permuted_published": -0.02}))
    outcomes = {v.key: v.outcome for v in found.verdicts}
    assert [v.key for v in found.verdicts if v.primary] == list(changes)
    assert [outcomes[key] for key in changes] == ["supported", *["refuted"] * 4]
    assert (outcomes["tokens"], outcomes["permuted_published"]) == ("supported", "refuted")
    assert (outcomes["sentence_same"], outcomes["relevance_same"]) == ("refuted", "supported")
    assert outcomes["format"] == outcomes["filler"] == "not testable here"
    assert found.conclusion == "partly reproduced"
    assert found.finding.startswith("On this model")


def test_no_difference_as_published_is_not_reproduced():
    assert judged(fig6, entropies(dict.fromkeys(COMPARISONS, 0.0))).conclusion == "not reproduced"


def test_published_rows_keep_heads_where_heads_are_tested_and_their_mean_elsewhere():
    one = entropies(dict.fromkeys(COMPARISONS, -0.03), n=8)
    both = rows.concat([one, one.assign(head=1, value=one["value"] + 0.1)])
    kept = read_by_parts(both)
    heads_of = kept.groupby(["run", "condition", "metric", "scope"])["head"].unique().map(sorted)
    assert heads_of["model", "cot", "min", "all"] == heads_of["model", "no_cot", "min", "final"] == [0, 1]
    assert heads_of["model", "prose_clean", "min", "final"] == heads_of["permuted", "cot", "min", "all"] == [-1]
    averaged = kept[(kept["condition"] == "prose_clean")].set_index("unit")["value"]
    plain = one[one["condition"] == "prose_clean"].set_index("unit")["value"]
    assert averaged.to_numpy() == pytest.approx(plain[averaged.index].to_numpy() + 0.05)
    claim, preset = CLAIMS[fig6.ID], fig6.PRESETS["cpu"]
    for found, again in zip(claim.judge(both, preset).verdicts, claim.judge(kept, preset).verdicts):
        assert (found.key, found.outcome, found.note) == (again.key, again.outcome, again.note)
        assert found.estimate == pytest.approx(again.estimate)


def test_problems_of_one_template_count_once():
    found = judged(fig6, entropies({"published": -0.03}, n=100)).verdicts[0]
    assert found.unit == "clusters"
    assert found.n == 60
    assert "100 problems of 60 templates" in found.note
    assert {part.unit for part in CLAIMS[fig6.ID].parts(fig6.PRESETS["paper"])} == {"problems"}


def test_problems_that_agree_or_come_from_one_template_give_no_narrow_interval():
    values = by_problem(ablation_table(0.0, n=3), heads.FINAL)["intact", "intact"]
    agreeing = mean_over_problems(values, 0.95)
    assert not isinstance(agreeing, NotMeasurable)
    assert np.isinf([agreeing.low, agreeing.high]).all()
    one = mean_over_problems(values.set_axis(["gsm-symbolic-0-00001"] * 3), 0.95)
    assert isinstance(one, NotMeasurable)


def two_models(other: str, change: float):
    generator, values = np.random.default_rng(0), {}
    for metric, scope, _ in fig6_model.REDUCTIONS.values():
        values["b", "cot", metric, scope] = 0.3 + change + 0.002 * generator.normal(size=24)
        values[fig6_model.AGAINST + other, "cot", metric, scope] = np.full(24, 0.3)
    return simulated_entropies(built_in(24), values)


def test_an_untrained_model_is_a_control_and_no_evidence_about_cot():
    found = judged(fig6_model, two_models("untrained b", -0.2))
    outcomes = {v.key: v.outcome for v in found.verdicts}
    assert outcomes["published"] == outcomes["mean"] == "not testable here"
    assert outcomes["control_published"] == outcomes["control_mean"] == "supported"
    assert found.conclusion == "undecided"


@pytest.mark.parametrize(("change", "conclusion"), [(-0.05, "reproduced"), (0.0, "not reproduced")])
def test_two_trained_models_are_what_the_paper_compares(change, conclusion):
    found = judged(fig6_model, two_models("a", change))
    assert found.conclusion == conclusion
    assert {v.outcome for v in found.verdicts if v.role == "control"} == {"not testable here"}


@pytest.mark.parametrize("module", MODULES)
def test_fresh_problems_have_items_of_their_own(module):
    from dataclasses import replace

    preset = module.PRESETS["cpu"]
    first = preset.first_unit + 1000
    usual, fresh = module.items(preset), module.items(replace(preset, first_unit=first))
    assert [item.parameters["first_unit"] for item in fresh] == [first] * len(usual)
    if "start" in usual[0].parameters:
        assert [i.parameters["start"] + 1000 for i in usual] == [i.parameters["start"] for i in fresh]
        assert {i.name for i in usual}.isdisjoint(i.name for i in fresh)


@pytest.mark.parametrize("module", MODULES)
def test_every_world_is_judged_from_its_published_rows_alike(module):
    for world in CLAIMS[module.ID].worlds:
        judged(module, world.rows(np.random.default_rng(0)))
