"""wen2024/fig6-finetune: its judge on rows made by hand, where the verdict is known, and its items under a kill."""

import itertools

import numpy as np
import pandas as pd
import pytest

import hf_analysis.finetuning
from interp.claims.wen2024 import fig6_finetune as claim
from interp.claims.wen2024._finetune import TESTS, run_name
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement
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
            run = run_name(arm, seed)
            parts += [_attention(run, shift(seed), rng, noise), _losses(run, {arm: learned}, rng)]
            counts = {"training_loss": 1.0, "forwarded_tokens": 1000.0, "supervised_tokens": 600.0, "passages": 9.0}
            parts.append(table(run=run, condition=arm, unit=str(seed), metric=list(counts), value=[*counts.values()]))
    return concat(parts)


def _judged(rows: pd.DataFrame) -> Judgement:
    found = CLAIMS[claim.ID].judge(rows, claim.PRESETS["cpu"])
    assert CLAIMS[claim.ID].judge(claim.published(rows), claim.PRESETS["cpu"]) == found
    return found


def _outcomes(rows: pd.DataFrame) -> dict[str, str]:
    return {v.key: v.outcome for v in _judged(rows).verdicts}


def everywhere(amount: float):
    return lambda seed: dict.fromkeys(claim.CONDITIONS, amount)


DIRECT, ARMS = ("published", "length", "mean"), ("arms_published", "arms_length", "arms_mean")
OTHER = ("other_published", "other_length")


def _of(found: dict[str, str], *keys: str) -> set[str]:
    return {found[key] for key in keys}


def _controlled(found: dict[str, str]) -> set[str]:
    return {outcome for key, outcome in found.items() if key.startswith("beyond_")}


def test_every_declared_part_is_judged_once_and_one_is_the_papers():
    found = _judged(_rows(everywhere(0.0))).verdicts
    assert len(found) == len(TESTS) + 2 == 16
    assert [v.key for v in found if v.role == "paper"] == ["published"]


def test_sparser_on_cot_text_only_supports_what_it_should():
    rows = _rows(lambda seed: {"cot": -0.05, "cot_clean": -0.05})
    found = _outcomes(rows)
    assert _of(found, *DIRECT, *ARMS) == {"supported"}
    assert _of(found, *OTHER) == {"supported"}  # that nothing changes there
    assert _controlled(found) == {"supported"}
    assert _judged(rows).conclusion == "reproduced"


def test_sparser_on_every_text_is_not_about_cot_text():
    found = _outcomes(_rows(everywhere(-0.05)))
    assert _of(found, *DIRECT) == {"supported"}
    assert _controlled(found) == _of(found, *OTHER) == {"refuted"}


def test_a_rise_on_other_text_is_no_support():
    """What the recorded run found: nothing changes on CoT text, and entropy rises on every other."""
    found = _outcomes(_rows(lambda seed: dict.fromkeys(("no_cot", "shuffled_tokens", "filler"), 0.03)))
    assert _controlled(found) == _of(found, *DIRECT, *OTHER) == {"refuted"}


def test_what_any_fine_tuning_does_is_not_about_cot_data():
    found = _outcomes(_rows(everywhere(-0.05), everywhere(-0.05)))
    assert _of(found, *DIRECT) == {"supported"}
    assert _of(found, *ARMS) == {"refuted"}


def test_no_change_is_refuted():
    rows = _rows(everywhere(0.0))
    found = _outcomes(rows)
    assert _of(found, *DIRECT, *ARMS) | _controlled(found) == {"refuted"}
    assert _judged(rows).conclusion == "not reproduced"


def test_runs_that_disagree_are_inconclusive_however_many_problems_there_are():
    found = _outcomes(_rows(lambda seed: dict.fromkeys(claim.CONDITIONS, (-0.06, -0.03, 0.0)[seed])))
    assert _of(found, *DIRECT) == {"inconclusive"}


def test_an_arm_that_did_not_learn_judges_nothing():
    found = _judged(_rows(everywhere(-0.05), learned=-0.05))
    checks, others = found.verdicts[:2], found.verdicts[2:]
    assert [(v.role, v.outcome) for v in checks] == [("precondition", "refuted")] * 2
    assert {v.outcome for v in others} == {"not testable here"}
    assert found.conclusion == "undecided"


def test_estimates_and_notes_are_those_of_the_rows():
    rows = _rows(lambda seed: {"cot": (-0.04, -0.05, -0.06)[seed]}, noise=0.0)
    by_key = {v.key: v for v in _judged(rows).verdicts}
    found = by_key["length"]
    assert found.estimate == pytest.approx(-0.05)
    assert found.note.endswith("by training run -0.0400, -0.0500, -0.0600")
    assert found.n == N_PROBLEMS
    control = by_key["beyond_filler"]
    assert control.estimate == pytest.approx(-0.05)
    assert "on filler +0.0000" in control.note
    check = by_key["cot_learned"]
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
