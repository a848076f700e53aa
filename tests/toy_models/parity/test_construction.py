"""Theorem 1's weights: the lemmas they rest on, every input, and what rounding does."""

import itertools

import numpy as np
import pytest
import torch

from toy_models.parity.construction import (
    _zigzag,
    answers_right,
    as_dtype,
    every_input,
    parity_construction,
    proof_d_model,
    proven_margin,
    rounded,
    spread_inputs,
)
from toy_models.parity.task import Parity

DEPENDENT = 0
"""A seed whose two embeddings of position 0 are parallel at d_model=2."""


def construction(n: int = 8, k: int = 3, seed: int = 0, d_model: int = 0):
    task = Parity(n=n, k=k, cot=False, secret_seed=seed)
    generator = torch.Generator().manual_seed(seed)
    return task, parity_construction(task, d_model or proof_d_model(n, k, 0.1), generator)


@pytest.mark.parametrize("k", range(1, 12))
def test_the_zigzag_is_parity(k):
    a, h = _zigzag(k)
    assert len(a) == len(h) == 2 * (k + 1)
    counts = torch.arange(k + 1)
    values = (torch.relu(a + 2 * counts[:, None]) * h).sum(-1)
    assert values.tolist() == [-1.0 if s % 2 == 0 else 1.0 for s in range(k + 1)]


@torch.no_grad()
def test_attention_is_even_over_the_secret_and_reads_the_count():
    task, made = construction()
    bits = every_input(task.n)
    inputs = torch.cat([bits, torch.zeros(len(bits), 1, dtype=torch.long)], -1)
    _, cache = made.block.run_with_cache(inputs)
    pattern = cache["blocks.0.attn.hook_pattern"][:, 0, task.n]
    even = torch.zeros(task.n + 1).double()
    even[list(task.secret)] = 1 / task.k
    assert (pattern - even).abs().max() < task.n**-7
    parity = bits[:, list(task.secret)].sum(-1) % 2
    assert torch.allclose(made.block(inputs)[:, task.n], (2 * parity - 1).double())


@torch.no_grad()
@pytest.mark.parametrize(("n", "k", "seed"), [(6, 1, 0), (7, 7, 1), (8, 4, 2), (10, 5, 3)])
def test_every_input_is_right_in_the_hooked_model_and_by_tables(n, k, seed):
    task, made = construction(n, k, seed)
    bits = every_input(n)
    assert answers_right(made.block, task, bits) == 2**n
    inputs = torch.cat([bits, torch.zeros(len(bits), 1, dtype=torch.long)], -1)
    predicted = (made.block(inputs)[:, n] > 0).long()
    assert torch.equal(predicted, task.solve(inputs)[:, n])
    assert proven_margin(made, task) > 0.9


@torch.no_grad()
def test_the_numbers_of_lemmas_1_and_4():
    task, made = construction(12, 4)
    assert 1 / 12 < made.smallest_eigenvalue < 1
    V = made.block.A @ made.block.embedding[task.n, 0] / (40 * np.log(12))
    overlaps = {(j, b): float(made.block.embedding[j, b] @ V) for j in range(13) for b in range(2)}
    assert made.largest_overlap == pytest.approx(
        max(abs(v) for (j, _), v in overlaps.items() if j not in task.secret)
    )
    assert all(overlaps[j, b] == pytest.approx(1) for j in task.secret for b in range(2))


def test_too_few_dimensions_fail_and_the_margin_says_so():
    task, made = construction(12, 6, d_model=30)
    assert made.largest_overlap > 1
    assert answers_right(made.block, task, every_input(12)) < 2**12
    assert proven_margin(made, task) < 0


def test_too_few_bits_fail():
    task, made = construction(8, 4)
    bits = every_input(8)
    assert answers_right(made.block, task, bits, rounded(3)) < 256
    assert answers_right(made.block, task, bits, rounded(24)) == 256
    assert answers_right(made.block, task, bits, as_dtype(torch.float32)) == 256


def test_bad_input_is_refused():
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(ValueError, match="without CoT, got a task with CoT"):
        parity_construction(Parity(n=4, k=2), 40, generator)
    with pytest.raises(ValueError, match="cannot hold 4 independent"):
        parity_construction(Parity(n=4, k=2, cot=False), 3, generator)
    with pytest.raises(ValueError, match="linearly dependent"):  # two signs are equal or opposite
        parity_construction(Parity(n=1, k=1, cot=False), 2, torch.Generator().manual_seed(DEPENDENT))
    with pytest.raises(ValueError, match="too many to write down"):
        every_input(25)
    with pytest.raises(ValueError, match="2 to 52 significant bits, got 53"):
        rounded(53)


def test_every_input_is_every_input():
    expected = {tuple(bits) for bits in itertools.product((0, 1), repeat=5)}
    assert {tuple(row) for row in every_input(5).tolist()} == expected


def test_spread_inputs_have_uniform_counts():
    task = Parity(n=20, k=7, cot=False)
    bits = spread_inputs(task, 8000, torch.Generator().manual_seed(0))
    counts = bits[:, list(task.secret)].sum(-1).bincount(minlength=8)
    assert (counts - 1000).abs().max() < 150
    others = [j for j in range(20) if j not in task.secret]
    assert (bits[:, others].double().mean(0) - 0.5).abs().max() < 0.03


@pytest.mark.parametrize("bits", [4, 8, 11, 24])
def test_rounding_agrees_with_numpy(bits):
    values = torch.randn(5000, generator=torch.Generator().manual_seed(0)).double() * 1000
    mantissa, exponent = np.frexp(values.numpy())
    expected = np.ldexp(np.rint(mantissa * 2.0**bits), exponent - bits)
    assert np.array_equal(rounded(bits)(values).numpy(), expected)
    if bits == 24:
        assert torch.equal(rounded(bits)(values), as_dtype(torch.float32)(values))
