"""Models that compute their attention outside the registry, against their own eager attention in float64."""

from functools import partial

import pytest
import torch
from transformers import (
    BloomConfig,
    CodeGenConfig,
    FalconConfig,
    GPTJConfig,
    GPTNeoConfig,
    GPTNeoXJapaneseConfig,
    MambaConfig,
    MptConfig,
    OpenAIGPTConfig,
    XGLMConfig,
)

from hf_analysis.attention.intercept import intercepting
from hf_analysis.attention.layout import packing
from hf_analysis.attention.recorder import record, recording
from probes.attention.entropy import row_entropy
from tests.hf_analysis.tiny_models import VOCABULARY, build, tokens

NAMED = {"vocab_size": VOCABULARY, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
GPT = {"vocab_size": VOCABULARY, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 128}
ENDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
CONFIGS = {
    "bloom": BloomConfig(vocab_size=VOCABULARY, hidden_size=48, n_layer=3, n_head=4),
    "falcon": FalconConfig(**NAMED, **ENDS),  # one key head
    "falcon alibi": FalconConfig(**NAMED, **ENDS, alibi=True),
    "falcon grouped": FalconConfig(**NAMED, **ENDS, new_decoder_architecture=True, num_kv_heads=2),
    "mpt": MptConfig(vocab_size=VOCABULARY, d_model=48, n_layers=3, n_heads=4, max_seq_len=64),
    "gptj": GPTJConfig(**GPT, **ENDS, rotary_dim=8),
    "gpt_neo": GPTNeoConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_layers=3, num_heads=4, max_position_embeddings=64, window_size=8,
        attention_types=[[["global", "local", "global"], 1]], **ENDS,
    ),
    "codegen": CodeGenConfig(**GPT, **ENDS, rotary_dim=8),
    "gpt": OpenAIGPTConfig(**GPT),
    "xglm": XGLMConfig(
        vocab_size=VOCABULARY, d_model=48, num_layers=3, attention_heads=4, ffn_dim=64, max_position_embeddings=64
    ),
    "gpt_neox_japanese": GPTNeoXJapaneseConfig(**NAMED, **ENDS),
}  # fmt: skip


@pytest.fixture(params=CONFIGS)
def model(request):
    return build(CONFIGS[request.param])


@torch.no_grad()
def eager(model, ids):
    """Patterns by the model's own eager attention, in float64 where it can."""
    model.config._attn_implementation = "eager"
    if not isinstance(model.config, XGLMConfig):  # adds float32's smallest number to whatever it has
        model.double()
    patterns = torch.stack(model(ids, output_attentions=True, use_cache=False).attentions)
    model.float()
    return patterns.double()


def assert_matches(found, patterns, largest=1e-5):
    assert torch.equal(found.n_visible.expand(patterns.shape[:-1]), (patterns > 0).sum(-1))
    expected = row_entropy(patterns) / found.n_visible.log()
    assert (found["normalised_entropy"] - expected)[..., 1:].abs().max() < largest
    assert (found["sink_mass"] - patterns[..., 0]).abs().max() < largest


def test_every_row_equals_eager_attention(model):
    ids = tokens(2, 24)
    patterns = eager(model, ids)
    assert patterns.std() > 0.05, "attention must be far from uniform for this test"
    found = record(model, ids)
    assert found.layers == (0, 1, 2)
    assert_matches(found, patterns)


def test_the_output_of_the_model_is_its_own(model):
    ids = tokens(2, 24)
    with torch.no_grad():
        expected = model(ids).logits
        with recording(model):
            torch.testing.assert_close(model(ids).logits, expected, atol=2e-5, rtol=1e-4)
        assert torch.equal(model(ids).logits, expected), "afterwards the model is as before"


def test_texts_of_one_batch_do_not_see_pads_and_are_never_packed(model):
    ids = tokens(2, 24)
    whole = record(model, ids)["normalised_entropy"]
    alone = record(model, ids[1:, :9])["normalised_entropy"]
    torch.testing.assert_close(whole[:, 1:, :, :9], alone, atol=1e-5, rtol=0, equal_nan=True)
    assert packing(model, 24)[0] is False
    with pytest.raises(ValueError, match="takes no mask of its own making"):
        record(model, ids, mask=torch.ones(2, 1, 24, 24).tril().bool())


def test_a_text_goes_on_from_a_cache(model):
    ids = tokens(1, 12)
    seen = []

    def look(call):
        seen.append((call.layer, call.query.shape[2], call.key.shape[2]))
        return call.output()

    with torch.no_grad():
        expected = model(ids).logits[:, 8:]
        past = getattr(model(ids[:, :8], use_cache=True), "past_key_values", None)
        if past is None:  # OpenAI's GPT
            return
        with intercepting(model, look, cached=True):
            logits = model(ids[:, 8:], past_key_values=past, use_cache=True).logits
    torch.testing.assert_close(logits, expected, atol=2e-5, rtol=1e-4)
    assert seen == [(0, 4, 12), (1, 4, 12), (2, 4, 12)]


def test_half_precision_stays_close(model):
    exact, rounded = (
        record(model.to(dtype), tokens())["normalised_entropy"] for dtype in (torch.float32, torch.bfloat16)
    )
    assert rounded.dtype == torch.float32
    assert (exact - rounded)[..., 1:].abs().mean() < 0.02


def test_alibi_is_what_the_model_makes_of_it_not_what_its_eager_attention_would(monkeypatch):
    """Falcon's eager attention adds ALiBi twice (transformers 5.22); its SDPA attention, the default, once."""
    model, ids = build(CONFIGS["falcon alibi"]), tokens(2, 24)
    assert model.config._attn_implementation == "sdpa"
    patterns = []

    def softmax_attention(query, key, value, attn_mask, **_):
        scores = query.double() @ key.double().transpose(-1, -2) * query.shape[-1] ** -0.5 + attn_mask.double()
        patterns.append(scores.softmax(-1))
        return (patterns[-1] @ value.double()).to(value.dtype)

    with monkeypatch.context() as patched, torch.no_grad():
        patched.setattr(torch.nn.functional, "scaled_dot_product_attention", softmax_attention)
        model(ids, use_cache=False)
    found = record(model, ids)
    assert_matches(found, torch.stack(patterns))
    assert all("bias" in one.reason for one in found.computations)


def test_what_cannot_be_followed_is_left_to_the_model_and_refused():
    model, ids = build(CONFIGS["gptj"]), tokens(1, 8)

    def odd(self, query, key, value, attention_mask=None):
        scores = torch.matmul(query, key.transpose(-1, -2)) + attention_mask
        return torch.matmul(torch.softmax(scores.sin(), dim=-1), value), None

    for block in model.transformer.h:
        block.attn._attn = partial(odd, block.attn)
    with torch.no_grad():
        expected = model(ids).logits
        complaint = "GPTJForCausalLM: layer 0 of 3 computes its attention in a way"
        with pytest.raises(ValueError, match=complaint), recording(model):
            logits = model(ids).logits
    assert torch.equal(logits, expected)


def test_attention_on_later_tokens_is_refused():
    model, everything = build(CONFIGS["gptj"]), torch.zeros(1, 1, 8, 8)
    with pytest.raises(ValueError, match="GPTJBlock attends to later tokens too"), recording(model):
        model(tokens(1, 8), attention_mask=everything)


def test_a_model_without_attention_is_refused_in_one_line():
    model = build(MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4))
    with pytest.raises(ValueError, match="MambaForCausalLM has no softmax attention in any layer, but MambaMixer"):
        record(model, tokens(1, 8))
