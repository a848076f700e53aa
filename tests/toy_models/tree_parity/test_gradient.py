"""Closed-form, streamed gradients against autograd through the hooked model; the oracle's errors; the filter."""

import pytest
import torch

from tests.toy_models.tree_parity.test_theory_model import MASKS, forest, generators, random_weights
from toy_models.tree_parity.filter import Filter
from toy_models.tree_parity.forest import Sample
from toy_models.tree_parity.gradient import (
    Oracle,
    chain_errors,
    chain_gradient,
    chain_part,
    forced_gradients,
    forced_part,
)
from toy_models.tree_parity.links import LINKS
from toy_models.tree_parity.theory_model import PositionAttention, attention, generate


def autograd(trees, weights, sample, mask, link, forced: bool) -> torch.Tensor:
    """The gradient of loss (2) or (4) for each seed, through the hooked model."""
    gradients = []
    values = trees.grown(sample.values(0, sample.n))
    for seed in range(trees.n_seeds):
        model = PositionAttention(trees, mask, link)
        model.W.data.copy_(weights[seed])
        targets, keys = values[seed, trees.d :].T, values[seed, :-1].T
        bits = ((1 - keys[:, : trees.d]) / 2).long()
        nodes = model(keys) if forced else model.rollout(bits)
        ((nodes - targets) ** 2).sum().div(2 * sample.n).backward()
        gradients.append(model.W.grad)
    return torch.stack(gradients)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("scale", [0.0, 2.0])
def test_gradients_equal_autograds(mask, link, scale, monkeypatch):
    monkeypatch.setattr("toy_models.tree_parity.forest.CHUNK_VALUES", 3 * 9 * 128)  # several chunks
    trees = forest()
    weights, sample = random_weights(trees, scale), Sample.draw(9, 500, generators())
    (_, forced), *rest = forced_gradients(weights, trees, sample, LINKS[link], mask)
    assert not rest
    torch.testing.assert_close(forced, autograd(trees, weights, sample, mask, link, True), atol=1e-7, rtol=1e-4)
    chained = chain_gradient(weights, trees, sample, LINKS[link], mask)
    torch.testing.assert_close(chained, autograd(trees, weights, sample, mask, link, False), atol=1e-7, rtol=1e-4)


def test_gradients_at_smaller_n_are_those_of_the_first_inputs():
    trees, link = forest(), LINKS["piecewise"]
    weights = torch.zeros(3, 7, 15)
    sample = Sample.draw(9, 700, generators())
    found = dict(forced_gradients(weights, trees, sample, link, stops=(100, 300)))
    assert list(found) == [100, 300, 700]
    for n, gradient in found.items():
        (_, alone), *_ = forced_gradients(weights, trees, Sample.draw(9, n, generators()), link)
        torch.testing.assert_close(gradient, alone)


def test_the_first_gradients_signal_is_the_papers():
    """-2c / (m-1)^2 on the two children of node m, up to terms of smaller order; near zero elsewhere."""
    trees, link = forest(d=64, k=32, seeds=2), LINKS["quartic"]
    weights = torch.zeros(2, 31, 94)
    sample = Sample.draw(64, 200_000, generators(2))
    (_, gradient), *_ = forced_gradients(weights, trees, sample, link)
    seen = trees.visible("position").sum(-1)[:, None]
    scaled = gradient * seen**2 / (2 * link.curvature)
    assert (scaled[trees.needed] + 1).abs().mean() < 0.15
    visible = trees.visible("position").expand_as(scaled)
    assert scaled[visible & ~trees.needed].abs().mean() < 0.15


def test_losses_by_node_are_half_the_squared_errors():
    trees, link = forest(), LINKS["cosine"]
    values = trees.grown(Sample.draw(9, 64, generators()).values(0, 64))
    pattern = attention(random_weights(trees), trees.visible("level"))
    chain, _ = generate(values[:, :9], pattern, trees.levels, link)
    loss, _ = chain_part(values, pattern, trees.levels, link)
    torch.testing.assert_close(loss, (chain - values)[:, 9:].square().sum(-1) / 2)
    forced, _ = forced_part(values[:, :-1], values[:, 9:], pattern, link)
    torch.testing.assert_close(forced, (link(pattern @ values[:, :-1]) - values[:, 9:]).square().sum(-1) / 2)


def test_the_error_of_the_root_alone_reaches_every_node_below():
    """dL/dz with the loss on the root only, by finite differences of the mean of one node."""
    trees, link = forest(seeds=1), LINKS["cosine"]
    values = trees.grown(Sample.draw(9, 4, generators(1)).values(0, 4)).double()
    pattern = attention(random_weights(trees).double(), trees.visible("level"))
    chain, slopes = generate(values[:, :9], pattern, trees.levels, link)
    errors = torch.zeros_like(slopes)
    errors[:, -1] = chain[:, -1] - values[:, -1]
    found = chain_errors(chain, slopes, errors, pattern, trees.levels)
    step, root = 1e-6, values[:, -1]
    moved = chain.clone()
    moved[:, 9 + 1] += step * slopes[:, 1]  # node 1's mean moved by `step`
    for level in trees.levels[1:]:
        seen = 9 + level.start
        moved[:, seen : 9 + level.stop] = link(pattern[:, level, :seen] @ moved[:, :seen])
    change = ((moved[:, -1] - root) ** 2 - (chain[:, -1] - root) ** 2) / 2 / step
    torch.testing.assert_close(found[:, 1], change, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["random", "against", "aligned"])
