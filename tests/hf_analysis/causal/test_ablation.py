"""Ablations against hooks on the output projection, and a model written by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_analysis.causal.ablation import (
    Ablation,
    ablated,
    ablated_log_probs,
    lowest_heads,
    matched_heads,
    mean_outputs,
)
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.spans import solution
from tests.hf_analysis.copying_model import COPY_HEAD, COPYING, IDLE_HEADS, PREVIOUS_HEAD, build_copying_model
from tests.hf_analysis.tiny_models import VOCABULARY, attention_modules, build, loaded, tokens

PROJECTIONS = ("o_proj", "c_proj", "dense")


def projections(model):
    found = [
        next(p for name, p in module.named_children() if name in PROJECTIONS) for module in attention_modules(model)
    ]
    assert len(found) == 3
    return found


@torch.no_grad()
def hooked(model, ids, change):
    """Logits with the input of every output projection changed: change(layer, x) with x [batch query head d]."""
    handles = []
    for layer, projection in enumerate(projections(model)):

        def hook(_, args, layer=layer):
            x = args[0]
            return (change(layer, x.reshape(*x.shape[:2], 4, -1)).reshape(x.shape),)

        handles.append(projection.register_forward_pre_hook(hook))
    logits = model(ids, use_cache=False).logits
    for handle in handles:
        handle.remove()
    return logits


@pytest.mark.parametrize("kind", ["zero", "mean"])
def test_removed_heads_equal_a_hook_before_the_output_projection(architecture, kind):
    model = build(architecture)
    heads = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0)) < 0.4
    width = projections(model)[0].weight.numel() // 48 // 4
    means = torch.randn(3, 4, width, generator=torch.Generator().manual_seed(1)) if kind == "mean" else None

    def change(layer, x):
        instead = torch.zeros_like(x) if means is None else means[layer].expand_as(x)
        return torch.where(heads[:, layer][:, None, :, None], instead, x)

    expected = hooked(model, tokens(), change)
    with torch.no_grad(), ablated(loaded(model), Ablation(heads, means)):
        found = model(tokens()).logits
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        assert (found - model(tokens()).logits).abs().max() > 0.01


def test_removing_no_head_changes_no_bit():
    model = build("llama")
    with torch.no_grad():
        expected = model(tokens()).logits
        with ablated(loaded(model), Ablation(torch.zeros(1, 3, 4, dtype=torch.bool))):
            assert torch.equal(model(tokens()).logits, expected)


def test_mean_outputs_are_means_over_tokens_and_texts():
    model, sums = build("llama"), torch.zeros(3, 4, 12)
    texts = [tokens(1, 9)[0].tolist(), tokens(1, 17)[0].tolist()]
    for text in texts:

        def add(layer, x):
            sums[layer] += x[0].mean(0)
            return x

        hooked(model, torch.tensor([text]), add)
    torch.testing.assert_close(mean_outputs(loaded(model), texts), sums / 2, atol=1e-5, rtol=1e-4)


def test_in_the_model_written_by_hand_only_the_two_heads_of_the_circuit_matter(tokenizer):
    model = LoadedModel("copying", build_copying_model(VOCABULARY), tokenizer)
    worked = solution(model, COPYING)
    place, _ = worked.copies()["7"]
    groups = torch.zeros(5, 2, 2, dtype=torch.bool)
    for i, where in enumerate([COPY_HEAD, PREVIOUS_HEAD, *IDLE_HEADS], start=1):
        groups[i][where] = True
    for means in (None, mean_outputs(model, [worked.ids])):
        found = ablated_log_probs(model, worked.ids, list(groups), means, [place + 1])[:, 0]
        assert (found[1:3] < found[0] - 1).all()
        torch.testing.assert_close(found[3:], found[:1].expand(2), atol=1e-4, rtol=0)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_the_lowest_heads_are_lowest_and_leave_every_layer_others(seed, n):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(3, 9, generator=generator)
    chosen = lowest_heads(scores, n, 3)
    assert chosen.sum() == n
    assert chosen.sum(1).max() <= 3
    highest = scores[chosen].max()
    free = ~chosen & (chosen.sum(1, keepdim=True) < 3)
    assert not (scores[free] < highest).any()
    controls = [matched_heads(chosen, generator) for _ in range(250)]
    for control in controls:
        assert not (control & chosen).any()
        assert torch.equal(control.sum(1), chosen.sum(1))
    rows = chosen.any(1)
    assert torch.equal(torch.stack(controls).any(0)[rows], ~chosen[rows]), "some other head is never drawn"


def test_groups_that_cannot_be_matched_are_refused():
    with pytest.raises(ValueError, match="at most half"):
        lowest_heads(torch.rand(3, 4), 7, 3)
    with pytest.raises(ValueError, match="more than half"):
        matched_heads(torch.ones(2, 4, dtype=torch.bool), torch.Generator())
    with pytest.raises(ValueError, match="tiny has 3 layers of 4 heads"):
        ablated(loaded(build("llama")), Ablation(torch.zeros(1, 2, 4, dtype=torch.bool)))
