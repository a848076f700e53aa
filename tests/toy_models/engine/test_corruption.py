"""Corrupted pairs and intermediate states of every task, by the task's own brute force."""

import pytest
import torch

from probes.attention.dependence import without_self
from toy_models.engine.corruption import corrupted_pairs
from toy_models.incontext.task import IncontextCot
from toy_models.kfold.cot_task import KFoldCot
from toy_models.kfold.task import KFold
from toy_models.lego.task import Lego
from toy_models.parity.task import Parity
from toy_models.task import intermediate_states
from toy_models.tree_parity.task import TreeParity

TASKS = [Parity(n=8, k=3), Parity(n=8, k=3, cot=False), TreeParity(d=8, k=4), KFoldCot(k=3, n=4)]


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_a_pair_differs_in_one_dependency_of_the_step(task):
    batch = task.sample(40, torch.Generator().manual_seed(0))
    for query in batch.supervised.tolist():
        pairs = corrupted_pairs(task, batch, query, torch.Generator().manual_seed(1))
        differs = pairs.corrupted.inputs != batch.inputs
        assert (differs.sum(-1) == 1).all()
        assert torch.equal(differs.int().argmax(-1), pairs.key)
        needed = without_self(task.dependencies(batch))[torch.arange(40), query]
        assert (needed & differs).any(-1).all()
        assert torch.equal(pairs.corrupted.targets, task.solve(pairs.corrupted.inputs))
        assert torch.equal(pairs.changed, pairs.corrupted.targets[:, query] != batch.targets[:, query])
        assert pairs.changed.any()
        if task.d_vocab == 2:
            assert pairs.changed.all(), "one flipped bit turns a parity round"


def test_what_cannot_be_corrupted_is_refused():
    task = Parity(n=8, k=3)
    batch = task.sample(4, torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="position 2 depends on no other"):
        corrupted_pairs(task, batch, 2, torch.Generator())
    clauses = Lego("C3", 3, 8)
    with pytest.raises(ValueError, match="give at least two"):
        corrupted_pairs(clauses, clauses.sample(1, torch.Generator().manual_seed(0)), 3, torch.Generator())


@pytest.mark.parametrize("task", [Lego("C3", 3, 8), IncontextCot(12, 6, 4, 2, 4)], ids=lambda task: task.name)
def test_what_is_no_token_comes_from_another_input(task):
    batch = task.sample(40, torch.Generator().manual_seed(0))
    for query in batch.supervised.tolist():
        pairs = corrupted_pairs(task, batch, query, torch.Generator().manual_seed(1))
        differs = (pairs.corrupted.inputs != batch.inputs).flatten(2).any(-1)  # [batch pos]
        row = torch.arange(40)
        assert not differs.scatter(1, pairs.key[:, None], False).any(), "no other position is touched"
        assert differs.any(-1).double().mean() > 0.5
        assert without_self(task.dependencies(batch))[row, query, pairs.key].all()
        now = pairs.corrupted.inputs[row, pairs.key]
        there = batch.inputs[:, pairs.key].transpose(0, 1)  # [batch, what every input has there]
        assert (now[:, None] == there).flatten(2).all(-1).any(-1).all()
        assert torch.equal(pairs.corrupted.targets, task.solve(pairs.corrupted.inputs))


@pytest.mark.parametrize(
    ("written", "unwritten"),
    [
        (Parity(n=8, k=3), Parity(n=8, k=3, cot=False)),
        (TreeParity(d=8, k=4), TreeParity(d=8, k=4, cot=False)),
        (KFoldCot(k=3, n=4), KFoldCot(k=3, n=4, cot=False)),
    ],
)
def test_states_are_the_steps_of_the_chain_written_or_not(written, unwritten):
    """The same problem with and without CoT: with it the states are the answers, solved by brute force."""
    batch = written.sample(30, torch.Generator().manual_seed(0))
    states = intermediate_states(written, batch)
    assert torch.equal(states, written.solve(batch.inputs)[:, batch.supervised])
    hidden = unwritten.sample(30, torch.Generator().manual_seed(0))
    assert torch.equal(intermediate_states(unwritten, hidden), states)


def test_a_task_without_states_gives_its_answers():
    task = KFold(k=2, n=3)
    assert not hasattr(task, "states")
    batch = task.sample(5, torch.Generator().manual_seed(0))
    assert torch.equal(intermediate_states(task, batch), batch.answers)


def test_a_clause_is_exchanged_for_another_one():
    task = Lego("C3", 3, n_variables=4)
    batch = task.sample(64, torch.Generator().manual_seed(0))
    for query in batch.supervised.tolist():
        pairs = corrupted_pairs(task, batch, query, torch.Generator().manual_seed(1))
        differs = (pairs.corrupted.inputs != batch.inputs).any(-1)
        assert (differs.sum(-1) == 1).all(), "every input is corrupted, at one position"
        assert torch.equal(differs.int().argmax(-1), pairs.key)
