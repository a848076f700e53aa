"""Does the block form compute what the paper's d x d matrices compute, and Theorem 4's weights the task?"""

import math

import pytest
import torch
import torch.nn.functional as F

from toy_models.kfold.curricula import examples
from toy_models.kfold.task import KFold
from toy_models.kfold.theory_model import KFoldTheory


def data(k: int, n: int, size: int = 3, seed: int = 0):
    task = KFold(k=k, n=n, cyclic=True, hidden_seed=seed)
    return task, examples(task, size, torch.Generator().manual_seed(seed))


def dense_forward(key_query, readouts, values, k: int, n: int):
    """The paper's definition: columns, d x d matrices, W_OV = e_{l+2} e_{l+1}^T (x) I (section 5.1)."""
    kn, n_layers = k * n, k.bit_length()
    d = kn * (n_layers + 2)
    outputs = []
    for sigma in values.tolist():
        x = torch.zeros(d, kn, dtype=torch.float64)
        for i in range(k):
            for j in range(n):
                x[i * n + j, i * n + j] = 1
                x[kn + i * n + sigma[i][j], i * n + j] = 1
        for layer in range(n_layers):
            value = torch.zeros(n_layers + 2, n_layers + 2, dtype=torch.float64)
            value[layer + 2, layer + 1] = 1
            value = torch.kron(value, torch.eye(kn, dtype=torch.float64))
            x = x + value @ x @ (x.T @ key_query[layer] @ x).softmax(0)
        outputs.append(torch.stack([(psi.T @ x).T for psi in readouts]))
    return torch.stack(outputs)


def dense_key_query(model: KFoldTheory, layer: int) -> torch.Tensor:
    """W_KQ of a layer as the d x d matrix of the paper, zeros included."""
    weight = model.blocks[layer].attn.W_KQ.detach()
    rest = model.cfg.d_model - len(weight)
    return F.pad(weight, (0, rest, 0, rest))


def randomised(k: int, n: int) -> KFoldTheory:
    model = KFoldTheory(k, n, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


@pytest.mark.parametrize(("k", "n"), [(1, 3), (2, 3), (4, 3)])
def test_the_block_form_equals_the_dense_model_with_its_gradients(k, n):
    model = randomised(k, n)
    _, batch = data(k, n)
    dense = [dense_key_query(model, layer).requires_grad_() for layer in range(model.n_layers)]
    readouts = model.readout.detach().flatten(1, 3).requires_grad_()
    expected = dense_forward(dense, readouts, batch.values, k, n)
    found = model(batch.values)
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    for block, matrix in zip(model.blocks, dense):
        width = len(block.attn.W_KQ)
        torch.testing.assert_close(block.attn.W_KQ.grad, matrix.grad[:width, :width])
        assert not matrix.grad[width:].any(), "what is not stored would have a gradient"
        assert not matrix.grad[:, width:].any()
    torch.testing.assert_close(model.readout.grad.flatten(1, 3), readouts.grad)


@pytest.mark.parametrize("hop", [0, 1, 2])
def test_one_hop_alone_equals_that_hop_of_all(hop):
    _, batch = data(4, 5)
    fresh = KFoldTheory(4, 5, dtype=torch.float64).requires_grad_(False)
    for model in (fresh, randomised(4, 5).requires_grad_(False)):
        torch.testing.assert_close(model(batch.values, hop), model(batch.values)[:, hop])


def test_an_untrained_layer_that_is_frozen_gives_the_same():
    _, batch = data(4, 5)
    model = KFoldTheory(4, 5)
    with_products = model(batch.values).detach()
    assert torch.equal(model.requires_grad_(False)(batch.values), with_products)
    torch.testing.assert_close(with_products.softmax(-1), torch.full_like(with_products, 1 / 5))


@pytest.mark.parametrize(("k", "n"), [(2, 3), (4, 5), (8, 5)])
def test_the_construction_computes_every_hop_at_every_position(k, n):
    task, batch = data(k, n, 4, seed=2)
    model = KFoldTheory(k, n, dtype=torch.float64)
    model.construct(task.hidden, 25.0)
    expected = F.one_hot(batch.results, n).double()
    torch.testing.assert_close(model(batch.values), expected, atol=1e-6, rtol=0)


def test_the_constructions_attention_is_where_the_layer_masks_say():
    task, batch = data(8, 5, 4)
    model = KFoldTheory(8, 5)
    model.construct(task.hidden, 30.0)
    inputs = task.sample(4, torch.Generator().manual_seed(0))
    _, cache = model.run_with_cache(batch.values)
    for layer in range(4):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"]
        assert pattern.shape == (4, 1, 40, 40)
        assert torch.equal(pattern[:, 0].round().bool(), task.layer_dependencies(inputs, layer))


def test_the_error_of_one_layer_is_the_mass_that_leaves_its_softmax():
    """k = 1: one layer, so the output for the right element is e^b / (e^b + N - 1)."""
    task, batch = data(1, 5)
    model = KFoldTheory(1, 5, dtype=torch.float64)
    model.construct(task.hidden, 3.0)
    right = model(batch.values)[:, 0].gather(-1, batch.results[:, 0, :, None])
    torch.testing.assert_close(right, torch.full_like(right, math.exp(3) / (math.exp(3) + 4)))


def test_no_parameter_is_as_large_as_the_papers_matrices():
    model = KFoldTheory(8, 5)
    d = 40 * 6
    assert [tuple(block.attn.W_KQ.shape) for block in model.blocks] == [(80, 80), (120, 120), (160, 160), (200, 200)]
    assert sum(block.attn.W_KQ.numel() for block in model.blocks) < 0.5 * 4 * d**2


def test_hooks_change_the_output():
    _, batch = data(2, 3)
    model = KFoldTheory(2, 3)
    changed = model.run_with_hooks(
        batch.values, fwd_hooks=[("blocks.0.attn.hook_pattern", lambda pattern, hook: torch.zeros_like(pattern))]
    )
    assert not torch.equal(changed, model(batch.values))


@pytest.mark.parametrize(("k", "n", "message"), [(3, 5, "power of two"), (4, 1, "n >= 2")])
def test_bad_sizes_are_refused(k, n, message):
    with pytest.raises(ValueError, match=message):
        KFoldTheory(k, n)
