"""Attention between sentences against the average of transformers' own eager patterns in float64."""

import copy

import pytest
import torch
from transformers import Gemma3TextConfig

from hf_analysis.attention.intercept import intercepting
from hf_analysis.traces.attention import permuted, rotated, segmented_attention, sentence_attention
from hf_analysis.traces.tokens import group_of_token, trace_tokens
from probes.attention.groups import group_mass
from tests.hf_analysis.tiny_models import CONFIGS, GROUPED, build, loaded, tokens
from tests.hf_analysis.traces.made import made_tokens, made_trace

BOUNDS = (9, 14, 15, 30, 44, 61, 70)
ARCHITECTURES = {
    **{name: CONFIGS[name] for name in ("llama", "qwen2", "qwen3", "gemma2", "gpt2", "mistral")},
    "gemma3": Gemma3TextConfig(
        **GROUPED, head_dim=16, sliding_window=8, layer_types=["sliding_attention"] * 2 + ["full_attention"]
    ),
}


@torch.no_grad()
def averaged_eager(model, found):
    """[layer head reading read] of the model's own attention in float64: mean of the sums, and of the blocks."""
    model = copy.deepcopy(model).double()
    model.set_attn_implementation("eager")
    patterns = torch.stack(model(torch.tensor([found.ids]), output_attentions=True).attentions)[:, 0]
    blocks = [[patterns[:, :, a.start : a.end, b.start : b.end] for b in found.units] for a in found.units]
    summed = [[block.sum(-1).mean(-1) for block in row] for row in blocks]
    means = [[block.mean((-2, -1)) for block in row] for row in blocks]
    return *(torch.stack([torch.stack(row, -1) for row in one], -2) for one in (summed, means)), patterns


def assert_equal(found, tokens_, model):
    summed, means, patterns = averaged_eager(model, tokens_)
    torch.testing.assert_close(found.mass.double(), summed, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mean.double(), means, atol=1e-5, rtol=0)
    patterns = patterns.clone()
    patterns[..., 0] = 0
    rest = patterns / patterns.sum(-1, keepdim=True).clamp(min=1e-300)
    for i, unit in enumerate(tokens_.units):
        for j, read in enumerate(tokens_.units):
            expected = rest[:, :, unit.start : unit.end, read.start : read.end].sum(-1).mean(-1)
            error = (found.mass_without_sink[:, :, i, j].double() - expected).abs()
            assert error.max() < 1e-4, "rows that leave the sink almost nothing amplify the model's own rounding"
            assert error.mean() < 1e-5


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_equal_to_averaged_eager_attention(name):
    model = build(ARCHITECTURES[name])
    text = made_tokens(tokens(1, 80)[0].tolist(), BOUNDS)
    summed, means, _ = averaged_eager(model, text)
    found = sentence_attention(loaded(copy.deepcopy(model).double()), text)  # eager softmax itself is float32
    torch.testing.assert_close(found.mass, summed, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mean, means, atol=1e-5, rtol=0)
    single = sentence_attention(loaded(model), text)
    tolerance = 1e-4 if name == "qwen2" else 1e-5  # large keys: the model's own float32, see the last test
    torch.testing.assert_close(single.mass.double(), summed, atol=tolerance, rtol=0)


def test_the_built_in_model_too_and_rows_sum_to_one(builtin):
    text = trace_tokens(builtin, made_trace(4))
    found = sentence_attention(builtin, text, per_token=True)
    assert_equal(found, text, builtin.model)
    unread = 1 - found.tokens.sum(-1)  # mass on tags
    assert unread.min() > -1e-5
    inside = slice(text.units[3].start, text.units[3].end)
    torch.testing.assert_close(found.tokens[:, :, inside].mean(2), found.mass[:, :, 3], atol=1e-6, rtol=0)


def test_several_divisions_in_one_pass_are_those_of_a_pass_each(llama):
    text = made_tokens(tokens(1, 80)[0].tolist(), BOUNDS)
    moved = rotated(text, 3)
    assert [unit.n_tokens for unit in moved] == [9, 14, 17, 9, 10, 5, 1, 15]
    assert moved[-1].end == 80
    together = segmented_attention(llama, text.ids, [text.units, moved])
    for units, found in zip((text.units, moved), together):
        (alone,) = segmented_attention(llama, text.ids, [units])
        torch.testing.assert_close(found.mass, alone.mass, atol=1e-6, rtol=0)
        torch.testing.assert_close(found.mass_without_sink, alone.mass_without_sink, atol=1e-6, rtol=0)


def test_a_permuted_trace_has_the_same_sentences_in_another_order(llama):
    text = trace_tokens(llama, made_trace(4))
    found = permuted(text, [2, 0, 3, 1])
    sentence = [text.ids[unit.start : unit.end] for unit in text.sentences]
    assert [found.ids[unit.start : unit.end] for unit in found.sentences] == [sentence[i] for i in (2, 0, 3, 1)]
    assert sorted(found.ids) == sorted(text.ids)
    assert found.ids[found.sentences[-1].end :] == text.ids[text.sentences[-1].end :]
    assert permuted(text, [0, 1, 2, 3]) == text
    with pytest.raises(ValueError, match="expected each of 4 sentences once"):
        permuted(text, [0, 1, 2])


def test_what_single_precision_costs_qwen2_is_in_the_keys_that_the_model_made():
    model = build(ARCHITECTURES["qwen2"])
    text = made_tokens(tokens(1, 80)[0].tolist(), BOUNDS)
    keys = group_of_token(len(text.ids), text.units)[:, None] == torch.arange(len(text.units))
    errors = []

    def look(call):
        single, _ = group_mass(call.query, call.key, call.scale, keys, mask=call.mask)
        double, _ = group_mass(call.query.double(), call.key.double(), call.scale, keys, mask=call.mask)
        errors.append((single.mass.double() - double.mass).abs().max().item())
        return call.output()

    with torch.no_grad(), intercepting(model, look):
        model(torch.tensor([text.ids]))
    assert max(errors) < 1e-5, "from the same queries and keys"
