"""The theory model of kim2024: links, masks, data, and the seed batch against the hooked model run literally."""

import math

import pytest
import torch

from probes.attention.dependence import dependency_mass, top1_hit
from probes.attention.entropy import causal_visible, minimum, normalised_entropy, row_entropy
from toy_models.tree_parity.forest import Forest, Sample
from toy_models.tree_parity.links import LINKS, find_link
from toy_models.tree_parity.task import TreeParity
from toy_models.tree_parity.theory_model import PositionAttention, attention, generate

MASKS = ("position", "level")


def forest(d: int = 9, k: int = 8, seeds: int = 3) -> Forest:
    return Forest.of([TreeParity(d=d, k=k, secret_seed=seed) for seed in range(seeds)])


def generators(seeds: int = 3) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in range(seeds)]


def random_weights(trees: Forest, scale: float = 1.0) -> torch.Tensor:
    shape = (trees.n_seeds, trees.n_nodes, trees.n_keys)
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("link", LINKS.values(), ids=lambda link: link.name)
class TestLinks:
    def test_the_mean_of_two_signs_becomes_their_product(self, link):
        value, slope = link.value_and_slope(torch.tensor([-1.0, 0.0, 1.0]))
        torch.testing.assert_close(value, torch.tensor([1.0, -1.0, 1.0]))
        torch.testing.assert_close(slope, torch.zeros(3), atol=1e-6, rtol=0)

    def test_the_slope_is_the_derivative(self, link):
        mean = torch.linspace(-1, 1, 402, dtype=torch.float64).requires_grad_()  # even: 0 and +-1/2 are left out
        value, slope = link.value_and_slope(mean)
        (derivative,) = torch.autograd.grad(value.sum(), mean)
        torch.testing.assert_close(slope, derivative)

    def test_it_is_even_rises_and_stays_in_range(self, link):
        mean = torch.linspace(0, 1, 1001, dtype=torch.float64)
        torch.testing.assert_close(link(mean), link(-mean))
        assert (link(mean).diff() > 0).all()
        assert link(mean).abs().max() <= 1

    def test_its_steepest_slope_and_its_curvature_are_as_stated(self, link):
        mean = torch.linspace(0, 1, 100_001, dtype=torch.float64)
        assert link.value_and_slope(mean)[1].max().item() == pytest.approx(link.steepest, rel=1e-6)
        assert link.steepest > 2
        assert ((link(mean[1]) + 1) / mean[1] ** 2).item() == pytest.approx(link.curvature, rel=1e-4)


def test_an_unknown_link_lists_the_known():
    with pytest.raises(ValueError, match="unknown link 'relu'; the links are piecewise, quartic, cosine"):
        find_link("relu")


def test_levels_stages_and_masks_by_hand():
    trees = forest(d=5, k=4)
    assert trees.levels == (slice(0, 2), slice(2, 3))
    assert trees.stages("position") == (slice(0, 1), slice(1, 2), slice(2, 3))
    assert trees.visible("position").sum(-1).tolist() == [5, 6, 7]
    assert trees.visible("level").sum(-1).tolist() == [5, 5, 7]
    assert trees.needed.sum(-1).eq(2).all()


def test_trees_of_different_shapes_make_no_forest():
    with pytest.raises(ValueError, match=r"one shape \(d, k\), got \[\(8, 4\), \(8, 8\)\]"):
        Forest.of([TreeParity(d=8, k=4), TreeParity(d=8, k=8)])


def test_grown_values_are_the_tasks_tokens():
    trees = forest()
    bits = Sample.draw(9, 50, generators()).values(0, 50)
    for seed, values in enumerate(trees.grown(bits)):
        tokens = ((1 - values.T) / 2).long()
        targets = TreeParity(d=9, k=8, secret_seed=seed).solve(tokens[:, :-1])
        assert torch.equal(targets[:, 8:], tokens[:, 9:])


def test_samples_are_uniform_nested_and_the_same_in_chunks(monkeypatch):
    few, many = (Sample.draw(6, n, generators()) for n in (1000, 5003))
    whole = many.values(0, 5003)
    assert whole.shape == (3, 6, 5003)
    assert torch.equal(few.values(0, 1000), whole[..., :1000])
    assert whole.abs().eq(1).all()
    assert whole.mean(-1).abs().max() < 5 / math.sqrt(5003)
    monkeypatch.setattr("toy_models.tree_parity.forest.CHUNK_VALUES", 3 * 6 * 256)
    stops, parts = zip(*many.chunks(stops=(1000, 10_000)))
    assert torch.equal(torch.cat(parts, -1), whole)
    assert stops[-1] == 5003
    assert 1000 in stops
    assert max(part.shape[-1] for part in parts) <= 256


def test_a_million_samples_are_a_few_megabytes():
    sample = Sample.draw(64, 1_000_000, generators(2))
    assert sample.packed.numel() == 2 * 8_000_000
    _, first = next(sample.chunks())
    assert first.numel() <= 1 << 20


