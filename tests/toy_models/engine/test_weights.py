"""Weights come back as they were, tied ones once, and those of another model are refused."""

import pytest
import torch

from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.weights import digest, load_weights, weights
from toy_models.parity.theory_model import SimplifiedBlock, random_embedding


@pytest.mark.parametrize("tied", [True, False])
def test_weights_come_back(tied):
    config = DecoderConfig(2, 2, 16, tied=tied)
    source, target = (hooked_decoder(config, 2, 6, seed=seed) for seed in (0, 1))
    kept = weights(source)
    n_parameters = sum(p.numel() for p in source.parameters())
    assert sum(t.numel() for t in kept.values()) == n_parameters, "a weight is missing or kept twice"
    inputs = torch.zeros(1, 6, dtype=torch.long)
    assert not torch.allclose(source(inputs), target(inputs))
    load_weights(target, kept)
    assert torch.equal(source(inputs), target(inputs))


def test_tied_weights_stay_tied_after_loading():
    model = hooked_decoder(DecoderConfig(1, 1, 8), 2, 6, seed=0)
    load_weights(model, {name: tensor.clone() for name, tensor in weights(model).items()})
    assert model.unembed.original_component.weight is model.embed.original_component.weight


def test_weights_of_another_model_are_refused_and_nothing_changes():
    model = hooked_decoder(DecoderConfig(1, 1, 8), 2, 6, seed=0)
    before = {name: tensor.clone() for name, tensor in weights(model).items()}
    deeper = weights(hooked_decoder(DecoderConfig(2, 1, 8), 2, 6, seed=1))
    wider = weights(hooked_decoder(DecoderConfig(1, 1, 8, d_mlp=16), 2, 6, seed=1))
    with pytest.raises(ValueError, match="another model"):
        load_weights(model, deeper)
    with pytest.raises(ValueError, match=r"weight blocks\.0\.mlp\.in\.\w+ has shape .*the model needs"):
        load_weights(model, wider)
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(model).items())


def test_the_digest_sees_what_training_leaves_as_it_is_and_not_what_it_changes():
    def block(embedding: int, hidden: int = 5) -> SimplifiedBlock:
        drawn = random_embedding(8, 8, torch.Generator().manual_seed(embedding))
        return SimplifiedBlock(drawn, torch.ones(hidden).double())

    first, trained, other, wider = block(0), block(0), block(1), block(0, hidden=6)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.add_(1.0)
    assert digest(first) == digest(trained)
    assert len({digest(model) for model in (first, other, wider)}) == 3


def test_the_digest_does_not_take_a_tied_unembedding_for_one_that_training_leaves():
    first, second = (hooked_decoder(DecoderConfig(1, 1, 8), 2, 6, seed=seed) for seed in (0, 1))
    assert digest(first) == digest(second)


def test_the_digest_of_a_model_in_bfloat16_sees_what_training_leaves():
    def halved(embedding: int) -> torch.nn.Module:
        drawn = random_embedding(8, 8, torch.Generator().manual_seed(embedding))
        return torch.nn.Module.to(SimplifiedBlock(drawn, torch.ones(5).double()), torch.bfloat16)

    assert digest(halved(0)) == digest(halved(0)) != digest(halved(1))
