"""wen2024/fig6-finetune: its judge where the verdict is known, its measurement, and its items under a kill."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import interp.claims.wen2024._tuned as tuned
from hf_analysis.finetuning import FinetuneConfig, Finetuner
from hf_analysis.text.conditions import Context, find_condition, tokenise
from interp.claims.wen2024 import fig6_finetune as claim
from interp.claims.wen2024._finetune import MEASURES, PLACES
from interp.claims.wen2024._tuned import ARMS, BASE, FINAL, run_name, summary
from interp.claims.wen2024._worlds_finetune import WORLDS, simulated_tuning
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement
from interp.core.problem_runs import load, some_problems


def simulated(cot: float, no_cot: float = 0.0, prose: float = 0.0, **changes) -> pd.DataFrame:
    options = {"elsewhere": 0.0, "sink_only": False, "learned": -0.5, "early": 0.5, **changes}
    shifts = {"cot": cot, "no_cot": no_cot, "prose": prose}
    return simulated_tuning(np.random.default_rng(0), shifts, **options)


def judged(rows: pd.DataFrame) -> Judgement:
    return CLAIMS[claim.ID].judge(rows, claim.PRESETS["cpu"])


def outcomes(rows: pd.DataFrame) -> dict[str, str]:
    return {v.key: v.outcome for v in judged(rows).verdicts}


def test_the_papers_parts_are_the_published_one_and_the_same_sentence_beyond_other_text():
    verdicts = judged(simulated(-0.05)).verdicts
    assert [v.key for v in verdicts if v.primary] == ["published", "sentence", "no_sink"]
    assert [v.key for v in verdicts if v.role == "precondition"] == [f"{arm}_learned" for arm in ARMS]


def test_a_fall_under_cot_text_alone_is_reproduced():
    found = judged(simulated(-0.05))
    assert found.conclusion == "reproduced"
    assert {v.outcome for v in found.verdicts} == {"supported"}


@pytest.mark.parametrize(("no_cot", "prose"), [(-0.05, -0.05), (-0.05, 0.0), (0.0, -0.05)])
def test_what_other_text_does_too_is_not_green(no_cot, prose):
    found = judged(simulated(-0.05, no_cot, prose))
    by_key = {v.key: v.outcome for v in found.verdicts}
    assert by_key["published"] == by_key["alone"] == "supported"
    assert "supported" not in (by_key["sentence"], by_key["no_sink"])
    assert (by_key["over_no_cot"] == "supported") == (no_cot == 0)
    assert (by_key["over_prose"] == "supported") == (prose == 0)
    assert found.conclusion == "partly reproduced"


def test_a_rise_under_other_text_is_no_support():
    found = judged(simulated(0.0, 0.03, 0.03))
    by_key = {v.key: v.outcome for v in found.verdicts}
    assert by_key["over_no_cot"] == by_key["over_prose"] == "supported"
    assert found.conclusion == "not reproduced"


def test_a_fall_of_the_sink_alone_is_seen():
    found = outcomes(simulated(-0.05, sink_only=True))
    assert found["sentence"] == "supported" != found["no_sink"]


def test_a_dose_that_does_all_leaves_nothing_to_the_next():
    found = outcomes(simulated(-0.05, early=1.0))
    assert found["sentence"] == found["dose_1"] == "supported" != found["grows"]


def test_an_arm_that_did_not_learn_judges_nothing():
    found = judged(simulated(-0.05, learned=0.0))
    assert {v.outcome for v in found.verdicts[:3]} == {"refuted"}
    assert {v.outcome for v in found.verdicts[3:]} == {"not testable here"}
    assert found.conclusion == "undecided"


def test_runs_that_disagree_are_inconclusive_however_many_problems_there_are():
    rows = simulated(0.0)
    for seed, shift in enumerate((-0.06, -0.03, 0.0)):
        rows.loc[(rows["run"] == run_name("cot", seed)) & (rows["metric"] == "min"), "value"] += shift
    assert outcomes(rows)["alone"] == "inconclusive"


def test_estimates_are_those_of_the_rows():
    rows = simulated(-0.05, 0.01, -0.02)
    found = {v.key: v for v in judged(rows).verdicts}
    at = rows[(rows["metric"] == "min") & (rows["scope"] == FINAL) & (rows["condition"] == "cot_clean")]
    dose = at["setting"] == "dose=16384"
    means = {arm: at[dose & at["run"].str.startswith(f"{arm}-")]["value"].mean() for arm in ARMS}
    base = at[at["run"] == BASE]["value"].mean()
    change = {arm: value - base for arm, value in means.items()}
    assert found["alone"].estimate == pytest.approx(change["cot"])
    assert found["over_prose"].estimate == pytest.approx(change["cot"] - change["prose"])
    expected = max(change["cot"], change["cot"] - change["prose"], change["cot"] - change["no_cot"])
    assert found["sentence"].estimate == pytest.approx(expected)
    assert f"tuned on prose {change['prose']:+.4f}" in found["sentence"].note


def test_a_problem_without_the_sentence_is_set_aside_not_counted_as_zero():
    rows = simulated(-0.05)
    lost = rows["unit"].eq(rows["unit"].iloc[0]) & (rows["scope"] == FINAL)
    whole, fewer = summary(rows), summary(rows[~lost])
    place = ("min", FINAL, "cot_clean")
    assert np.isnan(fewer.change(place, "cot", 16_384)[0]).all()
    assert np.array_equal(fewer.change(place, "cot", 16_384)[1:], whole.change(place, "cot", 16_384)[1:])
    assert outcomes(rows[~lost])["sentence"] == "supported"


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_every_world_has_the_rows_that_the_parts_read(world):
    assert len(judged(world.rows(np.random.default_rng(0))).verdicts) >= len(world.truth)


@pytest.fixture(scope="module")
def llama():
    return load(claim.PRESETS["smoke"].model)


@pytest.fixture(scope="module")
def problems():
    return some_problems("builtin", 0, 3)


def eager_patterns(model, ids: list[int]) -> torch.Tensor:
    """[layer head query key] of eager attention, in float64."""
    before = model.model.config._attn_implementation
    model.model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model.model.double()(torch.tensor([ids]), output_attentions=True).attentions
    model.model.float().set_attn_implementation(before)
    return torch.stack(found)[:, 0]


def test_the_sentence_is_measured_as_eager_attention_has_it(llama, problems, tmp_path):
    table = tuned.attention_rows(llama, problems[:2], "r", tmp_path)
    rows = table.set_index(["unit", "condition", "metric", "scope"])["value"]
    for problem in problems[:2]:
        context = Context(problems, 0, llama)
        for text in ("cot_clean", "no_cot"):
            ids, _ = tokenise(llama, find_condition(text)(problem, context))
            sentence = llama.encode(f"{problem.question} The answer is {problem.answer}.")
            n = len(sentence) - len(llama.encode(problem.question))
            pattern = eager_patterns(llama, ids)[:, :, -n:]
            visible = torch.arange(len(ids) - n + 1, len(ids) + 1)
            entropy = -torch.xlogy(pattern, pattern).sum(-1)
            rest = pattern[..., 1:] / pattern[..., 1:].sum(-1, keepdim=True)
            without = -torch.xlogy(rest, rest).sum(-1) / (visible - 1).log()
            expected = {
                "min": (entropy / visible.log()).amin(-1).mean(),
                "mean": (entropy / visible.log()).mean(),
                "sink_excluded_min": without.amin(-1).mean(),
                "entropy_nats_min": entropy.amin(-1).mean(),
            }
            for metric, value in expected.items():
                assert rows[problem.id, text, metric, FINAL] == pytest.approx(float(value), abs=1e-4)
    assert set(PLACES) <= {(metric, scope, text) for _, text, metric, scope in rows.index}


@pytest.fixture
def item():
    return next(item for item in claim.items(claim.PRESETS["smoke"]) if item.name == "no_cot-seed=1")


@pytest.mark.parametrize("dose", claim.PRESETS["smoke"].doses)
def test_a_run_killed_at_a_dose_goes_on_there_and_ends_with_the_same_rows(dose, item, tmp_path, monkeypatch):
    whole = claim.tune_and_measure(item, tmp_path / "whole")
    taken: list[int] = []
    measured = tuned.dose_rows

    def die(model, problems, prose, run, at, work):
        if at == dose:
            raise KeyboardInterrupt
        return measured(model, problems, prose, run, at, work)

    def counted(self):
        taken.append(self.tokens)
        return step(self)

    step = Finetuner.step
    monkeypatch.setattr(Finetuner, "step", counted)
    with monkeypatch.context() as patch:
        patch.setattr(claim, "dose_rows", die)
        with pytest.raises(KeyboardInterrupt):
            claim.tune_and_measure(item, tmp_path / "cut")
    assert not _dose_file(tmp_path / "cut", dose).exists()
    resumed = claim.tune_and_measure(item, tmp_path / "cut")
    assert len(taken) == len(set(taken)), "no step is taken twice"
    pd.testing.assert_frame_equal(whole, resumed, check_exact=True)
    taken.clear()
    pd.testing.assert_frame_equal(whole, claim.tune_and_measure(item, tmp_path / "cut"), check_exact=True)
    assert not taken


def test_a_lost_dose_behind_a_checkpoint_is_named(item, tmp_path):
    claim.tune_and_measure(item, tmp_path)
    _dose_file(tmp_path, 256).unlink()
    with pytest.raises(ValueError, match="asked for the model after 256; remove its checkpoint"):
        claim.tune_and_measure(item, tmp_path)


def _dose_file(work: Path, dose: int) -> Path:
    return work / "doses" / f"{dose}.parquet"


def test_a_measured_dose_is_the_model_that_a_shorter_run_ends_with(item, tmp_path):
    """The oracle of the dose-response: a run with that budget alone."""
    rows = claim.tune_and_measure(item, tmp_path / "both")
    short = type(item)(item.name, {**item.parameters, "doses": [256]})
    alone = claim.tune_and_measure(short, tmp_path / "one")
    first = rows[rows["setting"] == "dose=256"].reset_index(drop=True)
    expected = alone[alone["setting"] == "dose=256"].reset_index(drop=True)
    pd.testing.assert_frame_equal(first, expected, check_exact=True)
    last = rows[rows["setting"] == "dose=512"].reset_index(drop=True)
    assert not np.allclose(first["value"], last["value"])


def test_every_preset_has_a_base_and_three_arms_for_every_seed():
    for preset in claim.PRESETS.values():
        names = [item.name for item in claim.items(preset)]
        assert len(names) == len(set(names)) == 1 + 3 * preset.seeds
        assert names[0] == BASE
        assert all(dose % preset.tokens_per_step == 0 for dose in preset.doses), "a dose ends with a whole step"
        assert FinetuneConfig(tokens=preset.doses[-1], tokens_per_step=preset.tokens_per_step, lr=preset.lr)
    assert claim.PRESETS["cpu"].seeds == claim.PRESETS["paper"].seeds == 3
    assert claim.PRESETS["paper"].doses == (2**16, 2**18, 2**20)
    assert set(MEASURES) == {"sentence", "no_sink", "mean", "nats"}
