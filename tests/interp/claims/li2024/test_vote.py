"""The exact error of a majority vote, against counting by hand and by simulation, and the votes of the exam."""

import itertools

import numpy as np
import pytest

from interp.claims.li2024._vote import cot_vote_error, vote_error
from toy_models.incontext.errors import Errors
from toy_models.incontext.prompts import n_similar


def enumerated(law: tuple[float, ...], n: int) -> float:
    wrong = 0.0
    for draws in itertools.product(range(len(law)), repeat=n):
        counts = np.bincount(draws, minlength=len(law))
        winners = np.flatnonzero(counts == counts.max())
        right = (0 in winners) / len(winners)
        wrong += (1 - right) * np.prod([law[d] for d in draws])
    return float(wrong)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("law", [(0.5, 0.3, 0.2), (0.4, 0.3, 0.15, 0.15), (0.6, 0.4, 0.0)])
def test_it_equals_the_sum_over_all_draws(law, n):
    assert vote_error(law, n) == pytest.approx(enumerated(law, n), abs=1e-9)


@pytest.mark.parametrize(("tau", "rho", "n"), [(0.5, 0.5, 32), (0.2, 0.5, 60), (0.5, 0.3, 256)])
def test_it_agrees_with_simulated_votes(tau, rho, n):
    law = Errors.of(tau, rho, 3, 10, "first").laws[0]
    generator = np.random.default_rng(0)
    counts = generator.multinomial(n, np.array(law) / sum(law), 20_000) + 0.5 * generator.random((20_000, 10))
    simulated = (counts.argmax(1) != 0).mean()
    assert vote_error(law, n) == pytest.approx(simulated, abs=4 * np.sqrt(0.25 / 20_000))


def test_a_chain_of_votes_with_errors_in_the_first_step_is_one_vote():
    law = Errors.of(0.5, 0.5, 3, 10, "first").laws[0]
    for alpha, length in ((0.8, 5), (0.2, 7), (0.3, 20)):
        expected = vote_error(law, n_similar(alpha, length))
        assert cot_vote_error(alpha, 0.5, 0.5, "first", length) == pytest.approx(expected)


def test_later_steps_of_a_chain_err_more():
    one = vote_error(Errors.of(0.5, 0.8, 3, 10, "even").laws[0], n_similar(0.8, 10))
    assert cot_vote_error(0.8, 0.5, 0.8, "even", 10) > one
