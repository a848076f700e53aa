"""Is the k-fold task what the paper says? Labels against literal composition, masks against the definition."""

import pytest
import torch

from toy_models.kfold.cot_task import KFoldCot
from toy_models.kfold.task import KFold, hidden_permutations, hop_results
from toy_models.task import UNSUPERVISED, is_causal


def sampled(task, size: int = 8, seed: int = 0):
    return task.sample(size, torch.Generator().manual_seed(seed))


def composed(values: list[list[int]], hidden, i: int, j: int, hop: int) -> int:
    """hop_i^r(j) = sigma_{i+r-1} pi_{i+r-1} ... sigma_i pi_i (j), permutation by permutation."""
    k, x = len(values), j
    for step in range(i, i + hop):
        x = values[step % k][hidden[step % k][x]]
    return x


@pytest.mark.parametrize(("k", "n"), [(1, 3), (2, 3), (8, 5), (16, 4)])
def test_doubling_equals_literal_composition_for_every_hop_and_position(k, n):
    task = KFold(k=k, n=n, cyclic=True, hidden_seed=3)
    batch = sampled(task, 4)
    results = task.results(batch.inputs)
    for row, tokens in enumerate(batch.inputs.view(-1, k, n).tolist()):
        for index, hop in enumerate(task.hops):
            expected = [composed(tokens, task.hidden, i, j, hop) for i in range(k) for j in range(n)]
            assert results[row, index].tolist() == expected


@pytest.mark.parametrize("hop", [3, 5, 6, 7])
def test_hops_between_the_powers_of_two(hop):
    task = KFold(k=8, n=4, cyclic=True, hidden_seed=2)
    values = sampled(task, 3).inputs.view(-1, 8, 4)
    found = hop_results(values, torch.tensor(task.hidden), hop)
    for row, tokens in enumerate(values.tolist()):
        expected = [[composed(tokens, task.hidden, i, j, hop) for j in range(4)] for i in range(8)]
        assert found[row].tolist() == expected


def test_the_first_permutations_queries_are_the_papers_f():
    """f_pi(sigma, x) = sigma_k pi_k ... sigma_1 pi_1 (x), with no wrap around."""
    task = KFold(k=4, n=5, hidden_seed=1)
    batch = sampled(task, 16)
    assert batch.supervised.tolist() == [0, 1, 2, 3, 4]
    for tokens, targets in zip(batch.inputs.view(-1, 4, 5).tolist(), batch.answers.tolist()):
        for x in range(5):
            y = x
            for sigma, pi in zip(tokens, task.hidden):
                y = sigma[pi[y]]
            assert targets[x] == y


def test_cyclic_targets_extend_the_plain_ones():
    plain, cyclic = sampled(KFold(hidden_seed=2)), sampled(KFold(hidden_seed=2, cyclic=True))
    assert torch.equal(plain.inputs, cyclic.inputs)
    assert torch.equal(plain.targets[:, :5], cyclic.targets[:, :5])
    assert (plain.targets[:, 5:] == UNSUPERVISED).all()
    assert (cyclic.targets != UNSUPERVISED).all()


def test_inputs_and_hidden_are_permutations_and_the_seed_draws_the_hidden():
    task = KFold(k=8, n=6, hidden_seed=5)
    values = sampled(task, 32).inputs.view(32, 8, 6)
    assert torch.equal(values.sort(-1).values, torch.arange(6).expand(32, 8, 6))
    assert all(sorted(pi) == list(range(6)) for pi in task.hidden)
    assert task.hidden == hidden_permutations(8, 6, 5) != KFold(k=8, n=6, hidden_seed=6).hidden


def test_a_hop_token_selects_the_hop_of_its_sequence():
    task = KFold(k=4, n=5, cyclic=True, hop_token=True, hidden_seed=4)
    batch = sampled(task, 64)
    assert set(batch.inputs[:, 0].tolist()) == {5, 6, 7}
    results = task.results(batch.inputs)
    for row in range(64):
        assert torch.equal(batch.targets[row, 1:], results[row, batch.inputs[row, 0] - 5])
    assert (batch.targets[:, 0] == UNSUPERVISED).all()


def test_each_layer_of_the_construction_composes_the_one_before():
    """The key that layer l looks at holds the second half of the next hop."""
    task = KFold(k=8, n=5, cyclic=True, hidden_seed=1)
    batch = sampled(task)
    results = task.results(batch.inputs)
    first = task.layer_dependencies(batch, 0)
    assert (first.sum(-1) == 1).all()
    looked_at = first.float() @ batch.inputs.float()[..., None]
    assert torch.equal(looked_at[..., 0].long(), results[:, 0])
    for layer in range(1, 4):
        mask = task.layer_dependencies(batch, layer)
        assert (mask.sum(-1) == 1).all()
        looked_at = mask.float() @ results[:, layer - 1].float()[..., None]
        assert torch.equal(looked_at[..., 0].long(), results[:, layer])
        key = mask.long().argmax(-1)
        own = torch.arange(40)
        assert torch.equal(key // 5, ((own // 5 + 2 ** (layer - 1)) % 8).expand_as(key))
        assert torch.equal(key % 5, results[:, layer - 1])


def test_layer_masks_leave_the_hop_token_out():
    told = KFold(hop_token=True, cyclic=True)
    mask = told.layer_dependencies(sampled(told), 1)
    assert mask.shape == (8, 21, 21)
    assert not mask[:, 0].any()
    assert not mask[:, :, 0].any()
    assert (mask[:, 1:].sum(-1) == 1).all()


def test_the_chain_of_thought_ends_in_the_answer_of_the_plain_task():
    chain = KFoldCot(k=4, n=5, hidden_seed=7)
    plain = KFold(k=4, n=5, hidden_seed=7)
    assert chain.hidden == plain.hidden
    batch = sampled(chain, 32)
    tokens, query = batch.inputs[:, :20], batch.inputs[:, 20]
    answers = plain.results(tokens)[torch.arange(32), :, query]  # [batch hop]
    assert torch.equal(batch.answers[:, [0, 1, 3]], answers)
    short = sampled(KFoldCot(k=4, n=5, hidden_seed=7, cot=False), 32)
    assert torch.equal(short.inputs, batch.inputs[:, :21])
    assert torch.equal(short.answers[:, 0], batch.answers[:, -1])


def test_only_the_chain_is_for_a_decoder():
    assert is_causal(KFoldCot())
    assert not is_causal(KFold())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KFold(k=6), "powers of two"),
        (lambda: KFold(k=4, hop=8), "hop <= k"),
        (lambda: KFold(n=1), "n >= 2"),
        (lambda: KFold(k=2, n=3, hidden=((0, 1, 1), (0, 1, 2))), "must be 2 permutations of 0..2"),
        (lambda: KFoldCot(k=2, n=3, hidden=((0, 1, 2),)), "must be 2 permutations of 0..2"),
        (lambda: KFold().layer_dependencies(sampled(KFold()), 3), "layers 0 to 2"),
        (lambda: hop_results(torch.zeros(1, 4, 3).long(), torch.zeros(4, 3).long(), 0), "at least 1"),
    ],
)
def test_bad_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
