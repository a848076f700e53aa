"""Theorem 3's training: the fast step against autograd on the hooked block, the lemmas, and bounds by brute force."""

import copy
import math

import pytest
import torch

from toy_models.parity import every_input_checks as checks
from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock
from toy_models.parity.three_steps import (
    assumption_2,
    every_sequence,
    hinge_loss,
    initial_block,
    lr_for_score,
    sgd_update,
    steps_of,
    tables,
)
from toy_models.task import Batch

TASK = Parity(n=6, k=3, secret=(4, 0, 2))


def started(task: Parity = TASK, d_model: int = 64, m: int = 16, eps: float = 2.0, seed: int = 0) -> SimplifiedBlock:
    return initial_block(task, d_model, m, eps, torch.Generator().manual_seed(seed))


def shaken(scale: float = 0.5) -> SimplifiedBlock:
    """A block in general position."""
    block, generator = started(), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in (block.A, block.W):
            weight += scale * torch.randn(weight.shape, generator=generator)
    return block


def correlation(block: SimplifiedBlock, task: Parity = TASK) -> checks.Correlation:
    return checks.correlation(tables(block, steps_of(task), task.n_ctx), block.h, task)


def distance_to_one_hot(block: SimplifiedBlock) -> float:
    return checks.distance_to_one_hot(tables(block, steps_of(TASK), TASK.n_ctx), TASK)


def worst_margin(block: SimplifiedBlock) -> float:
    return checks.worst_margin(tables(block, steps_of(TASK), TASK.n_ctx), block.h, TASK)


def step_accuracy(block: SimplifiedBlock, batch: Batch) -> tuple[float, float]:
    return checks.step_accuracy(tables(block, steps_of(TASK), TASK.n_ctx), block.h, batch)


def sampled(size: int, task: Parity = TASK, seed: int = 1) -> Batch:
    return task.sample(size, torch.Generator().manual_seed(seed))


@torch.enable_grad()
def trained(steps: int = 3) -> SimplifiedBlock:
    """Three steps that work for a small problem."""
    block = started(d_model=1024, m=256, eps=5.0)
    lr = lr_for_score(60.0, TASK.n, 256)
    for step in range(steps):
        sgd_update(block, sampled(4096, seed=10 + step), lr if step < 2 else 4 * 5.0 * 256 / 3)
    return block


@torch.no_grad()
def test_the_initialisation_is_assumption_1():
    block = started(d_model=4096, m=16)
    assert not block.A.any()
    assert not block.W[:, 4096:].any()
    assert block.h.tolist() == [1 / 32] * 16 + [-1 / 32] * 16
    coefficients = torch.linalg.lstsq(block.embedding[TASK.n :].flatten(0, 1).T, block.W[:, :4096].T).solution
    assert torch.allclose(coefficients.abs(), torch.full((2 * TASK.k, 32), 2.0).double())
    assert 0.3 < (coefficients > 0).double().mean() < 0.7


def test_every_sequence_is_every_input_with_its_answers():
    batch = every_sequence(TASK)
    assert len(batch.inputs[:, : TASK.n].unique(dim=0)) == 2**TASK.n
    assert torch.equal(batch.targets, TASK.solve(batch.inputs))


def test_the_hinge_loss_by_hand():
    outputs = torch.tensor([[0.5, -3.0], [2.0, 0.25]])
    answers = torch.tensor([[1, 1], [1, 0]])
    assert hinge_loss(outputs, answers).item() == pytest.approx(((0.5 + 4.0) + (0.0 + 1.25)) / 2)


@pytest.mark.parametrize("size", [1, 50, 6000])  # 6000 x 3 rows of 32 neurons are more than one chunk
def test_the_fast_step_is_sgd_on_the_hooked_block(size):
    fast, batch, lr = shaken(), sampled(size), 30.0
    slow = copy.deepcopy(fast)
    before = copy.deepcopy(slow)
    loss = hinge_loss(slow(batch.inputs)[:, batch.supervised], batch.answers)
    loss.backward()
    torch.optim.SGD(slow.parameters(), lr=lr).step()
    assert sgd_update(fast, batch, lr) == pytest.approx(loss.item())
    for name in ("A", "W"):
        assert (getattr(slow, name) - getattr(before, name)).abs().max() > 1e-3
        assert torch.allclose(getattr(fast, name), getattr(slow, name), atol=1e-12)


