"""Attention and gradients along the training of li2024's model, against loops over columns and vectors."""

import itertools

import pytest
import torch

from toy_models.incontext.dynamics import PAIRS, attention_masses, lemma_bounds, pair_gradients
from toy_models.incontext.training import Setup, loss_and_gradient, query_attention, training_prompts

SMALL = Setup(d_x=9, n_training=5, n_testing=4, n_steps=2, n_examples=4, rows=5, xi=0.5)


@pytest.fixture
def state():
    generators = [torch.Generator().manual_seed(seed) for seed in range(2)]
    space = SMALL.spaces(generators)
    basis = SMALL.features(space.training, space)
    weights = basis @ SMALL.initial(generators) @ basis.mT
    return weights, next(training_prompts(SMALL, generators))


def test_masses_are_sums_of_attention_over_columns(state):
    weights, prompts = state
    attention, _ = query_attention(weights, prompts)
    same, others = attention_masses(weights, prompts)
    for seed, row, step in itertools.product(range(2), range(5), range(2)):
        examples = prompts.examples[seed, row].tolist()
        query = prompts.query[seed, row].tolist()
        columns = [(e[k], k) for e in examples for k in range(2)] + [(query[0], 0)]
        weights_of = attention[seed, row, step].tolist()
        assert same[seed, row, step].item() == pytest.approx(
            sum(w for w, (pattern, k) in zip(weights_of, columns) if k == step and pattern == query[step])
        )
        assert others[seed, row, step].item() == pytest.approx(
            sum(w for w, (_, k) in zip(weights_of, columns) if k != step)
        )


def test_pair_gradients_are_means_over_columns(state):
    weights, prompts = state
    _, gradient = loss_and_gradient(weights, prompts)
    found = pair_gradients(gradient, 2)
    assert tuple(found) == PAIRS
    names = {(True, True): "same", (True, False): "other_step", (False, True): "other_pattern"}
    sums: dict[str, list[torch.Tensor]] = {name: [] for name in PAIRS}
    for a, y, k, b, j in itertools.product(range(5), range(5), range(2), range(5), range(2)):
        left, right = torch.zeros(12), torch.zeros(12)
        left[[a, 5 + y, 10 + k]] = right[[b, 10 + j]] = 1
        sums[names.get((a == b, k == j), "other_both")].append(left @ gradient @ right)
    for name, values in sums.items():
        torch.testing.assert_close(found[name], torch.stack(values).mean(0), atol=1e-6, rtol=1e-4)


def test_bounds_are_the_papers_at_a_hand_computed_point():
    p = torch.full((1, 1, 2), 0.5, dtype=torch.float64)
    found = {name: value.item() for name, value in lemma_bounds(p, 0.4, 10).items()}
    q = 0.04  # alpha^2 / K^2
    assert found["f5_same"] == pytest.approx(0.25 * (-2 * (1 + q) + q * 2) / 20 - q / 2 * 0.25)
    assert found["f5_other_step_low"] == pytest.approx((-4 - 4 * 0.5 * (1 + q)) * 0.25 / 20 + q / 2 * 0.25)
    assert found["f5_other_step_high"] == pytest.approx((-4 - 2 * (1 + q)) * 0.25 / 20 + 0.125 * (1 + q) / 2)
    high = (-q + (1 + 3 * q) * 0.5) * 0.25 / 20 - 0.25 * q / 2
    assert found["f5_other_pattern_high"] == pytest.approx(high)
    assert found["f5_other_pattern_low"] == pytest.approx(high + 0.25 * (-0.5 + 0.5 * q) / 2)
    assert found["f5_other_both_low"] == pytest.approx(0.125 / 20 + 0.25 * q / 2)
    assert found["f5_other_both_high"] == pytest.approx(0.25 * 0.5 * (1 + q) / 2)
    assert found["f7_same"] == found["f7_same_k"] == pytest.approx(-4 * 0.125 / 20)  # K = 2
    assert found["f7_other_pattern"] == pytest.approx(0.125 / 20)
