"""The loss from tables of tokens is the plain one, and so are its gradients; the plain forward is the oracle."""

from dataclasses import replace

import pytest
import torch

from toy_models.lego.clause_decoder import STANDARD, THEORY, clause_decoder
from toy_models.lego.fast_loss import FastLoss
from toy_models.lego.task import Lego
from toy_models.lego.training import Stage, next_clause_loss, self_labelled, train_stage

TASK = Lego("S3", 3, n_variables=9)
SMALL = {"d_token": 10, "d_mlp": 24}
VARIANTS = {
    "theory-like": replace(THEORY, **SMALL),
    "standard": replace(STANDARD, **SMALL),
    "theory-like with a residual": replace(THEORY, residual=True, **SMALL),
    "no residual, learned values": replace(STANDARD, residual=False, **SMALL),
    "fixed orthonormal embeddings": replace(THEORY, embeddings="orthonormal", **SMALL),
}


def unsettled(variant: str):
    """A decoder in double precision of which nothing is at a special value."""
    model = clause_decoder(VARIANTS[variant], TASK, seed=0).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "embed.weight":
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return model


def gradients(model, loss) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("labels", ["given", "its own"])
def test_loss_and_gradients_are_those_of_the_plain_forward(variant, labels):
    model, queries = unsettled(variant), TASK.answer_positions()
    sentences = TASK.sample(16, torch.Generator().manual_seed(0)).inputs
    if labels == "its own":  # those of an untrained model have tokens, and blanks, in any slot
        sentences, _ = self_labelled(model, sentences)
        assert (sentences[:, 4:, :3] != 0).any()
    fast, plain = FastLoss(model)(sentences, queries), next_clause_loss(model, sentences, queries)
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=0)
    found, expected = gradients(model, 2.5 * fast), gradients(model, 2.5 * plain)
    assert found.keys() == expected.keys()
    assert ("embed.weight" in found) == (variant != "fixed orthonormal embeddings")
    for name, gradient in expected.items():
        if name == "embed.weight":
            gradient, found[name] = gradient[1:], found[name][1:]  # the blank's is zero in both
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-12, msg=name)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_tables_refuse_positions_that_they_do_not_know(positions):
    model = clause_decoder(replace(VARIANTS["standard"], positions=positions), TASK, seed=0)
    with pytest.raises(ValueError, match=f"positions='{positions}'; train with tables=False"):
        train_stage(model, TASK, Stage(3, 8, tables=True), torch.Generator().manual_seed(0))


def test_the_blank_stays_zero_and_training_by_tables_is_training():
    ends = []
    for tables in (False, True):
        model = clause_decoder(VARIANTS["standard"], TASK, seed=0).double()
        train_stage(model, TASK, Stage(3, 8, 1e-3, 1e-3, 16, tables=tables), torch.Generator().manual_seed(0))
        assert not model.embed.weight[0].any()
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(*ends, rtol=1e-6, atol=1e-8)
