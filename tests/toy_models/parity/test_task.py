"""The parity task: sequences by hand, secrets, and what it refuses."""

import itertools

import pytest
import torch

from toy_models.parity.task import Parity
from toy_models.task import UNSUPERVISED


def tokens_and_targets(task: Parity, size: int = 64) -> list[tuple[list[int], list[int]]]:
    batch = task.sample(size, torch.Generator().manual_seed(0))
    return list(zip(batch.inputs.tolist(), batch.targets.tolist()))


def test_a_chain_by_hand():
    task = Parity(n=4, k=3, secret=(2, 0, 3))
    for tokens, targets in tokens_and_targets(task):
        bits, first = tokens[:4], tokens[2]
        second = first ^ bits[0]
        assert tokens[4:] == [0, first, second], "the end token, then the running parities"
        assert targets == [UNSUPERVISED] * 4 + [first, second, second ^ bits[3]]


def test_an_answer_by_hand():
    task = Parity(n=4, k=3, secret=(2, 0, 3), cot=False)
    for tokens, targets in tokens_and_targets(task):
        assert tokens[4:] == [0]
        assert targets == [UNSUPERVISED] * 4 + [(tokens[2] + tokens[0] + tokens[3]) % 2]


@pytest.mark.parametrize("cot", [True, False])
def test_the_last_answer_is_the_parity_with_and_without_cot(cot):
    task = Parity(n=9, k=4, cot=cot, secret_seed=5)
    for tokens, targets in tokens_and_targets(task):
        assert targets[-1] == sum(tokens[s] for s in task.secret) % 2


def test_every_input_occurs_and_bits_are_balanced():
    task = Parity(n=3, k=1)
    found = [tuple(tokens[:3]) for tokens, _ in tokens_and_targets(task, 4000)]
    counts = [found.count(bits) for bits in itertools.product((0, 1), repeat=3)]
    assert sum(counts) == 4000
    assert all(400 < count < 600 for count in counts)  # 500 expected, standard deviation 21


def test_the_seed_draws_the_secret():
    drawn = {Parity(n=30, k=3, secret_seed=seed).secret for seed in range(20)}
    assert len(drawn) > 15
    assert Parity(n=30, k=3, secret_seed=4) == Parity(n=30, k=3, secret_seed=4)
    assert all(list(secret) == sorted(set(secret)) and len(secret) == 3 for secret in drawn)


def test_a_random_order_permutes_the_same_set():
    seeds = range(10)
    ascending = [Parity(n=12, k=5, secret_seed=s).secret for s in seeds]
    shuffled = [Parity(n=12, k=5, secret_seed=s, order="random").secret for s in seeds]
    assert [sorted(s) for s in shuffled] == [list(s) for s in ascending]
    assert shuffled != ascending


def test_a_given_secret_keeps_its_order():
    assert Parity(n=5, k=3, secret=(4, 0, 2)).secret == (4, 0, 2)


@pytest.mark.parametrize("k", [-1, 0, 6])
def test_an_impossible_k_is_refused(k):
    with pytest.raises(ValueError, match=rf"1 <= k <= n, got k={k} secret bits of n=5"):
        Parity(n=5, k=k)


@pytest.mark.parametrize("secret", [(0, 0), (0, 5), (-1, 2), (1,), (1, 2, 3)])
def test_an_impossible_secret_is_refused(secret):
    with pytest.raises(ValueError, match=r"2 distinct positions in 0\.\.4"):
        Parity(n=5, k=2, secret=secret)


def test_dependencies_by_hand():
    chain = Parity(n=3, k=2, secret=(2, 0))
    mask = chain.dependencies(chain.sample(1, torch.Generator()))[0]
    assert mask.nonzero().tolist() == [[3, 2], [3, 3], [4, 0], [4, 4]]
    answer = Parity(n=3, k=2, secret=(2, 0), cot=False)
    mask = answer.dependencies(answer.sample(1, torch.Generator()))[0]
    assert mask.nonzero().tolist() == [[3, 0], [3, 2]]