def test_every_input_occurs_once():
    values = Sample.every_input(5, 2).values(0, 32)
    assert {tuple(row) for row in values[1].T.tolist()} == {
        tuple(1.0 - 2 * ((number >> bit) & 1) for bit in range(5)) for number in range(32)
    }
    with pytest.raises(ValueError, match="3 <= d <= 24, got d=30"):
        Sample.every_input(30, 1)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("link", LINKS)
def test_the_seed_batch_generates_what_each_hooked_model_does(mask, link):
    trees, weights = forest(), random_weights(forest(), 2.0)
    bits = Sample.draw(9, 40, generators()).values(0, 40)
    pattern = attention(weights, trees.visible(mask))
    chain, _ = generate(bits, pattern, trees.stages(mask), find_link(link))
    for seed in range(3):
        model = PositionAttention(trees, mask, link)
        model.W.data.copy_(weights[seed])
        tokens = ((1 - bits[seed].T) / 2).long()
        torch.testing.assert_close(model.rollout(tokens).T, chain[seed, 9:])


@pytest.mark.parametrize("mask", MASKS)
def test_the_rollout_stands_still(mask):
    """One more application of TF changes nothing."""
    trees = forest(seeds=1)
    model = PositionAttention(trees, mask)
    model.W.data.copy_(random_weights(trees)[0])
    bits = torch.randint(0, 2, (20, 9), generator=torch.Generator().manual_seed(0))
    nodes = model.rollout(bits)
    again = model(torch.cat([1.0 - 2.0 * bits, nodes[:, :-1]], dim=1))
    torch.testing.assert_close(again, nodes)


@pytest.mark.parametrize("mask", MASKS)
def test_weights_on_the_children_solve_the_task(mask):
    task = TreeParity(d=9, k=8, secret_seed=1)
    trees = Forest.of([task])
    model = PositionAttention(trees, mask)
    model.W.data.copy_(30.0 * trees.needed[0])
    batch = task.sample(100, torch.Generator().manual_seed(0))
    answers = 1.0 - 2.0 * batch.answers
    torch.testing.assert_close(model(batch.inputs), answers)
    torch.testing.assert_close(model.rollout(batch.inputs[:, :9]), answers)
    _, cache = model.run_with_cache(batch.inputs)
    pattern, needed = cache["blocks.0.attn.hook_pattern"], task.dependencies(batch)
    assert pattern.shape == (100, 1, task.n_ctx, task.n_ctx)
    assert dependency_mass(pattern, needed)[:, :, batch.supervised].min() > 0.999
    assert top1_hit(pattern, needed)[:, :, batch.supervised].all()


def test_idle_queries_never_win_the_minimum_entropy():
    trees = forest(seeds=1)
    model = PositionAttention(trees)
    model.W.data.copy_(random_weights(trees, 3.0)[0])
    _, cache = model.run_with_cache(torch.zeros(1, trees.n_keys, dtype=torch.long))
    pattern = cache["blocks.0.attn.hook_pattern"]
    torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern[..., 0]))
    entropy = normalised_entropy(row_entropy(pattern), causal_visible(trees.n_keys, pattern.device))
    assert minimum(entropy).item() == pytest.approx(entropy[..., 8:].min().item())
    assert entropy[..., 1:8].min() > 0.999


def test_hooks_stand_in_the_path_of_the_answer():
    trees = forest(seeds=1)
    model = PositionAttention(trees)
    inputs = torch.randint(0, 2, (4, trees.n_keys), generator=torch.Generator().manual_seed(0))
    before = model(inputs)
    assert set(model.hook_dict) == {
        "hook_embed", "blocks.0.attn.hook_attn_scores", "blocks.0.attn.hook_pattern", "blocks.0.attn.hook_z",
        "blocks.0.attn.hook_v", "blocks.0.mlp.hook_pre", "blocks.0.mlp.hook_post", "blocks.0.hook_resid_pre",
        "blocks.0.hook_attn_out", "blocks.0.hook_mlp_out", "blocks.0.hook_resid_post",
    }  # fmt: skip
    for name in model.hook_dict:
        changed = model.run_with_hooks(inputs, fwd_hooks=[(name, lambda value, hook: value * 0.3)])
        if name == "blocks.0.attn.hook_attn_scores":
            assert torch.equal(changed, before)  # W = 0: scaled zeros
        else:
            assert not torch.allclose(changed, before)


def test_a_wrong_length_is_refused():
    with pytest.raises(ValueError, match="reads d \\+ k - 2 = 15 positions, got 9"):
        PositionAttention(forest())(torch.zeros(2, 9))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_in_another_precision_computes_in_it(dtype):
    task = TreeParity(d=9, k=8)
    inputs = task.sample(6, torch.Generator().manual_seed(0)).inputs
    model = PositionAttention(Forest.of([task]))
    with torch.no_grad():
        model.W.normal_(generator=torch.Generator().manual_seed(1))
        expected, chain = model(inputs).double(), model.rollout(inputs[:, :9])
        model.to(dtype)
        found = model(inputs)
        assert found.dtype == model.rollout(inputs[:, :9]).dtype == dtype
    assert chain.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, atol=0.03 if dtype == torch.bfloat16 else 1e-6, rtol=0)
