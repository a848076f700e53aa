"""wen2024/fig6-finetune: its judge on rows made by hand, where the verdict is known, and its items under a kill."""

import itertools

import numpy as np
import pandas as pd
import pytest

import hf_analysis.finetuning
from interp.claims.wen2024 import fig6_finetune as claim
from interp.core.claim import load_claims
from probes.rows import concat, table

N_PROBLEMS, LAYERS, HEADS = 12, 2, 3
TEXT_LEVEL = {"cot": 0.3, "no_cot": 0.5, "cot_clean": 0.35, "shuffled_tokens": 0.4, "filler": 0.6}


def _attention(run: str, shift: dict[str, float], rng: np.random.Generator, noise: float) -> pd.DataFrame:
    """Rows of one model whose entropy on each text is moved by `shift`."""
    axes = (claim.CONDITIONS, range(N_PROBLEMS), claim.METRICS, ("all", "answer"), range(LAYERS), range(HEADS))
    text, problem, metric, scope, layer, head = zip(*itertools.product(*axes))
    level = np.array([TEXT_LEVEL[name] + shift.get(name, 0.0) for name in text])
    return table(
        run=run, condition=list(text), unit=[f"p{i}" for i in problem], metric=list(metric), scope=list(scope),
        layer=list(layer), head=list(head),
        value=level + 0.01 * np.array(problem) + noise * rng.normal(size=len(level)),
    )  # fmt: skip


def _losses(run: str, change: dict[str, float], rng: np.random.Generator) -> pd.DataFrame:
    return concat(
        table(
            run=run, condition=text, unit=f"p{i}", metric="answer_loss", scope="answer",
            value=1.5 + 0.1 * i + change.get(text, 0.0) + 0.01 * rng.normal(),
        )
        for text in claim.ARMS
        for i in range(N_PROBLEMS)
    )  # fmt: skip


def _rows(cot, no_cot=lambda seed: {}, learned: float = -0.5, noise: float = 0.002) -> pd.DataFrame:
    """A base and three runs of both arms; `cot(seed)` and `no_cot(seed)` say how the entropy moves on each text."""
    rng = np.random.default_rng(0)
    parts = [_attention(claim.BASE, {}, rng, noise), _losses(claim.BASE, {}, rng)]
    for seed in range(3):
        for arm, shift in (("cot", cot), ("no_cot", no_cot)):
            run = claim._run(arm, seed)
            parts += [_attention(run, shift(seed), rng, noise), _losses(run, {arm: learned}, rng)]
            counts = {"training_loss": 1.0, "forwarded_tokens": 1000.0, "supervised_tokens": 600.0, "passages": 9.0}
            parts.append(table(run=run, condition=arm, unit=str(seed), metric=list(counts), value=[*counts.values()]))
    return concat(parts)


def _outcomes(rows: pd.DataFrame) -> dict[str, str]:
    return {v.part: v.outcome for v in load_claims()[claim.ID].judge(rows)}


def everywhere(amount: float):
    return lambda seed: dict.fromkeys(claim.CONDITIONS, amount)


def _direct(found: dict[str, str], against: str) -> set[str]:
    return {outcome for part, outcome in found.items() if part.startswith(f"CoT-tuned minus {against},")}


def _controlled(found: dict[str, str]) -> set[str]:
    return {outcome for part, outcome in found.items() if part.startswith("controlled")}


def test_every_declared_part_is_judged_once():
    found = _outcomes(_rows(everywhere(0.0)))
    assert len(found) == len(claim.TESTS) + 2 == 16
    assert set(found) >= set(claim.TESTS)


def test_sparser_on_cot_text_only_supports_what_it_should():
    found = _outcomes(_rows(lambda seed: {"cot": -0.05, "cot_clean": -0.05}))
    on_cot = {outcome for part, outcome in found.items() if ", CoT text" in part}
    on_no_cot = {outcome for part, outcome in found.items() if "no-CoT text, " in part}
    assert on_cot == {"supported"}
    assert on_no_cot == {"refuted"}
    assert _controlled(found) == {"supported"}


