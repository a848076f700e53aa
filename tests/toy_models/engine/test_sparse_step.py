"""The sparse step against the hooked model: same logits, same gradients, same attention; and when it must not run."""

import functools

import pytest
import torch
import torch.nn.functional as F
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.forward import Dropout, HookedForward, attention_keep, choose_forward
from toy_models.engine.sparse_step import MAX_SLOTS, SparseForward, why_not_sparse
from toy_models.engine.states import distinct_prefixes
from toy_models.parity.task import Parity
from toy_models.task import Batch

FP32, FP64 = 1e-5, 1e-12
"""The largest relative difference of gradients that the issue allows."""


@functools.cache
def lively_decoder(n_layers: int, n_heads: int, d_model: int, task: Parity, tied: bool = True) -> TransformerBridge:
    """A small decoder with uneven attention, and with gains, shifts and biases away from their initial 1 and 0."""
    config = DecoderConfig(n_layers, n_heads, d_model, d_mlp=2 * d_model, init_std=d_model**-0.5, tied=tied)
    model = hooked_decoder(config, task.d_vocab, task.n_ctx, seed=1)
    assert sum(p.numel() for p in model.parameters()) < 600_000
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return model


def sampled(task: Parity, size: int) -> Batch:
    return task.sample(size, torch.Generator().manual_seed(3))


def gradients(forward, model: torch.nn.Module, batch: Batch, keep) -> torch.Tensor:
    """All gradients of the training loss, in one vector."""
    model.zero_grad(set_to_none=True)
    logits = forward(batch.inputs, batch.supervised, keep)
    F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten()).backward()
    assert all(p.grad is not None for p in model.parameters()), "a parameter got no gradient"
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def relative_difference(model: TransformerBridge, batch: Batch, dropout: float, dtype: torch.dtype) -> float:
    """|g_sparse - g_hooked| / |g_hooked|, with the very same dropout mask."""
    torch.nn.Module.to(model, dtype)  # what the bridge's own `to` does, half a second faster
    model.cfg.dtype = dtype
    noise, cfg = torch.Generator().manual_seed(4), model.cfg
    keep = attention_keep(cfg.n_layers, cfg.n_heads, batch.inputs, batch.supervised, dropout, noise)
    keep = keep and [factors.to(dtype) for factors in keep]
    sparse = gradients(SparseForward(model), model, batch, keep)
    hooked = gradients(HookedForward(model), model, batch, keep)
    assert hooked.norm() > 1e-3
    return ((sparse - hooked).norm() / hooked.norm()).item()


def mixes_coefficients(n_layers: int, n_heads: int, d_model: int, task: Parity) -> bool:
    """Whether the first block has fewer distinct rows than columns, so that it works on coefficients."""
    n_queries = len(sampled(task, 1).supervised) if n_layers == 1 else task.n_ctx
    return (n_heads * task.n_ctx + n_queries) * task.d_vocab < d_model


@pytest.mark.parametrize("dropout", [0.0, 0.3], ids=["", "dropout"])
@pytest.mark.parametrize("cot", [True, False], ids=["cot", "no_cot"])
@pytest.mark.parametrize("wide", [True, False], ids=["coefficients", "vectors"])
@pytest.mark.parametrize("n_heads", [1, 2, 3, 4])
@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
def test_gradients_equal_the_hooked_models(n_layers, n_heads, wide, cot, dropout):
    task = Parity(n=7, k=3, cot=cot)
    narrow_width, wide_width = (36, 108) if n_heads == 3 else (16, 128)
    d_model = wide_width if wide else narrow_width
    assert mixes_coefficients(n_layers, n_heads, d_model, task) == wide
    model, batch = lively_decoder(n_layers, n_heads, d_model, task), sampled(task, 37)
    assert relative_difference(model, batch, dropout, torch.float64) <= FP64
    assert relative_difference(model, batch, dropout, torch.float32) <= FP32


@pytest.mark.parametrize("dropout", [0.0, 0.3], ids=["", "dropout"])
@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 31, 32, 33, 100])
def test_gradients_for_any_batch_size(size, n_layers, dropout):
    task = Parity(n=6, k=2)
    batch, model = sampled(task, size), lively_decoder(n_layers, 2, 16, task)
    assert relative_difference(model, batch, dropout, torch.float64) <= FP64


