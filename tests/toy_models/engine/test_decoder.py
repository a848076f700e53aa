"""The hooked decoder: size, hooks, weights, and Hugging Face's GPT-2 as an independent implementation."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.weights import weights


def n_parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def expected_parameters(c: DecoderConfig, d_vocab: int, n_ctx: int) -> int:
    d, mlp = c.d_model, c.d_mlp or 4 * c.d_model
    block = 4 * (d * d + d) + (d * mlp + mlp) + (mlp * d + d) + 2 * 2 * d
    return (d_vocab + n_ctx) * d + c.n_layers * block + 2 * d + (0 if c.tied else d_vocab * d)


@pytest.mark.parametrize(
    "config",
    [
        DecoderConfig(1, 1, 8),
        DecoderConfig(3, 2, 12, d_mlp=20),
        DecoderConfig(2, 4, 16, tied=False),
        DecoderConfig(8, 8, 16),
        DecoderConfig(1, 8, 720, 3072),
    ],
    ids=str,
)
def test_the_number_of_parameters(config):
    model = hooked_decoder(config, d_vocab=3, n_ctx=11, seed=0)
    assert n_parameters(model) == expected_parameters(config, 3, 11)
    assert n_parameters(model) < (20_000 if config.d_model < 100 and config.n_layers < 8 else 7_000_000)


@pytest.mark.parametrize("n_layers", range(1, 9))
@pytest.mark.parametrize("n_heads", [1, 2, 3, 4, 5, 6, 8])  # 7 does not divide 720
def test_every_paper_configuration_can_be_written(n_layers, n_heads):
    assert DecoderConfig(n_layers, n_heads, 720, 3072).d_mlp == 3072


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_heads": 3, "d_model": 16}, "n_heads=3 does not divide d_model=16"),
        ({"n_layers": 0}, "n_layers must be at least 1, got 0"),
        ({"n_heads": -1}, "n_heads must be at least 1"),
        ({"d_model": 0}, "d_model must be at least 1"),
        ({"d_mlp": -4}, "d_mlp must be 0"),
        ({"init_std": 0.0}, "init_std must be positive"),
    ],
)
def test_impossible_sizes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DecoderConfig(**options)


def test_hooks_have_the_known_names_and_shapes():
    model = hooked_decoder(DecoderConfig(2, 4, 16), d_vocab=2, n_ctx=9, seed=0)
    inputs = torch.randint(0, 2, (3, 9), generator=torch.Generator().manual_seed(0))
    logits, cache = model.run_with_cache(inputs)
    assert logits.shape == (3, 9, 2)
    for layer in range(2):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"]
        assert pattern.shape == (3, 4, 9, 9)
        assert torch.allclose(pattern.sum(-1), torch.ones(3, 4, 9), atol=1e-6)
        assert (pattern.triu(1) == 0).all(), "attention to the future"


def test_the_model_equals_hugging_face_gpt2():
    config = DecoderConfig(2, 4, 32, d_mlp=48, init_std=0.3)
    model = hooked_decoder(config, d_vocab=5, n_ctx=10, seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    reference = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=5, n_positions=10, n_embd=32, n_layer=2, n_head=4, n_inner=48, activation_function="gelu_new",
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=model.cfg.eps,
        )
    ).eval()  # fmt: skip
    ours = {name: t.t() if t.ndim == 2 else t for name, t in model.state_dict().items()}  # GPT-2 stores transposes
    names = {
        "transformer.wte.weight": ours["embed.weight"].t(),
        "transformer.wpe.weight": ours["pos_embed.weight"].t(),
    }
    for part in ("weight", "bias"):
        names[f"transformer.ln_f.{part}"] = ours[f"ln_final.{part}"]
        for layer in range(2):
            there, here = f"transformer.h.{layer}", f"blocks.{layer}"
            qkv = torch.cat([ours[f"{here}.attn.{x}.{part}"] for x in "qkv"], dim=-1)
            names |= {
                f"{there}.ln_1.{part}": ours[f"{here}.ln1.{part}"],
                f"{there}.ln_2.{part}": ours[f"{here}.ln2.{part}"],
                f"{there}.attn.c_attn.{part}": qkv,
                f"{there}.attn.c_proj.{part}": ours[f"{here}.attn.o.{part}"],
                f"{there}.mlp.c_fc.{part}": ours[f"{here}.mlp.in.{part}"],
                f"{there}.mlp.c_proj.{part}": ours[f"{here}.mlp.out.{part}"],
            }
    missing, unexpected = reference.load_state_dict(names, strict=False)
    assert missing == ["lm_head.weight"]  # tied
    assert unexpected == []
    inputs = torch.randint(0, 5, (6, 10), generator=generator)
    with torch.no_grad():
        assert torch.allclose(model(inputs), reference(inputs).logits, atol=1e-4)


def test_the_seed_alone_decides_the_weights():
    config = DecoderConfig(1, 2, 16)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = weights(hooked_decoder(config, 2, 5, seed=7))
    assert torch.equal(torch.get_rng_state(), before), "the global generator was used"
    torch.manual_seed(1)
    again, other = weights(hooked_decoder(config, 2, 5, seed=7)), weights(hooked_decoder(config, 2, 5, seed=8))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embed.weight"], other["embed.weight"])
