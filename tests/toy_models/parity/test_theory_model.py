"""The simplified block: its definition written out, its hooks, and the tables against the hooked forward."""

import copy

import pytest
import torch

from probes.attention.dependence import dependency_mass, top1_hit
from toy_models.engine.evaluation import attention_patterns
from toy_models.parity.construction import rounded
from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock, random_embedding
from toy_models.parity.theory_tables import stored_outputs, tables

TASK = Parity(n=6, k=3, secret=(4, 0, 2))


def random_block(seed: int = 0, d_model: int = 12, width: int = 10) -> SimplifiedBlock:
    generator = torch.Generator().manual_seed(seed)
    block = SimplifiedBlock(
        random_embedding(TASK.n_ctx, d_model, generator), torch.randn(width, generator=generator).double()
    )
    with torch.no_grad():
        for weight in (block.A, block.W):
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return block


def sampled(size: int = 20):
    return TASK.sample(size, torch.Generator().manual_seed(1))


def by_definition(block: SimplifiedBlock, tokens: list[int]) -> torch.Tensor:
    """Definitions 3 to 6 with the paper's orientation: columns are positions, the softmax is over rows."""
    X = torch.stack([block.embedding[i, b] for i, b in enumerate(tokens)], dim=1)
    C = torch.zeros(len(tokens), len(tokens), dtype=X.dtype)
    for i in range(len(tokens)):
        C[i + 1 :, i] = -torch.inf  # key j > i is hidden from query i
    attended = X @ torch.softmax(C + X.T @ block.A @ X, dim=0)
    return block.h @ torch.relu(block.W @ torch.cat([X, attended]))


def test_the_embedding_is_on_the_hypercube():
    embedding = random_embedding(5, 16, torch.Generator().manual_seed(0))
    assert embedding.shape == (5, 2, 16)
    assert set(embedding.flatten().tolist()) == {-0.25, 0.25}
    assert torch.allclose(embedding.norm(dim=-1), torch.ones(5, 2).double())
    with pytest.raises(ValueError, match="at least 1"):
        random_embedding(0, 16, torch.Generator())


@torch.no_grad()
def test_the_forward_is_the_papers_definition():
    block, inputs = random_block(), sampled().inputs
    expected = torch.stack([by_definition(block, tokens) for tokens in inputs.tolist()])
    assert torch.allclose(block(inputs), expected, atol=1e-12)


def test_only_A_and_W_are_trained():
    block = random_block(d_model=12, width=10)
    assert {name: p.numel() for name, p in block.named_parameters()} == {
        "blocks.0.attn.A": 144,
        "blocks.0.mlp.W": 240,
    }


@torch.no_grad()
def test_the_hooks_have_the_standard_names_and_work():
    block, inputs = random_block(), sampled().inputs
    outputs, cache = block.run_with_cache(inputs)
    pattern = cache["blocks.0.attn.hook_pattern"]
    assert pattern.shape == (20, 1, TASK.n_ctx, TASK.n_ctx)
    assert torch.allclose(pattern.sum(-1), torch.ones(20, 1, TASK.n_ctx).double())
    assert not pattern.triu(1).any()
    assert cache["hook_embed"].shape == (20, TASK.n_ctx, 12)
    assert torch.equal(cache["blocks.0.hook_mlp_out"][..., 0], outputs)
    assert torch.equal(attention_patterns(block, inputs)[0], pattern)

    uniform = lambda value, hook: torch.ones_like(value).tril() / torch.arange(1, TASK.n_ctx + 1)[:, None]  # noqa: E731
    changed = block.run_with_hooks(inputs, fwd_hooks=[("blocks.0.attn.hook_pattern", uniform)])
    assert not torch.allclose(changed, outputs)
    block.A.zero_()
    assert torch.allclose(block(inputs), changed)


@torch.no_grad()
def test_the_dependence_probes_read_its_attention():
    """A matrix that writes e_{S[i]} for every step's embedding points at S[i]."""
    block, batch = random_block(d_model=512), sampled()
    block.A.zero_()
    for step, secret in enumerate(TASK.secret):
        block.A.add_(200 * torch.outer(block.embedding[secret].sum(0), block.embedding[TASK.n + step].sum(0)))
    pattern = attention_patterns(block, batch.inputs)[0]
    mask = TASK.dependencies(batch)
    assert top1_hit(pattern, mask)[:, :, batch.supervised].all()
    assert dependency_mass(pattern, mask)[:, :, batch.supervised].min() > 0.999


def test_more_tokens_than_positions_are_refused():
    with pytest.raises(ValueError, match="10 tokens arrived, the block has embeddings for 9 positions"):
        random_block()(torch.zeros(1, TASK.n_ctx + 1, dtype=torch.long))


def test_tables_give_the_hooked_outputs_patterns_and_gradients():
    slow, batch = random_block(), sampled()
    fast = copy.deepcopy(slow)
    table = tables(fast, batch.supervised, TASK.n_ctx)
    weights = torch.randn(len(batch), TASK.k, generator=torch.Generator().manual_seed(2)).double()
    expected, cache = slow.run_with_cache(batch.inputs)
    found = table.outputs(batch.inputs, fast.h)
    assert torch.allclose(found, expected[:, batch.supervised], atol=1e-12)
    pattern = cache["blocks.0.attn.hook_pattern"][:, 0, batch.supervised]
    assert torch.allclose(table.patterns(batch.inputs), pattern, atol=1e-14)
    (weights * expected[:, batch.supervised]).sum().backward()
    (weights * found).sum().backward()
    for a, b in ((fast.A, slow.A), (fast.W, slow.W)):
        assert a.grad is not None
        assert b.grad is not None
        assert b.grad.abs().max() > 0.01
        assert torch.allclose(a.grad, b.grad, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("bits", [4, 8, 24])
def test_stored_outputs_are_the_hooked_model_with_every_weight_and_hook_rounded(bits):
    block, batch, keep = random_block(), sampled(200), rounded(bits)
    found = stored_outputs(block, batch.inputs, batch.supervised, keep)
    small = copy.deepcopy(block)
    for tensor in (small.A, small.W, small.h, small.embedding):
        tensor.copy_(keep(tensor))
    finite = lambda value, hook: torch.where(value.isfinite(), keep(value), value)  # noqa: E731
    expected = small.run_with_hooks(batch.inputs, fwd_hooks=[(lambda name: True, finite)])[:, batch.supervised]
    # Sums in another order may fall on the other side of a tie, rarely.
    assert (found == expected).double().mean() > 0.98
    assert not torch.allclose(found, block(batch.inputs)[:, batch.supervised], rtol=2.0 ** -(bits + 4), atol=0)
