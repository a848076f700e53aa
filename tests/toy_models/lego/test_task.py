import itertools

import pytest
import torch

from toy_models.engine.decoder import DecoderConfig
from toy_models.engine.training import TrainConfig, train
from toy_models.lego.task import Lego
from toy_models.task import UNSUPERVISED

TASKS = [Lego(), Lego(group="S5", length=3, n_variables=8, permuted=True), Lego(group="C2xS3", length=1)]
every_task = pytest.mark.parametrize("task", TASKS, ids=repr)


def sampled(task: Lego, size: int = 200, seed: int = 0):
    return task.sample(size, torch.Generator().manual_seed(seed))


@every_task
def test_a_sentence_reads_as_the_paper_writes_it(task):
    """Clause by clause: who stands where, and that the variables link up."""
    batch = sampled(task, 50)
    kinds = {
        "blank": range(1),
        "variable": range(1, task.n_variables + 1),
        "element": range(task.first_element, task.first_state),
        "state": range(task.first_state, task.d_vocab),
    }
    predicate = ["variable", "element", "variable", "blank", "blank"]
    answer = ["blank", "blank", "blank", "variable", "state"]
    for clauses in batch.inputs.tolist():
        assert len(clauses) == 2 * task.length + 1
        for position, clause in enumerate(clauses):
            expected = predicate if position < task.length else answer
            assert all(token in kinds[kind] for token, kind in zip(clause, expected, strict=True))
        chain = [clause[3] for clause in clauses[task.length :]]
        assert len(set(chain)) == task.length + 1
        links = {(clause[2], clause[0]) for clause in clauses[: task.length]}
        assert links == set(itertools.pairwise(chain))
        if not task.permuted:
            assert [clause[0] for clause in clauses[: task.length]] == chain[1:]


@every_task
def test_states_follow_from_the_actions_in_order(task):
    for clauses in sampled(task, 50).inputs.tolist():
        about = {clause[2]: clause for clause in clauses[: task.length]}
        for position in range(task.length, 2 * task.length):
            _, _, _, variable, state = clauses[position]
            head, element, *_ = about[variable]
            image = task.action.action[element - task.first_element][state - task.first_state]
            assert clauses[position + 1] == [0, 0, 0, head, task.first_state + image]


def test_positions_and_dependencies_follow_the_variable():
    task = Lego(group="S3", length=4, n_variables=9, permuted=True)
    batch = sampled(task, 40)
    predicates, mask = task.predicate_positions(batch.inputs), task.dependencies(batch)
    assert task.answer_positions().tolist() == [4, 5, 6, 7] == batch.supervised.tolist()
    for row, clauses in enumerate(batch.inputs.tolist()):
        for answer in range(4):
            (found,) = [p for p in range(4) if clauses[p][2] == clauses[4 + answer][3]]
            assert predicates[row, answer] == found
            assert mask[row, 4 + answer].nonzero().squeeze(-1).tolist() == [found, 4 + answer]
    assert not mask[:, [0, 1, 2, 3, 8]].any()
    ordered = Lego(group="S3", length=4, n_variables=9)
    assert (ordered.predicate_positions(sampled(ordered).inputs) == torch.arange(4)).all()


@every_task
def test_the_next_clause_is_the_next_input(task):
    batch = sampled(task)
    following = task.next_clauses(batch.inputs)
    for position in range(task.n_ctx):
        if task.length <= position < 2 * task.length:
            assert torch.equal(following[:, position], batch.inputs[:, position + 1])
        else:
            assert (following[:, position] == UNSUPERVISED).all()
    assert torch.equal(following[..., 4], batch.targets)


def test_draws_are_uniform():
    """Every count within five standard deviations of its expectation."""
    task, size = Lego(group="S3", length=3, n_variables=5, permuted=True), 6000
    inputs = sampled(task, size).inputs
    draws = {
        "first variable": inputs[:, 3, 3],
        "last variable": inputs[:, -1, 3],
        "action": inputs[:, 1, 1],
        "first state": inputs[:, 3, 4],
        "last state": inputs[:, -1, 4],
        "place of the first predicate": task.predicate_positions(inputs)[:, 0],
    }
    kinds = {"first variable": 5, "last variable": 5, "action": 6}
    for name, values in draws.items():
        n_kinds = kinds.get(name, 3)
        counts = values.unique(return_counts=True)[1]
        assert len(counts) == n_kinds
        spread = (size / n_kinds * (1 - 1 / n_kinds)) ** 0.5
        assert ((counts - size / n_kinds).abs() < 5 * spread).all(), name


def test_the_number_of_inputs_is_counted_exactly():
    """Few enough to see them all: 3 * 2 variables, 2 actions, 2 states; times 1 order."""
    task = Lego(group="C2", length=1, n_variables=3)
    assert task.n_inputs == 24
    assert len(sampled(task, 2000).inputs.unique(dim=0)) == 24
    permuted = Lego(group="C2", length=2, n_variables=3, permuted=True)
    assert permuted.n_inputs == 6 * 4 * 2 * 2
    assert len(sampled(permuted, 4000).inputs.unique(dim=0)) == 96


def test_the_vocabulary():
    assert Lego(group="S5").d_vocab == 1 + 170 + 120 + 5
    assert Lego(group="S5").table.shape == (120, 5)


def test_bad_tasks_are_refused():
    with pytest.raises(ValueError, match="names 6 different variables, got n_variables=5; take at least 6"):
        Lego(length=5, n_variables=5)
    with pytest.raises(ValueError, match="length of at least 1, got 0"):
        Lego(length=0)
    with pytest.raises(ValueError, match="unknown group 'Z6'"):
        Lego(group="Z6")


def test_a_decoder_of_tokens_says_that_it_cannot_train_on_clauses():
    with pytest.raises(ValueError, match=r"a position of lego has \[5\] features"):
        train(Lego(), DecoderConfig(), TrainConfig(n_validation=4, n_test=4))