def test_the_oracle_is_off_by_at_most_its_size(kind):
    trees = forest()
    gradient = random_weights(trees)
    found = Oracle(0.25, kind)(gradient, trees, generators()) - gradient
    assert found.abs().max() <= 0.25 + 1e-6
    assert found.abs().max() > 0.24
    twice = Oracle(0.5, kind)(gradient, trees, generators()) - gradient
    torch.testing.assert_close(twice, 2 * found, atol=1e-5, rtol=1e-4)
    children = found.gather(-1, trees.children)
    if kind == "against":
        assert (children > 0.24).all()
        assert (found[~trees.needed] < -0.24).all()
    elif kind == "aligned":
        torch.testing.assert_close(children.sum(-1), torch.zeros(3, 7), atol=1e-6, rtol=0)
        assert found[~trees.needed].abs().max() < 1e-6
        before, after = (g.gather(-1, trees.children).diff(dim=-1) for g in (gradient, gradient + found))
        torch.testing.assert_close(after.abs(), before.abs() + 0.5)  # the children are driven apart


def test_an_unknown_error_is_refused():
    with pytest.raises(ValueError, match="unknown error 'kind' of the oracle; use random, against or aligned"):
        Oracle(1.0, "kind")


class TestFilter:
    """An untrained chain of four levels, at a size where untrained answers lie within 1 of -1."""

    trees = forest(d=256, k=16, seeds=2)
    link = LINKS["piecewise"]
    augmented = Sample.draw(256, 64, generators(2)).values(0, 64)
    untrained = torch.zeros(2, 15, 270)

    def opened(self, weights=None, **options) -> list[list[bool]]:
        """Whether each level of each seed passes; a level passes or is closed as a whole."""
        weights = self.untrained if weights is None else weights
        nodes = Filter(**options).opened(weights, self.trees, self.augmented, self.link)
        assert all(nodes[:, level].all(-1).eq(nodes[:, level].any(-1)).all() for level in self.trees.levels)
        return [[bool(row[level].all()) for level in self.trees.levels] for row in nodes]

    def test_below_one_it_does_not_cascade(self):
        """Level 2 is zeroed, so level 3 finds a level at distance 1 from -1 and passes, contrary to the proof."""
        assert self.opened(eps_0=0.9) == [[True, False, True, False]] * 2

    @pytest.mark.parametrize("d", [64, 128])
    def test_a_level_that_passes_above_a_zeroed_one_drowns_the_signal(self, d):
        """Its gradient on the untrained nodes is of order 1/d, against the signal's 2c / d^2 at level 1."""
        trees = forest(d=d, k=d // 2, seeds=1)
        weights = torch.zeros(1, trees.n_nodes, trees.n_keys)
        augmented = Sample.draw(d, d, generators(1)).values(0, d)
        sample = Sample.draw(d, 8192, generators(1))
        below_one = Filter(0.9).opened(weights, trees, augmented, self.link)
        level_3, untrained = trees.levels[2], slice(d, d + d // 4)
        assert below_one[:, level_3].all()
        gradient = chain_gradient(weights, trees, sample, self.link, opened=below_one)
        assert gradient[:, level_3, untrained].mean() < -0.5 / d
        closed = Filter(0.9, cascade=True).opened(weights, trees, augmented, self.link)
        assert chain_gradient(weights, trees, sample, self.link, opened=closed)[:, level_3].eq(0).all()

    @pytest.mark.parametrize("options", [{"eps_0": 1.5}, {"eps_0": 0.9, "cascade": True}])
    def test_a_larger_eps_or_cascading_closes_every_level_above(self, options):
        assert self.opened(**options) == [[True, False, False, False]] * 2

    @pytest.mark.parametrize("solved", [1, 2, 3, 4])
    def test_solved_levels_open_the_next_one(self, solved):
        weights = self.untrained.clone()
        nodes = slice(0, self.trees.levels[solved - 1].stop)
        weights[:, nodes] = 20.0 * self.trees.needed[:, nodes]
        expected = [True] * min(solved + 1, 4) + [False] * (3 - solved)
        assert self.opened(weights, eps_0=1.5) == [expected] * 2

    def test_one_uninformative_node_closes_the_level_above(self):
        weights = 20.0 * self.trees.needed
        weights[1, 3] = 0.0  # of level 1, in the second seed
        assert self.opened(weights, eps_0=1.5) == [[True] * 4, [True, False, False, False]]

    def test_closed_nodes_are_zero_and_get_no_gradient(self):
        trees = forest(d=64, k=16, seeds=2)
        sample = Sample.draw(64, 256, generators(2))
        opened = torch.ones(2, 15, dtype=torch.bool)
        opened[0, 8:], opened[1, 12:] = False, False
        pattern = attention(random_weights(trees), trees.visible("level"))
        values = trees.grown(sample.values(0, 256))
        chain, _ = generate(values[:, :64], pattern, trees.levels, self.link, opened)
        assert chain[0, 64 + 8 :].eq(0).all()
        assert chain[1, 64 + 12 :].eq(0).all()
        assert chain[1, 64 + 8 : 64 + 12].ne(0).any()
        loss, gradient = chain_part(values, pattern, trees.levels, self.link, opened)
        torch.testing.assert_close(loss, (chain - values)[:, 64:].square().sum(-1) / 2)
        assert gradient[~opened].eq(0).all()
        alone, _ = chain_part(values[:, :72], pattern[:, :8], trees.levels[:1], self.link)
        torch.testing.assert_close(loss[:, :8], alone)

    @pytest.mark.parametrize("eps_0", [0.0, 2.0, -1.0])
    def test_an_impossible_distance_is_refused(self, eps_0):
        with pytest.raises(ValueError, match=r"eps_0 must lie in \(0, 2\)"):
            Filter(eps_0)