@torch.no_grad()
def test_the_first_step_is_lemmas_8_12_and_14():
    """A stays 0; W moves by signed sums over samples and steps, the active neurons being those of the token."""
    block, batch, lr = started(), sampled(300), 0.7
    d_model, before = 64, copy.deepcopy(block)
    active = before.embedding[TASK.n :] @ before.W[:, :d_model].T > 0  # [step token neuron]
    token_part, attended = torch.zeros_like(block.W[:, :d_model]), torch.zeros_like(block.W[:, :d_model])
    for tokens, answers in zip(batch.inputs.tolist(), batch.answers.tolist()):
        for step, y in enumerate(answers):
            i = TASK.n + step
            gradient = (-1) ** y * before.h * active[step, tokens[i]]
            token_part += torch.outer(gradient, block.embedding[i, tokens[i]])
            mean = block.embedding[torch.arange(i + 1), tokens[: i + 1]].mean(0)
            attended += torch.outer(gradient, mean)
    with torch.enable_grad():
        sgd_update(block, batch, lr)
    assert not block.A.any()
    change = block.W - before.W
    assert torch.allclose(change[:, :d_model], -lr * token_part / 300, atol=1e-12)
    assert torch.allclose(change[:, d_model:], -lr * attended / 300, atol=1e-12)


def test_three_steps_learn_a_small_problem_phase_by_phase():
    first, second, third = (trained(steps=steps) for steps in (1, 2, 3))
    assert correlation(started()).parity_hit == 0
    assert correlation(first).parity_hit == 1
    assert distance_to_one_hot(first) == pytest.approx(1 - 1 / 9)  # uniform over 9 keys at the last step
    assert distance_to_one_hot(second) < 1e-4
    assert worst_margin(third) > 0
    assert worst_margin(third) > worst_margin(second)
    assert step_accuracy(third, every_sequence(TASK)) == (1.0, 1.0)


def test_the_first_secret_bit_leaks_into_every_later_step():
    """Lemma 18's cancellation misses the first step: twice the influence of S[i], times i / (n + 1)."""
    block = started(d_model=4096, m=1024)
    sgd_update(block, sampled(20_000), 100.0)
    expected = sum(2 * i / (TASK.n + 1) for i in (TASK.n + 2, TASK.n + 3)) / 2
    assert correlation(block).first_over_own == pytest.approx(expected, rel=0.15)
    assert correlation(block).hit == pytest.approx(1 / 5)  # only the first step's one reachable case


@torch.no_grad()
def test_the_distance_is_the_worst_over_every_input_or_a_little_more():
    for block in (shaken(), trained(steps=2)):
        batch = every_sequence(TASK)
        _, cache = block.run_with_cache(batch.inputs)
        pattern = cache["blocks.0.attn.hook_pattern"][:, 0, batch.supervised]
        one_hot = torch.zeros_like(pattern)
        one_hot[:, torch.arange(TASK.k), list(TASK.secret)] = 1
        worst = (pattern - one_hot).abs().max().item()
        assert worst <= distance_to_one_hot(block) * (1 + 1e-9)
        assert worst > 0.1 * distance_to_one_hot(block)  # the chain's tokens are not free, as the bound has it


@torch.no_grad()
def test_the_margin_bounds_every_input():
    batch = every_sequence(TASK)
    for block in (started(), shaken(), trained(steps=2), trained()):
        margins = (2 * batch.answers - 1) * block(batch.inputs)[:, batch.supervised]
        assert worst_margin(block) <= margins.min().item() + 1e-12
    assert worst_margin(block) == pytest.approx(margins.min().item(), rel=0.01)  # one-hot: the bound is sharp


@torch.no_grad()
def test_the_accuracy_counts_sequences_and_tokens():
    block, batch = shaken(), sampled(1500)
    right = (block(batch.inputs)[:, batch.supervised] > 0) == (batch.answers == 1)
    expected = (right.all(-1).double().mean().item(), right.double().mean().item())
    assert step_accuracy(block, batch) == pytest.approx(expected)
    assert 0 < expected[0] < expected[1] < 1


def test_assumption_2_by_hand():
    log = math.log(160)
    found = assumption_2(16, 4, 0.1, 10.0)
    assert found["m"] == 8
    assert found["d_model"] == pytest.approx(4 * log**1.1)
    assert found["batch"] == pytest.approx(2.6324e20, rel=1e-4)
    assert found["lr_0"] == found["lr_1"] == pytest.approx(8 * 10 * math.sqrt(found["batch"]) / (100 * log))
    assert found["lr_2"] == pytest.approx(160 / 3)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="got a task without: use"):
        started(Parity(n=4, k=2, cot=False))
    with pytest.raises(ValueError, match="eps positive, got m=16 and eps=0"):
        started(eps=0.0)
    task = Parity(n=4, k=1)
    with pytest.raises(ValueError, match="k must be at least 2, got 1"):
        correlation(started(task), task)