def test_sparser_on_every_text_is_not_about_cot_text():
    found = _outcomes(_rows(everywhere(-0.05)))
    assert _direct(found, "base") == {"supported"}
    assert _controlled(found) == {"refuted"}


def test_what_any_fine_tuning_does_is_not_about_cot_data():
    found = _outcomes(_rows(everywhere(-0.05), everywhere(-0.05)))
    assert _direct(found, "base") == {"supported"}
    assert _direct(found, "no-CoT-tuned") == {"refuted"}


def test_no_change_is_refuted():
    found = _outcomes(_rows(everywhere(0.0)))
    assert _direct(found, "base") | _direct(found, "no-CoT-tuned") | _controlled(found) == {"refuted"}


def test_runs_that_disagree_are_inconclusive_however_many_problems_there_are():
    found = _outcomes(_rows(lambda seed: dict.fromkeys(claim.CONDITIONS, (-0.06, -0.03, 0.0)[seed])))
    assert _direct(found, "base") == {"inconclusive"}


def test_an_arm_that_did_not_learn_judges_nothing():
    rows = _rows(everywhere(-0.05), learned=-0.05)
    verdicts = load_claims()[claim.ID].judge(rows)
    assert [v.outcome for v in verdicts if v.part.startswith("check")] == ["refuted", "refuted"]
    others = [v for v in verdicts if not v.part.startswith("check")]
    assert {v.outcome for v in others} == {"inconclusive"}
    assert all("did not learn" in v.note for v in others)


def test_estimates_and_notes_are_those_of_the_rows():
    rows = _rows(lambda seed: {"cot": (-0.04, -0.05, -0.06)[seed]}, noise=0.0)
    by_part = {v.part: v for v in load_claims()[claim.ID].judge(rows)}
    found = by_part["CoT-tuned minus base, CoT text, equal length"]
    assert found.estimate == pytest.approx(-0.05)
    assert found.note.endswith("by training run -0.0400, -0.0500, -0.0600")
    assert (found.n, found.unit) == (N_PROBLEMS, "problems")
    control = by_part["controlled: change on CoT text beyond filler"]
    assert control.estimate == pytest.approx(-0.05)
    check = by_part["check: the arm trained on CoT text learned"]
    assert check.estimate == pytest.approx(-0.5, abs=0.02)
    assert "1,000 forwarded tokens, 600 of them supervised, in 9 passages" in check.note


def test_an_item_killed_after_its_measurement_is_not_taken_for_done(tmp_path, monkeypatch):
    """The measurement writes rows of its own; the item's rows also hold losses and the training's history."""
    preset = claim.PRESETS["smoke"]
    item = next(item for item in claim.items(preset) if item.name == "no_cot-seed=1")
    whole = claim.tune_and_measure(item, tmp_path / "whole")

    def die(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hf_analysis.finetuning, "loss_rows", die)
        with pytest.raises(KeyboardInterrupt):
            claim.tune_and_measure(item, tmp_path / "cut")
    assert (tmp_path / "cut" / "measurement" / "rows.parquet").exists()
    assert not (tmp_path / "cut" / "rows.parquet").exists()
    with monkeypatch.context() as patch:
        patch.setattr(hf_analysis.finetuning.Finetuner, "step", lambda _: pytest.fail("a step was taken again"))
        resumed = claim.tune_and_measure(item, tmp_path / "cut")
    pd.testing.assert_frame_equal(whole, resumed, check_exact=True)
    assert {"answer_loss", "training_loss", "supervised_tokens", "min"} <= set(whole["metric"])


def test_every_preset_has_a_base_and_both_arms_for_every_seed():
    for preset in claim.PRESETS.values():
        names = [item.name for item in claim.items(preset)]
        assert len(names) == len(set(names)) == 1 + 2 * preset.seeds
        assert names[0] == claim.BASE
    assert claim.PRESETS["cpu"].seeds == claim.PRESETS["paper"].seeds == 3
