"""One layer with dropout everywhere: its gradients against the hooked model's, given the very same masks."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from tests.toy_models.engine.test_sparse_step import gradients, lively_decoder, sampled
from toy_models.engine.dropped_step import DroppedForward, Masks
from toy_models.engine.forward import attention_keep
from toy_models.engine.sparse_step import SparseForward
from toy_models.parity.task import Parity

RATE = 0.3


def full_masks(n: int, task: Parity, d_model: int) -> list[torch.Tensor]:
    """Factors for the embeddings and for the outputs of attention and MLP, at every position."""
    noise = torch.Generator().manual_seed(5)
    shape = (n, task.n_ctx, d_model)
    return [(torch.rand(shape, generator=noise) >= RATE).double() / (1 - RATE) for _ in range(3)]


def hooked(model, masks, inputs, positions, keep):
    """The hooked model's logits with every mask as a hook."""
    places = ("blocks.0.hook_resid_pre", "blocks.0.hook_attn_out", "blocks.0.hook_mlp_out")
    hooks: list = [(name, lambda x, hook, mask=mask: x * mask) for name, mask in zip(places, masks)]
    if keep is not None:
        drop = lambda x, hook: x.index_copy(2, positions, x[:, :, positions] * keep[0])  # noqa: E731
        hooks.append(("blocks.0.attn.hook_pattern", drop))
    return model.run_with_hooks(inputs, fwd_hooks=hooks)[:, positions]


@pytest.mark.parametrize("cot", [True, False], ids=["cot", "no_cot"])
@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("attention", [0.0, RATE], ids=["", "attention too"])
def test_gradients_equal_the_hooked_models_under_the_same_masks(cot, n_heads, attention):
    task = Parity(n=7, k=3, cot=cot)
    model, batch = lively_decoder(1, n_heads, 16, task).double(), sampled(task, 23)
    model.cfg.dtype = torch.float64
    masks = full_masks(len(batch), task, 16)
    noise = torch.Generator().manual_seed(6)
    keep = attention_keep(1, n_heads, batch.inputs, batch.supervised, attention, noise)
    keep = keep and [factors.double() for factors in keep]
    chosen = Masks(masks[0], *(mask[:, batch.supervised] for mask in masks[1:]))
    step = DroppedForward(model, RATE, RATE, noise)
    fast = gradients(lambda i, p, k: step.masked(i, p, k, chosen), model, batch, keep)
    slow = gradients(partial(hooked, model, masks), model, batch, keep)
    assert slow.norm() > 1e-3
    assert (fast - slow).norm() / slow.norm() < 1e-12


def test_without_dropout_it_is_the_sparse_step():
    task = Parity(n=6, k=2)
    model, batch = lively_decoder(1, 2, 16, task), sampled(task, 9)
    step = DroppedForward(model, 0.0, 0.0, torch.Generator())
    assert torch.allclose(
        step(batch.inputs, batch.supervised), SparseForward(model)(batch.inputs, batch.supervised), atol=1e-5
    )


def test_masks_come_from_the_generator_and_keep_the_mean():
    task = Parity(n=6, k=2)
    model, batch = lively_decoder(1, 1, 16, task), sampled(task, 400)
    draws = [
        DroppedForward(model, RATE, RATE, torch.Generator().manual_seed(seed))(batch.inputs, batch.supervised)
        for seed in (0, 0, 1)
    ]
    assert draws[0].equal(draws[1])
    assert not draws[0].equal(draws[2])
    mask = DroppedForward(model, RATE, 0.0, torch.Generator().manual_seed(0))._drawn(batch.inputs, 2)
    assert mask.embedding is not None
    assert mask.mlp_output is None
    assert mask.embedding.unique().tolist() == pytest.approx([0.0, 1 / (1 - RATE)])
    assert mask.embedding.mean().item() == pytest.approx(1, abs=0.01)
    assert F.mse_loss(draws[0], draws[2]) > 0
