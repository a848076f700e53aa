"""Is the encoder the standard one? Against PyTorch's own layers, with its hooks, and without a mask."""

import pytest
import torch
from torch import nn

from toy_models.kfold.encoder import EncoderConfig, Shape, hooked_encoder

SHAPE = Shape(d_vocab=7, n_ctx=6, d_out=5, n_readouts=3, n_front=0, block_length=3)


def tokens(batch: int = 4) -> torch.Tensor:
    return torch.randint(0, 7, (batch, 6), generator=torch.Generator().manual_seed(0))


def small(**changes):
    return hooked_encoder(EncoderConfig(**{"n_layers": 2, "n_heads": 2, "d_model": 8, **changes}), SHAPE, seed=1)


def pytorch_twin(model) -> nn.TransformerEncoder:
    """torch.nn's pre-LayerNorm encoder with the same weights."""
    layer = nn.TransformerEncoderLayer(
        8, 2, 32, dropout=0.0, activation=lambda x: nn.functional.gelu(x, approximate="tanh"), batch_first=True,
        norm_first=True,
    )  # fmt: skip
    twin = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False).eval()
    for theirs, ours in zip(twin.layers, model.blocks):
        pairs = {
            "self_attn.in_proj_weight": ours.attn.qkv.weight, "self_attn.in_proj_bias": ours.attn.qkv.bias,
            "self_attn.out_proj.weight": ours.attn.out.weight, "self_attn.out_proj.bias": ours.attn.out.bias,
            "linear1.weight": ours.mlp.enter.weight, "linear1.bias": ours.mlp.enter.bias,
            "linear2.weight": ours.mlp.leave.weight, "linear2.bias": ours.mlp.leave.bias,
            "norm1.weight": ours.ln1.weight, "norm1.bias": ours.ln1.bias,
            "norm2.weight": ours.ln2.weight, "norm2.bias": ours.ln2.bias,
        }  # fmt: skip
        theirs.load_state_dict(pairs)
    return twin


def test_it_computes_what_pytorchs_encoder_computes():
    model = small()
    with torch.no_grad():
        embedded = model.embed(tokens()) + model.pos_embed.table.weight
        expected = model.unembed(pytorch_twin(model)(embedded))  # LayerNorms are fresh, so ln_final agrees too
        found = model(tokens())
    torch.testing.assert_close(found.transpose(1, 2).flatten(-2), expected, atol=1e-5, rtol=1e-4)


def test_every_position_sees_every_other():
    model = small()
    before, changed = tokens(1), tokens(1)
    changed[0, -1] = (changed[0, -1] + 1) % 7
    moved = (model(before) != model(changed)).any(-1)[0]
    assert moved.all()


def test_hooks_have_the_usual_names_and_shapes():
    _, cache = small().run_with_cache(tokens())
    for layer in range(2):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"]
        assert pattern.shape == (4, 2, 6, 6)
        torch.testing.assert_close(pattern.sum(-1), torch.ones(4, 2, 6))
        assert cache[f"blocks.{layer}.hook_resid_post"].shape == (4, 6, 8)
    assert torch.equal(cache["blocks.0.hook_resid_post"], cache["blocks.1.hook_resid_pre"])


def test_knocking_out_attention_makes_positions_independent():
    model = small()
    hooks = [
        (f"blocks.{layer}.attn.hook_pattern", lambda p, hook: torch.eye(6).expand_as(p)) for layer in range(2)
    ]  # fmt: skip
    changed = tokens(1)
    changed[0, -1] = (changed[0, -1] + 1) % 7
    same = (model.run_with_hooks(tokens(1), fwd_hooks=hooks) == model.run_with_hooks(changed, fwd_hooks=hooks)).all(
        -1
    )
    assert same[0, :, :-1].all()
    assert not same[0, :, -1].any()


def test_own_readouts_read_one_layer_each():
    """The last readout reads the last layer; the one before does not see what that layer does."""
    model = hooked_encoder(EncoderConfig(3, 2, 8, readouts="own"), SHAPE, seed=1)
    same = hooked_encoder(EncoderConfig(3, 2, 8), SHAPE, seed=1)
    torch.testing.assert_close(model(tokens())[:, -1], same(tokens())[:, -1])
    with torch.no_grad():
        before = model(tokens())
        model.blocks[2].mlp.leave.bias += torch.arange(8.0)
        changed = (model(tokens()) != before).flatten(2).any(-1).all(0)
    assert changed.tolist() == [False, False, True]


@pytest.mark.parametrize("positions", ["learned", "factored", "sinusoidal"])
def test_positions_tell_equal_tokens_apart(positions):
    model = small(positions=positions)
    with torch.no_grad():
        out = model(torch.zeros(1, 6, dtype=torch.long))[0, 0]
    assert len(out.unique(dim=0)) == 6


def test_factored_positions_are_sums_and_leave_the_front_alone():
    shape = Shape(d_vocab=7, n_ctx=7, d_out=5, n_front=1, block_length=3)
    table = hooked_encoder(EncoderConfig(1, 2, 8, positions="factored"), shape, seed=0).pos_embed(7)
    torch.testing.assert_close(table[1] - table[2], table[4] - table[5])
    assert not torch.allclose(table[0] - table[1], table[3] - table[4])


def test_embed_std_scales_the_embeddings_only_and_the_seed_decides():
    wide, narrow = small(embed_std=1.0), small(embed_std=0.1)
    torch.testing.assert_close(0.1 * wide.embed.weight, narrow.embed.weight)
    torch.testing.assert_close(0.1 * wide.pos_embed.table.weight, narrow.pos_embed.table.weight)
    assert torch.equal(wide.blocks[0].attn.qkv.weight, narrow.blocks[0].attn.qkv.weight)
    before = torch.get_rng_state()
    again = small(embed_std=0.1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(narrow.parameters(), again.parameters()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_heads": 3}, "does not divide"),
        ({"n_layers": 0}, "at least 1"),
        ({"d_mlp": -1}, "d_mlp"),
        ({"embed_std": 0.0}, "embed_std"),
        ({"readouts": "own"}, "3 readouts need"),
    ],
)
def test_bad_numbers_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        small(**changes)
