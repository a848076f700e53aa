"""Kinds of heads in real models: a model written by hand, TransformerLens' detectors, and random models."""

import random

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from hf_analysis.measurement.heads import COPY, copy_scores, head_rows, kind_scores, masses, measure_heads
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.problems import Problem
from hf_analysis.text.spans import solution
from interp.statistics import sign_flip_max_t
from probes.attention.taxonomy import KINDS
from tests.hf_analysis.copying_model import COPY_HEAD, COPYING, IDLE_HEADS, PREVIOUS_HEAD, build_copying_model
from tests.hf_analysis.tiny_models import VOCABULARY, build


@pytest.fixture(scope="module")
def copying(tokenizer) -> LoadedModel:
    return LoadedModel("copying", build_copying_model(VOCABULARY), tokenizer)


def test_the_heads_of_the_model_written_by_hand_are_named_right(copying):
    ids = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(0))[:40].tolist()
    scores, chances = kind_scores(copying, ids + ids)
    assert float(scores["previous_token"][PREVIOUS_HEAD]) > 0.99
    assert float(scores["induction"][COPY_HEAD]) > 0.98  # the first token has no previous one and takes itself for it
    for head in IDLE_HEADS:
        for kind, chance in chances.items():
            assert float(scores[kind][head]) == pytest.approx(chance, abs=1e-5)
    assert float(scores["induction"][PREVIOUS_HEAD]) < 0.02
    copied = copy_scores(copying, solution(copying, COPYING))
    assert copied is not None
    assert float(copied[COPY_HEAD]) > 0.9
    assert max(abs(float(copied[head])) for head in [PREVIOUS_HEAD, *IDLE_HEADS]) < 0.02


def test_masses_equal_those_of_eager_attention(architecture, tokenizer):
    model, ids = build(architecture), torch.randint(9, (40,), generator=torch.Generator().manual_seed(0))
    keys = torch.stack([find(ids) for find in KINDS.values()])
    found = masses(LoadedModel("tiny", model, tokenizer), ids.tolist(), keys)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        patterns = torch.stack(model(ids[None], output_attentions=True).attentions)[:, 0]
    expected = torch.einsum("lhqk,nqk->lnhq", patterns, keys.float())
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


def test_scores_are_those_of_transformer_lens_detector(tokenizer):
    from transformer_lens.head_detector import detect_head
    from transformer_lens.model_bridge import TransformerBridge

    model = LoadedModel("tiny", build("gpt2"), tokenizer)
    without_start = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, pad_token="<end>")
    options = {"hf_model": build("gpt2"), "tokenizer": without_start, "device": "cpu"}
    bridge = TransformerBridge.boot_transformers("gpt2", **options)
    text = "She has 3 apples and buys 4 more apples. The answer is 12. The answer is 3 apples."
    ids = bridge.to_tokens(text)[0]
    scores, _ = kind_scores(model, ids.tolist())
    for kind in ("previous_token", "duplicate_token", "induction"):
        share = KINDS[kind](ids.cpu()).any(-1).float().mean()
        theirs = detect_head(bridge, text, f"{kind}_head")
        torch.testing.assert_close(scores[kind] * share, theirs.cpu().float(), atol=1e-4, rtol=0)


def synthetic(n: int, seed: int) -> list[Problem]:
    """Numbers in the question, mentioned again in random order."""
    generator, made = random.Random(seed), []
    for i in range(n):
        numbers = generator.sample(range(10, 100), 4)
        again = generator.sample(numbers, 4)
        question = "Ann has {} pens, Bob has {} cups, Cy has {} hats and Di has {}.".format(*numbers)
        steps = "Take {} and {} and {} and {}.".format(*again)
        made.append(Problem(f"s{i}", question, f"{steps}\n#### {again[-1]}", str(again[-1])))
    return made


def test_random_models_do_not_copy_at_the_stated_error_rate(tokenizer):
    """A familywise test at 5% over the 12 heads of each of 20 models: 4 or more rejections have p = 0.016."""
    rejected = 0
    for seed in range(20):
        model = LoadedModel("random", build("llama", seed=seed), tokenizer)
        scores = [copy_scores(model, solution(model, problem)) for problem in synthetic(12, seed)]
        flat = np.stack([s.flatten().double().numpy() for s in scores if s is not None])
        assert flat.shape == (12, 12)
        rejected += bool(sign_flip_max_t(flat, rng=0, n_flips=999).p_adjusted.min() < 0.05)
    assert rejected < 4


def test_a_short_context_cuts_the_repeated_text_and_refuses_a_long_problem(tokenizer):
    model = LoadedModel("copying", build_copying_model(VOCABULARY, positions=64), tokenizer)
    n = len(solution(model, COPYING).ids)
    assert 32 < n < 64
    table = head_rows(model, COPYING, seed=0, run="r")
    assert set(table[table["condition"] == "repeated"]["n_tokens"]) == {64}
    tight = LoadedModel("tight", build_copying_model(VOCABULARY, positions=n - 1), tokenizer)
    with pytest.raises(ValueError, match=f"a passage of {n} tokens, but tight takes at most {n - 1}"):
        head_rows(tight, COPYING, seed=0, run="r")


def test_rows_hold_every_kind_and_resume_where_they_stopped(copying, problems, tmp_path):
    chosen = [COPYING, problems[1]]  # the second has no two numbers to copy
    table = measure_heads(copying, chosen, tmp_path / "run")
    assert set(table[table["condition"] == "cot_clean"]["metric"]) >= {*KINDS, COPY, "sink_chance"}
    assert set(table[table["metric"] == COPY]["unit"]) == {"c"}
    assert table[table["metric"] == "induction"].groupby(["condition", "unit"]).size().unique().tolist() == [4]
    (tmp_path / "run" / "problems" / "c.parquet").unlink()
    assert measure_heads(copying, chosen, tmp_path / "run", resume=True).equals(table)
    one = head_rows(copying, COPYING, seed=0, run="copying")
    assert one.equals(table[table["unit"] == "c"].reset_index(drop=True))
