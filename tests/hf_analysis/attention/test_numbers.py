"""Texts and shapes at the edge, against the model's own eager attention in float64."""

import pytest
import torch
from transformers import GemmaConfig, LlamaConfig

from hf_analysis.attention.intercept import intercepting
from hf_analysis.attention.recorder import record
from probes.attention.entropy import row_entropy
from tests.hf_analysis.tiny_models import CONFIGS, SIZES, build, tokens

SHAPES = {
    **{
        name: CONFIGS[name] for name in ("llama", "mistral", "gemma2", "gpt2")
    },  # grouped, windows, soft caps, learned
    "one key head": LlamaConfig(**SIZES, num_key_value_heads=1),
    "heads of 256": GemmaConfig(
        **{**SIZES, "hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2},
        num_key_value_heads=1,
        head_dim=256,
    ),
}


def moderate(config):
    """A tiny model whose scores are not so large that float32 itself, not the method, decides the last digits."""
    model = build(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(0.5)
    return model


@torch.no_grad()
def eager(model, ids):
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    patterns = torch.stack(model.double()(ids, output_attentions=True, use_cache=False).attentions)
    model.float().set_attn_implementation(before)
    return patterns


def assert_matches(found, patterns, largest=1e-5):
    entropy = row_entropy(patterns)
    assert (found["entropy_nats"] - entropy).abs().max() < largest * max(1, entropy.max())
    assert (found["sink_mass"] - patterns[..., 0]).abs().max() < largest
    assert (found["top1_mass"] - patterns.amax(-1)).abs().max() < largest


STATISTICS = ("entropy_nats", "sink_mass", "top1_mass")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("text", ["one token", "two tokens", "identical tokens", "usual"])
def test_every_row_of_an_odd_text_equals_eager_attention(shape, text):
    model = moderate(SHAPES[shape])
    ids = {
        "one token": tokens(2, 1),
        "two tokens": tokens(2, 2),
        "identical tokens": torch.full((1, 33), 7),
        "usual": tokens(2, 40),
    }[text]
    found = record(model, ids, statistics=STATISTICS)
    assert not any(found[name].isnan().any() for name in STATISTICS)
    assert_matches(found, eager(model, ids))


@pytest.mark.parametrize("shape", SHAPES)
def test_texts_of_very_different_lengths_in_one_batch_are_as_alone(shape):
    model, lengths = moderate(SHAPES[shape]), (1, 2, 7, 90)
    texts = [tokens(1, n)[0] for n in lengths]
    together = record(
        model, torch.stack([torch.cat([t, t.new_zeros(90 - len(t))]) for t in texts]), statistics=STATISTICS
    )
    for i, text in enumerate(texts):
        patterns = eager(model, text[None])
        entropy = row_entropy(patterns)
        assert (together["entropy_nats"][:, i : i + 1, :, : len(text)] - entropy).abs().max() < 5e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", ["llama", "gemma2", "one key head"])
def test_of_numbers_in_half_precision_the_statistics_are_exact(shape, dtype):
    """What the model rounds is its own; of the queries and keys that come out, every digit counts."""
    model, patterns = moderate(SHAPES[shape]).to(dtype), []

    def look(call):
        repeated = call.key.double().repeat_interleave(call.query.shape[1] // call.key.shape[1], dim=1)
        scores = call.query.double() @ repeated.transpose(-1, -2) * call.scale
        scores = scores if call.softcap is None else (scores / call.softcap).tanh() * call.softcap
        patterns.append(scores.masked_fill(~call._visible(), -torch.inf).softmax(-1))
        return call.output()

    ids = tokens(2, 40)
    with torch.no_grad(), intercepting(model, look):
        model(ids)
    found = record(model, ids, statistics=STATISTICS)
    assert found["entropy_nats"].dtype == torch.float32
    assert_matches(found, torch.stack(patterns))


@pytest.mark.slow
def test_a_long_text_equals_eager_attention():
    small = {**SIZES, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    model, ids = moderate(LlamaConfig(**{**small, "max_position_embeddings": 4096})), tokens(1, 4096)
    found = record(model, ids, statistics=STATISTICS)
    assert_matches(found, eager(model, ids))