@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize("d_model", [16, 128])
def test_gradients_for_equal_rows(n_layers, d_model):
    task = Parity(n=6, k=2)
    batch = sampled(task, 1)[torch.zeros(21, dtype=torch.long)]
    assert relative_difference(lively_decoder(n_layers, 2, d_model, task), batch, 0.0, torch.float64) <= FP64


@pytest.mark.parametrize("cot", [True, False], ids=["cot", "no_cot"])
@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("size", [1, 5])
def test_gradients_for_the_smallest_task(n_layers, cot, size):
    task = Parity(n=1, k=1, cot=cot)
    assert relative_difference(lively_decoder(n_layers, 1, 16, task), sampled(task, size), 0.0, torch.float64) <= FP64


@pytest.mark.parametrize("n_layers", [1, 2])
def test_gradients_of_an_untied_decoder(n_layers):
    task = Parity(n=6, k=2)
    model = lively_decoder(n_layers, 2, 16, task, tied=False)
    assert relative_difference(model, sampled(task, 20), 0.0, torch.float64) <= FP64


def test_the_comparison_notices_a_wrong_gradient():
    """The positive control: another dropout mask is another gradient."""
    task = Parity(n=7, k=3)
    model, batch = lively_decoder(1, 2, 16, task), sampled(task, 37)
    noise = torch.Generator().manual_seed(4)
    masks = [attention_keep(1, 2, batch.inputs, batch.supervised, 0.3, noise) for _ in range(2)]
    first, second = (gradients(SparseForward(model), model, batch, mask) for mask in masks)
    assert (first - second).norm() / first.norm() > 0.01


def test_the_step_reads_the_models_own_parameters():
    task = Parity(n=6, k=2)
    model, batch = hooked_decoder(DecoderConfig(1, 1, 16), 2, task.n_ctx, seed=0), sampled(task, 8)
    forward = SparseForward(model)
    before = forward(batch.inputs, batch.supervised).detach()
    torch.optim.SGD(model.parameters(), lr=1.0).step(lambda: _loss(forward, batch))
    after = forward(batch.inputs, batch.supervised).detach()
    assert not torch.allclose(after, before, atol=1e-3)
    assert torch.allclose(after, HookedForward(model)(batch.inputs, batch.supervised), atol=1e-5)


def _loss(forward, batch: Batch) -> float:
    loss = F.cross_entropy(forward(batch.inputs, batch.supervised).flatten(0, 1), batch.answers.flatten())
    loss.backward()
    return loss.item()


@pytest.mark.parametrize("n_heads", [1, 2, 4])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_first_pattern_equals_hook_pattern(n_layers, n_heads):
    task = Parity(n=7, k=3)
    model, inputs = lively_decoder(n_layers, n_heads, 16, task), sampled(task, 19).inputs
    _, cache = model.run_with_cache(inputs)
    found = SparseForward(model).first_pattern(inputs)
    assert torch.allclose(found, cache["blocks.0.attn.hook_pattern"], atol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 7, 64, 100])
def test_equal_prefixes_share_one_state(size):
    task = Parity(n=9, k=2)
    inputs = sampled(task, size).inputs
    states = distinct_prefixes(inputs, task.d_vocab)
    for row in range(size):
        for pos in range(task.n_ctx):
            state = states.index[row, pos]
            assert states.pos[state] == pos
            assert torch.equal(inputs[states.row[state], : pos + 1], inputs[row, : pos + 1])
    n_shared = size.bit_length() - 1  # positions at which all 2^(pos + 1) prefixes could occur
    distinct = sum(len({tuple(r) for r in inputs[:, : pos + 1].tolist()}) for pos in range(n_shared))
    assert len(states.row) == len(states.pos) == distinct + size * (task.n_ctx - n_shared)


def test_deduplication_saves_work_on_a_large_batch():
    task = Parity(n=12, k=2)
    inputs = sampled(task, 512).inputs
    searched = 2 + 4 + 8 + 16 + 32 + 64 + 128 + 256 + 512  # all prefixes of up to nine bits
    assert len(distinct_prefixes(inputs, 2).row) <= searched + 512 * (task.n_ctx - 9) < 512 * task.n_ctx


