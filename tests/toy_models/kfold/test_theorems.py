"""Are wang2025's theorems evaluated as printed? Enumeration, expanded samples and autograd as oracles."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from toy_models.kfold import gradients, queries
from toy_models.kfold.alone import samples_alone
from toy_models.kfold.counted import drawn_shares, train_counted
from toy_models.kfold.curricula import Examples, descend
from toy_models.kfold.sparse import SparseConstruction, sparse_hidden
from toy_models.kfold.task import KFold, random_permutations
from toy_models.kfold.theory_model import KFoldTheory


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_fold_is_the_task() -> None:
    task = KFold(k=4, n=3, hidden_seed=3)
    values = random_permutations(20, 4, 3, generator())
    expected = task.results(values.flatten(1))[:, -1, :3]
    assert (queries.fold(torch.tensor(task.hidden), values) == expected).all()


@pytest.mark.parametrize(("k", "n"), [(2, 3), (3, 2), (1, 4)])
def test_lemma_10_for_all_functions_at_small_sizes(k: int, n: int) -> None:
    every = gradients.every_input(k, n)
    others = every[:: max(1, len(every) // 6)]
    counted = torch.stack([queries.counted_inner_products(every, one.expand_as(every)) for one in others], dim=1)
    torch.testing.assert_close(queries.inner_products(every, others), counted, atol=1e-14, rtol=0)


def test_lemma_10_read_literally_is_false() -> None:
    first, second = queries.related_pairs(20, 2, 4, generator())
    literal = ((first[:, -1] == second[:, -1]).sum(-1) - 1.0).double() ** 2 / (4 * 3)
    assert (literal - queries.counted_inner_products(first, second)).abs().max() > 0.1


def test_last_line_of_theorem_5_is_not_its_bound() -> None:
    def log_queries(n: float) -> float:  # log of ((log N)! log N / 2N), per k/2
        return math.lgamma(1 + math.log(n)) + math.log(math.log(n)) - math.log(2 * n)

    assert log_queries(64) < 0 < log_queries(65)
    assert all(log_queries(n) < 0.2 * math.log(n) ** 2 for n in (1e2, 1e4, 1e8, 1e16))  # printed: log(n)^2


def test_greedy_set_of_lemma_12() -> None:
    functions, (size, largest) = queries.packing(10, 4, 4, generator()), queries.promised(10, 4, 4)
    gram = queries.inner_products(functions, functions)
    assert len(functions) == size == 36
    assert gram.fill_diagonal_(0).abs().max() <= largest
    assert (functions.sort(-1).values == torch.arange(10)).all()


def test_packing_number_by_brute_force() -> None:
    every = gradients.every_input(1, 4)
    near = 2 * (1 - 1 / 4) - 2 * queries.inner_products(every, every)[0] < 0.5
    expected = math.log(len(every) / int(near.sum())) / (4 * math.log(4))
    assert queries.packing_exponent(4, 1) == pytest.approx(expected)


def test_answers_have_the_spread_of_the_eigenvalue() -> None:
    k, n = 2, 3
    values = gradients.every_input(k, n)
    gram = queries.inner_products(values, values)
    largest = float(torch.linalg.eigvalsh(gram)[-1])
    assert largest / len(values) == pytest.approx((n - 1) / n * (n - 1) ** (-2 * k))
    folded = torch.stack([queries.fold(pi, values) for pi in values])
    one = F.one_hot(queries.fold(values[7], values), n).double()
    assert queries.spread_of_answers(one, folded, k) == pytest.approx(1)
    answers = gram[7] / gram[7, 7].sqrt()  # the same query through the matrix of inner products
    assert float(answers.square().mean()) == pytest.approx(largest / len(values))
    assert all(queries.spread_of_answers(g, folded, k) < 1 for g in queries.gradient_queries(values, 2, generator()))


def test_one_query_sets_apart_what_the_matrix_says() -> None:
    gram = torch.tensor([[0.8, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.1, 0.8]], dtype=torch.float64)
    answers = gram[0] / 0.8**0.5
    expected = max(
        rank * (max(float(a), 0) ** 2 - 0.1) for rank, a in enumerate(answers.sort(descending=True).values, 1)
    )
    assert queries.separated(gram, torch.tensor([1.0, 0.0, 0.0]).double()) == pytest.approx(expected)


@pytest.mark.parametrize(("k", "n"), [(2, 3), (4, 2)])
def test_printed_gradients(k: int, n: int) -> None:
    values = gradients.every_input(k, n)
    for seed in range(3):
        task = KFold(k=k, n=n, cyclic=True, hidden_seed=seed)
        for stage in range(len(task.hops)):
            exact = gradients.key_query_gradient(task, stage, 0.5, values)
            torch.testing.assert_close(
                gradients.printed_key_query(task.hidden, stage, 0.5), exact, atol=1e-12, rtol=0
            )
            assert gradients.separation(task, stage, values, exact).min() / 0.5 >= (1 - 1e-9) / (k * n**2)
            readout = gradients.printed_readout(k, n, stage, 0.5)
            if stage == 0:
                readout[1] = gradients.omitted_readout(task.hidden, 0.5)
            torch.testing.assert_close(
                readout, gradients.readout_gradient(task, stage, 0.5, values), atol=1e-12, rtol=0
            )


def test_value_gradient_vanishes_with_uniform_attention_only() -> None:
    task, values = KFold(k=2, n=3, cyclic=True), gradients.every_input(2, 3)
    other = torch.randn(12, 12, generator=generator(), dtype=torch.float64)
    assert gradients.value_gradient(task, values, 1.0).abs().max() < 1e-15
    assert gradients.value_gradient(task, values, 1.0, other).abs().max() > 1e-3


def test_counted_inputs_train_as_the_sample_itself() -> None:
    k, n, n_sequences, rate = 2, 2, 40, 30.0
    task, values = KFold(k=k, n=n, cyclic=True, hidden_seed=1), gradients.every_input(k, n)
    counted, listed = (KFoldTheory(k, n, dtype=torch.float64) for _ in range(2))
    train_counted(counted, task, values, n_sequences, rate, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    for stage in range(2):
        shares = drawn_shares(len(values) * k * n, n_sequences, rng)
        rows = torch.repeat_interleave(torch.arange(len(shares)), (shares * n_sequences).round().long())
        sample = values[rows // (k * n)]
        data = Examples(sample, task.results(sample.flatten(1)), rows % (k * n))
        assert len(data) == n_sequences
        descend(listed, [block.attn.W_KQ for block in listed.blocks], data, [stage], rate)
        descend(listed, [listed.readout], data, [stage], rate)
    for a, b in zip(counted.parameters(), listed.parameters()):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def test_the_construction_has_no_sup_error() -> None:
    task, values = KFold(k=2, n=3, cyclic=True, hidden_seed=2), gradients.every_input(2, 3)
    model = gradients.ideal_model(task, 2, 100.0)
    assert gradients.sup_error(model, task, values) < 1e-12
    assert gradients.least_attention(model, task, values) > 1 - 1e-12
    assert gradients.sup_error(KFoldTheory(2, 3), task, values) == pytest.approx(2 / 3)


def test_theorem_9_doubles_its_output_if_the_last_block_moves() -> None:
    for seed in range(6):
        hidden = sparse_hidden(4, 3, 2, generator(seed))
        built, values = SparseConstruction(hidden, 30.0), random_permutations(10, 4, 3, generator(seed))
        expected = F.one_hot(queries.fold(torch.tensor(hidden), values), 3).double()
        torch.testing.assert_close(built.outputs(values, "circle"), expected, atol=1e-8, rtol=0)
        factor = 2 if 3 in built.moving else 1
        torch.testing.assert_close(built.outputs(values), factor * expected, atol=1e-8, rtol=0)


def test_k_fold_data_alone_teach_small_functions_and_budgets_end() -> None:
    assert samples_alone(1, 2, 0, budget=2_560) is not None
    assert samples_alone(3, 3, 0, budget=128) is None
