"""What the lemmas bound, against autograd, enumeration and closed forms; and the bounds themselves."""

from functools import partial
from itertools import combinations

import pytest
import torch
from torch.autograd.functional import jacobian

from toy_models.tree_parity import lemmas
from toy_models.tree_parity.forest import Forest, Sample
from toy_models.tree_parity.gradient import forced_gradients
from toy_models.tree_parity.links import LINKS
from toy_models.tree_parity.secrets import every_input, mean_parity
from toy_models.tree_parity.task import TreeParity
from toy_models.tree_parity.theory_model import attention

LINK = LINKS["cosine"]


def trees(d: int = 6, k: int = 4, seeds: int = 2) -> Forest:
    return Forest.of([TreeParity(d=d, k=k, secret_seed=seed) for seed in range(seeds)])


def drawn(forest: Forest, n: int) -> torch.Tensor:
    streams = [torch.Generator().manual_seed(seed) for seed in range(forest.n_seeds)]
    return forest.grown(Sample.draw(forest.d, n, streams).values(0, n))


def random_weights(forest: Forest) -> torch.Tensor:
    return 2 * torch.randn(forest.no_weights().shape, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("own_chain", [False, True])
def test_the_norms_of_gradients_are_autograds(own_chain):
    forest = trees()
    values, weights = drawn(forest, 5), random_weights(forest)
    visible = forest.visible("level" if own_chain else "position")

    def nodes(weights: torch.Tensor, chain: torch.Tensor) -> torch.Tensor:
        pattern = attention(weights, visible)
        if not own_chain:
            return LINK(pattern @ chain[:-1])
        chain = chain[: forest.d]
        for level in forest.levels:
            chain = torch.cat([chain, LINK(pattern[level, : len(chain)] @ chain)])
        return chain[forest.d :]

    by_hand = [
        max(jacobian(partial(nodes, chain=chain), own).norm().item() for chain in of_seed.T)
        for of_seed, own in zip(values, weights)
    ]
    norm = lemmas.chain_norm if own_chain else lemmas.forced_norm
    found = norm(weights, forest, values[:, : forest.d] if own_chain else values, LINK)
    assert found.tolist() == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.parametrize("link", LINKS.values(), ids=lambda link: link.name)
@pytest.mark.parametrize("scale", [0.0, 1.0, 8.0])
def test_lemmas_4_and_6_hold(link, scale):
    forest = trees(9, 8)
    values, weights = drawn(forest, 64), scale * random_weights(trees(9, 8))
    assert (lemmas.forced_norm(weights, forest, values, link) <= lemmas.forced_bound(8, link)).all()
    assert (lemmas.chain_norm(weights, forest, values[:, :9], link) <= lemmas.chain_bound(8, link)).all()


@pytest.mark.parametrize("link", LINKS.values(), ids=lambda link: link.name)
def test_sparse_weights_reach_the_closed_form_and_more_than_gaussian_ones(link):
    """Masses a and 1 - a on +1 and -1: a gradient of |phi'(z)| sqrt(8) a (1 - a) with z = 2 a - 1."""
    forest = trees(9, 2)
    values = drawn(forest, 64)
    found = lemmas.forced_norm(lemmas.sparse_weights(forest, link), forest, values, link)
    means = torch.linspace(0, 1, 1001)
    steep = means[link.value_and_slope(means)[1].abs().argmax()].item()
    expected = link.steepest * 8**0.5 * (1 - steep**2) / 4
    assert found.tolist() == pytest.approx([expected] * 2, rel=1e-2)
    assert found.max() > lemmas.forced_norm(random_weights(forest), forest, values, link).median()
    forest = trees(9, 8)
    values, weights = drawn(forest, 64), lemmas.sparse_weights(trees(9, 8), link)
    assert (lemmas.forced_norm(weights, forest, values, link) <= lemmas.forced_bound(8, link)).all()
    assert (lemmas.chain_norm(weights, forest, values[:, :9], link) <= lemmas.chain_bound(8, link)).all()


@pytest.mark.parametrize("k", [2, 3, 8])
def test_the_mean_of_all_parities_is_that_of_enumerated_secrets(k):
    minus = (every_input(8) < 0).sum(1)
    assert mean_parity(8, k).tolist() == pytest.approx([lemmas.mean_of_parities(8, k, m) for m in minus.tolist()])


def test_lemma_8_holds_where_it_is_claimed_and_not_at_k_equal_d():
    for d, k in ((16, 8), (64, 16), (128, 64)):
        bound, claimed = lemmas.parities_bound(d, k)
        assert max(abs(lemmas.mean_of_parities(d, k, m)) for m in claimed) <= bound
        assert len(claimed) > 1
    assert abs(lemmas.mean_of_parities(64, 64, 32)) == 1
    with pytest.raises(ValueError, match="take d - k, the complement"):
        lemmas.parities_bound(16, 16)


def test_interactions_are_those_of_enumerated_tuples():
    forest = trees(5, 4)
    values, exact = drawn(forest, 50), forest.grown(every_input(5).T.float().expand(2, -1, -1).contiguous())
    by_hand = []
    for seed in range(2):
        sets = [c for r in (1, 2, 3, 4) for c in combinations(range(values.shape[1]), r)]
        proper = [c for c in sets if not (exact[seed, list(c)].prod(0) == 1).all()]
        assert len(proper) < len(sets)  # a node and its children are trivial
        by_hand.append(max(values[seed, list(c)].prod(0).mean().abs().item() for c in proper))
    assert lemmas.largest_interaction(forest, values).tolist() == pytest.approx(by_hand)


def test_lemmas_9_and_10_hold_on_samples():
    forest = trees(16, 8)
    values = drawn(forest, 2048)
    assert (lemmas.largest_interaction(forest, values) <= lemmas.interaction_bound(16, 2048, 0.1)).all()
    assert (lemmas.largest_mean(forest, values) <= lemmas.mean_bound(16, 2048)).all()
    assert lemmas.largest_mean(forest, torch.ones(2, 23, 4)).tolist() == [1.0, 1.0]


def test_beyond_the_leading_term_is_what_an_exact_gradient_leaves():
    forest = trees(12, 4, seeds=1)
    leading = torch.zeros(1, 3, 14)
    for node, (left, right) in enumerate(forest.children[0].tolist()):
        leading[0, node, [left, right]] = -2 * LINK.curvature / (12 + node) ** 2
    assert lemmas.beyond_leading(leading, forest, LINK).item() == pytest.approx(0, abs=1e-6)
    assert lemmas.beyond_leading(leading + 0.5, forest, LINK).item() == pytest.approx(72)
    (_, gradient), *_ = forced_gradients(forest.no_weights(), forest, Sample.every_input(12, 1), LINK)
    assert lemmas.beyond_leading(gradient, forest, LINK).item() < 2 * LINK.curvature  # smaller than the signal
