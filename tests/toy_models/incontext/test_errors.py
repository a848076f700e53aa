"""Errors in the examples of a prompt: the achieved tau, rho and K-step law against products of matrices and draws."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toy_models.incontext.errors import Errors, primacy_range
from toy_models.incontext.prompts import draw_prompts


@given(
    tau=st.floats(0.05, 0.95), share=st.floats(0, 1), spread=st.sampled_from(["even", "first"]),
    n_steps=st.integers(1, 4), n_patterns=st.integers(3, 12),
)  # fmt: skip
def test_the_achieved_tau_and_rho_are_the_requested_ones(tau, share, spread, n_steps, n_patterns):
    low, high = primacy_range(tau, n_steps, n_patterns, spread)
    least = max(low, 0) + 1e-6
    rho = least + share * max(0.0, high - least)
    if high <= 1e-6:
        with pytest.raises(ValueError, match="tau must be larger"):
            Errors.of(tau, 0.5, n_steps, n_patterns, spread)
        return
    errors = Errors.of(tau, rho, n_steps, n_patterns, spread)
    assert errors.tau == pytest.approx(tau)
    assert errors.rho == pytest.approx(rho)


def test_tau_and_rho_are_those_of_the_matrices_by_their_definitions():
    errors, order = Errors.of(0.4, 0.7, 3, 10, "even"), np.random.default_rng(0).permutation(10)
    matrices = errors.matrices(order)
    place = np.argsort(order)
    paths, primacies = [], []
    for start in range(10):
        chance, at = 1.0, start
        for k, matrix in enumerate(matrices, start=1):
            right = order[(place[at] + k) % 10]
            chance, at = chance * matrix[at, right], right
        paths.append(chance)
    for k, matrix in enumerate(matrices, start=1):
        np.testing.assert_allclose(matrix.sum(1), 1)
        for i in range(10):
            right = order[(place[i] + k) % 10]
            primacies.append(1 - np.delete(matrix[i], right).max() / matrix[i, right])
    assert min(paths) == pytest.approx(errors.tau) == pytest.approx(0.4)
    assert min(primacies) == pytest.approx(errors.rho) == pytest.approx(0.7)
    product = matrices[0] @ matrices[1] @ matrices[2]
    for i in range(10):
        label = order[(place[i] + 6 + np.arange(10)) % 10]
        np.testing.assert_allclose(product[i, label], errors.label_law)
    assert errors.tau_o == pytest.approx(product.max(1).min())
    assert errors.rho_o == pytest.approx((1 - np.sort(product, 1)[:, -2] / product.max(1)).min())


def test_impossible_pairs_are_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"more than all errors together; .* between 0.740 and 0.971, got rho=0.5"):
        Errors.of(0.5, 0.5, 3, 10, "even")
    with pytest.raises(
        ValueError, match=r"9 wrong patterns of at most .* each cannot hold them; rho must be between 0"
    ):
        Errors.of(0.2, 0.8, 3, 10, "first")
    with pytest.raises(ValueError, match=r"tau and rho in \(0, 1\), steps and patterns, got tau=1.5"):
        Errors.of(1.5, 0.5, 3, 10, "first")


def test_errors_in_one_step_reach_the_range_that_errors_in_every_step_do_not():
    for rho in np.linspace(0.02, 0.88, 20):
        assert Errors.of(0.5, float(rho), 3, 10, "first").rho == pytest.approx(rho)
    assert primacy_range(0.5, 3, 10, "even")[0] == pytest.approx(0.74, abs=0.001)


def test_errors_in_one_step_are_those_of_the_label():
    errors = Errors.of(0.5, 0.3, 3, 10, "first")
    assert (errors.tau_o, errors.rho_o) == (pytest.approx(0.5), pytest.approx(0.3))


@pytest.mark.parametrize("accuracy", [0.6, 0.74, 0.76, 0.9])
def test_offset_errors_have_a_binomial_law_which_decides_condition_1(accuracy):
    errors = Errors.offset(accuracy, 3, 10)
    binomial = [math.comb(3, e) * (1 - accuracy) ** e * accuracy ** (3 - e) for e in range(4)]
    np.testing.assert_allclose(errors.label_law, [*binomial, *[0] * 6], atol=1e-12)
    assert errors.condition_1 == (accuracy > 0.75)
    assert errors.tau == pytest.approx(accuracy**3)
    np.testing.assert_allclose(errors.shortcut.laws[0], errors.label_law)


def test_a_tie_of_labels_violates_condition_1():
    assert not Errors.offset(0.75, 3, 10).condition_1
    assert Errors.none(3, 10).condition_1


def test_laws_must_be_laws():
    with pytest.raises(ValueError, match="adding up to 1"):
        Errors(((0.5, 0.4),))
    with pytest.raises(ValueError, match="one probability for every offset"):
        Errors(((0.5, 0.5), (1.0,)))
    with pytest.raises(ValueError, match="an accuracy in"):
        Errors.offset(1.2, 3, 10)


def test_drawn_examples_follow_the_laws():
    errors = Errors.of(0.5, 0.8, 3, 10, "even")
    prompts = draw_prompts(4000, 10, 10, 1.0, errors, torch.Generator().manual_seed(0))
    right = (prompts.examples == prompts.query[:, None]).all(-1).float().mean().item()
    assert right == pytest.approx(0.5, abs=0.01)  # standard error 0.0025
    label = (prompts.examples[..., -1] == prompts.query[:, None, -1]).float().mean().item()
    assert label == pytest.approx(errors.label_law[0], abs=0.01)


@pytest.mark.parametrize(("right", "rival"), [(0.36, 0.4), (0.4, 0.36), (0.61, 0.32)])
def test_errors_of_a_label_have_the_probabilities_asked_for(right, rival):
    errors = Errors.of_label(right, rival, 3, 10)
    np.testing.assert_allclose(errors.label_law[:2], (right, rival))
    assert errors.tau_o == pytest.approx(max(right, rival))
    assert errors.rho_o == pytest.approx(1 - min(right, rival) / max(right, rival))
    assert errors.condition_1 == (right > rival)
    assert errors.rho > 0  # in each step the right pattern leads
    order = np.random.default_rng(0).permutation(10)
    product = np.linalg.multi_dot(list(errors.matrices(order)))
    np.testing.assert_allclose(np.sort(product, axis=1), np.sort(np.tile(errors.label_law, (10, 1)), axis=1))


def test_labels_that_no_errors_have_are_refused():
    with pytest.raises(ValueError, match="no step law has labels"):
        Errors.of_label(0.3, 0.69, 3, 10)