def native(**changes) -> TransformerBridge:
    """A native decoder like ours, with `changes` to its configuration."""
    standard = {
        "n_layers": 1, "n_heads": 2, "d_model": 16, "d_head": 8, "d_mlp": 32, "d_vocab": 2, "n_ctx": 8,
        "act_fn": "gelu_new", "normalization_type": "LN", "init_mode": "gpt2", "initializer_range": 0.5, "seed": 0,
    }  # fmt: skip
    return TransformerBridge.boot_native(TransformerBridgeConfig(**{**standard, **changes}))


OTHER_ARCHITECTURES = [
    {"act_fn": "relu"},
    {"act_fn": "gelu"},
    {"normalization_type": "RMS"},
    {"normalization_type": "LNPre"},
    {"positional_embedding_type": "rotary"},
    {"gated_mlp": True},
    {"attn_only": True},
    {"final_rms": True},
    {"n_key_value_heads": 1},
    {"attention_dir": "bidirectional"},
    {"attn_scores_soft_cap": 0.5},
    {"output_logits_soft_cap": 0.5},
    {"attn_scale": 2.0},
]


@pytest.mark.parametrize("changes", OTHER_ARCHITECTURES, ids=lambda c: next(iter(c)) + f"={next(iter(c.values()))}")
def test_another_architecture_falls_back_says_why_and_trains(changes):
    model, task = native(**changes), Parity(n=6, k=2)
    choice = choose_forward(model, task.n_ctx, Dropout(), torch.Generator())
    assert choice.path == "hooked"
    assert next(iter(changes)) in choice.reason
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    batch, losses = sampled(task, 32), []
    for _ in range(10):
        optimiser.zero_grad()
        losses.append(_loss(choice.forward, batch))
        optimiser.step()
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("changes", [{}, {"d_head": 4}, {"eps": 1e-2}, {"n_layers": 3}], ids=str)
def test_where_the_sparse_step_is_chosen_it_is_exact(changes):
    model, task = native(**changes), Parity(n=6, k=2)
    choice = choose_forward(model, task.n_ctx, Dropout(attention=0.1), torch.Generator())
    assert choice.path == "sparse"
    batch = sampled(task, 16)
    expected = HookedForward(model)(batch.inputs, batch.supervised)
    assert torch.allclose(choice.forward(batch.inputs, batch.supervised), expected, atol=1e-5)


def test_too_many_slots_fall_back():
    model = hooked_decoder(DecoderConfig(1, 4, 16), d_vocab=2, n_ctx=300, seed=0)
    assert why_not_sparse(model, MAX_SLOTS // 8) is None
    assert f"more than {MAX_SLOTS}" in str(why_not_sparse(model, MAX_SLOTS // 8 + 1))


def test_other_modules_are_refused_by_name():
    assert why_not_sparse(torch.nn.Linear(2, 2), 4) == "Linear is not a TransformerLens bridge"


def hooked_by_somebody(model: TransformerBridge) -> str:
    model.hook_dict["blocks.0.attn.hook_pattern"].add_perma_hook(lambda pattern, hook: pattern.flip(2).tril())
    return "blocks.0.attn.hook_pattern has a hook"


def in_compatibility_mode(model: TransformerBridge) -> str:
    model.enable_compatibility_mode()
    return "unembed.bias"


@pytest.mark.parametrize("change", [hooked_by_somebody, in_compatibility_mode])
@pytest.mark.parametrize("dropout", [Dropout(), Dropout(embedding=0.1)])
def test_a_model_that_was_changed_is_run_as_it_is(change, dropout):
    task = Parity(n=6, k=2)
    model = lively_decoder.__wrapped__(1, 1, 16, task)  # another than the one that all tests share
    reason, batch = change(model), sampled(task, 8)
    choice = choose_forward(model, task.n_ctx, dropout, torch.Generator())
    assert choice.path == "hooked"
    assert reason in choice.reason
    found = choose_forward(model, task.n_ctx, Dropout(), torch.Generator()).forward(batch.inputs, batch.supervised)
    assert torch.equal(found, model(batch.inputs)[:, batch.supervised])


@pytest.mark.parametrize("kind", ["embedding", "residual"])
def test_dropout_outside_attention_falls_back_and_says_why(kind):
    for n_layers, path in ((1, "dropped"), (2, "hooked")):
        model = lively_decoder(n_layers, 1, 16, Parity(n=6, k=2))
        choice = choose_forward(model, 8, Dropout(**{kind: 0.1}), torch.Generator())
        assert choice.path == path
        assert "dropout" in choice.reason
