"""The tree parity task: trees by hand, and what it refuses."""

import pytest
import torch

from toy_models.task import UNSUPERVISED
from toy_models.tree_parity.task import TreeParity


def test_the_tree_of_the_papers_figure():
    """Figure 1: d = 16, k = 8, and x_17 = x_1 x_4; positions here count from 0."""
    task = TreeParity(d=16, k=8, secret=(0, 3, 4, 6, 9, 10, 12, 15))
    assert task.children == ((0, 3), (4, 6), (9, 10), (12, 15), (16, 17), (18, 19), (20, 21))


def test_a_chain_by_hand():
    task = TreeParity(d=5, k=4, secret=(4, 0, 2, 1))
    batch = task.sample(64, torch.Generator().manual_seed(0))
    for tokens, targets in zip(batch.inputs.tolist(), batch.targets.tolist()):
        left, right = tokens[4] ^ tokens[0], tokens[2] ^ tokens[1]
        assert tokens[5:] == [left, right]
        assert targets == [UNSUPERVISED] * 4 + [left, right, left ^ right]


@pytest.mark.parametrize("cot", [True, False])
@pytest.mark.parametrize(("d", "k"), [(2, 2), (5, 4), (16, 16)])
def test_the_last_answer_is_the_parity_of_the_secret_bits(d, k, cot):
    task = TreeParity(d=d, k=k, cot=cot, secret_seed=3)
    batch = task.sample(200, torch.Generator().manual_seed(0))
    assert torch.equal(batch.targets[:, -1], batch.inputs[:, list(task.secret)].sum(-1) % 2)


def test_dependencies_by_hand():
    chain = TreeParity(d=5, k=4, secret=(0, 2, 3, 4))
    mask = chain.dependencies(chain.sample(1, torch.Generator()))[0]
    assert mask.nonzero().tolist() == [[4, 0], [4, 2], [5, 3], [5, 4], [6, 5], [6, 6]]
    answer = TreeParity(d=5, k=4, secret=(0, 2, 3, 4), cot=False)
    mask = answer.dependencies(answer.sample(1, torch.Generator()))[0]
    assert mask.nonzero().tolist() == [[4, 0], [4, 2], [4, 3], [4, 4]]


def test_the_seed_draws_the_secret():
    drawn = {TreeParity(secret_seed=seed).secret for seed in range(20)}
    assert len(drawn) > 15
    assert all(list(secret) == sorted(set(secret)) for secret in drawn)


@pytest.mark.parametrize(("d", "k"), [(8, 1), (8, 6), (8, 16), (8, 0)])
def test_an_impossible_k_is_refused(d, k):
    with pytest.raises(ValueError, match=rf"k = 2, 4, 8, ... of d bits, got k={k} of d={d}"):
        TreeParity(d=d, k=k)


@pytest.mark.parametrize("secret", [(0, 0), (0, 5), (-1, 2), (1,), (1, 2, 3)])
def test_an_impossible_secret_is_refused(secret):
    with pytest.raises(ValueError, match=r"2 distinct positions in 0\.\.4"):
        TreeParity(d=5, k=2, secret=secret)
