"""Dropout as hooks: what the masks are, where they act, and that without them nothing happens."""

import pytest
import torch

from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.forward import Dropout, HookedForward, attention_keep, choose_forward
from toy_models.parity.task import Parity

TASK = Parity(n=6, k=2)


@pytest.fixture(scope="module")
def model():
    model = hooked_decoder(DecoderConfig(2, 2, 16, init_std=0.3), TASK.d_vocab, TASK.n_ctx, seed=0)
    assert sum(p.numel() for p in model.parameters()) < 10_000
    return model


@pytest.fixture(scope="module")
def batch():
    return TASK.sample(20, torch.Generator().manual_seed(0))


def test_without_dropout_it_is_the_model(model, batch):
    found = HookedForward(model)(batch.inputs, batch.supervised)
    assert torch.equal(found, model(batch.inputs)[:, batch.supervised])


def test_attention_factors(batch):
    keep = attention_keep(3, 2, batch.inputs, batch.supervised, 0.25, torch.Generator().manual_seed(0))
    assert [tuple(k.shape) for k in keep] == [(20, 2, 8, 8), (20, 2, 8, 8), (20, 2, 2, 8)]
    everything = torch.cat([k.flatten() for k in keep])
    assert sorted(everything.unique().tolist()) == pytest.approx([0.0, 1 / 0.75])
    assert everything.mean().item() == pytest.approx(1, abs=0.03)  # the expectation of attention is kept
    assert attention_keep(3, 2, batch.inputs, batch.supervised, 0.0, torch.Generator()) is None


def test_attention_factors_act_on_the_pattern_of_the_supervised_queries(model, batch):
    """Factors of one change nothing; dropping a key everywhere equals a model that cannot attend to it."""
    ones = [torch.ones(20, 2, 8, 8), torch.ones(20, 2, 2, 8)]
    plain = HookedForward(model)(batch.inputs, batch.supervised)
    assert torch.allclose(HookedForward(model)(batch.inputs, batch.supervised, ones), plain, atol=1e-6)
    ones[1][..., 3] = 0
    without = HookedForward(model)(batch.inputs, batch.supervised, ones)

    def knock_out(pattern, hook):
        pattern = pattern.clone()
        pattern[..., 3] = 0
        return pattern

    expected = model.run_with_hooks(batch.inputs, fwd_hooks=[("blocks.1.attn.hook_pattern", knock_out)])
    assert torch.allclose(without, expected[:, batch.supervised], atol=1e-6)
    assert not torch.allclose(without, plain, atol=1e-3)


@pytest.mark.parametrize("kind", ["embedding", "residual"])
def test_other_dropout_is_random_by_its_generator(kind, model, batch):
    def run(seed: int) -> torch.Tensor:
        forward = HookedForward(model, Dropout(**{kind: 0.3}), torch.Generator().manual_seed(seed))
        return forward(batch.inputs, batch.supervised)

    assert torch.equal(run(1), run(1))
    assert not torch.allclose(run(1), run(2), atol=1e-3)
    global_state = torch.get_rng_state()
    run(1)
    assert torch.equal(torch.get_rng_state(), global_state), "the global generator was used"


def test_dropped_embeddings_are_zero_or_scaled(model, batch):
    seen = {}
    forward = HookedForward(model, Dropout(embedding=0.5), torch.Generator().manual_seed(0))
    model.add_hook("blocks.0.ln1.hook_in", lambda x, hook: seen.update(x=x.detach().clone()))
    try:
        forward(batch.inputs, batch.supervised)
    finally:
        model.reset_hooks()
    embedded = model.embed.original_component.weight[batch.inputs] + model.pos_embed.original_component.weight
    ratio = seen["x"] / embedded
    assert torch.logical_or(ratio.abs() < 1e-6, (ratio - 2).abs() < 1e-3).all()
    assert 0.4 < (ratio.abs() < 1e-6).float().mean() < 0.6


def test_hooks_are_gone_afterwards(model, batch):
    before = model(batch.inputs)
    HookedForward(model, Dropout(residual=0.5), torch.Generator())(batch.inputs, batch.supervised)
    assert torch.equal(model(batch.inputs), before)


@pytest.mark.parametrize("name", ["attention", "embedding", "residual"])
@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
def test_impossible_probabilities_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"{name} dropout must be in \[0, 1\)"):
        Dropout(**{name: value})


def test_a_model_that_is_read_otherwise_takes_the_hooked_forward(model, batch):
    def negated(output, positions):
        return -output[:, positions]

    one_layer = hooked_decoder(DecoderConfig(1, 1, 16), TASK.d_vocab, TASK.n_ctx, seed=0)
    generator = torch.Generator()
    assert choose_forward(one_layer, TASK.n_ctx, Dropout(), generator).path == "sparse"
    choice = choose_forward(one_layer, TASK.n_ctx, Dropout(), generator, negated)
    assert choice.path == "hooked"
    expected = -one_layer(batch.inputs)[:, batch.supervised]
    assert torch.equal(choice.forward(batch.inputs, batch.supervised), expected)
