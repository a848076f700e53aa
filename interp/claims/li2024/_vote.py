"""How often would a plain majority vote be wrong? The exact error of counting outputs, with no network at all.

Of l examples, n = ceil(alpha' l) start at the query's pattern; their outputs after an erring step are n draws from a
law over the patterns (`Errors.laws`). A vote answers with the most frequent output and breaks ties evenly. A trained
model of li2024 attends to these columns almost alone, so this is what its error should be. On given prompts
`toy_models.incontext.votes` counts instead, whatever their errors.
"""

import math
from collections.abc import Iterable
from functools import cache

import numpy as np
from scipy.special import gammaln

N_STEPS, N_PATTERNS = 3, 10
"""K and M' of the paper."""


@cache
def vote_error(law: tuple[float, ...], n: int) -> float:
    """The chance that n draws from `law` do not have outcome 0 as their most frequent one, ties broken evenly.

    The counts are independent Poisson variables, given that they add up to n. If outcome 0 came x times and m others
    did too, it wins with probability 1 / (1 + m), the integral of t^m over [0, 1]: Gauss's rule with enough nodes is
    exact. The others' sum is n - x; its law is a product of polynomials, by fast Fourier transform.
    """
    others = sorted(set(law[1:]))
    size = 1 << int(n + 8 * np.sqrt(n) + 20).bit_length()  # beyond, the sum has no weight to wrap around
    spread = 7 * np.sqrt(n * law[0]) + 7
    wins = np.arange(max(1, int(n * law[0] - spread)), min(n, int(n * law[0] + spread)) + 1)
    nodes, weights = np.polynomial.legendre.leggauss(len(law) // 2 + 1)
    counts = np.arange(n + 1)
    roots = np.exp(-2j * np.pi * np.arange(size) / size)
    frequency = np.arange(size // 2 + 1)
    product = np.ones((1, 1, 1), complex)
    for p in others:  # [node win frequency]
        chances = _poisson(counts, n * p)
        fewer = np.fft.rfft(np.where(counts < wins[:, None], chances, 0.0), size)
        as_many = chances[wins, None] * roots[wins[:, None] * frequency % size]
        product = product * _power(fewer + (nodes[:, None, None] + 1) / 2 * as_many, law[1:].count(p))
    mixed = np.einsum("t,twf->wf", weights / 2, product)
    both = np.r_[1.0, np.full(size // 2 - 1, 2.0), 1.0]  # a real signal: negative frequencies mirror positive ones
    rest = (mixed * roots[(wins - n)[:, None] * frequency % size] * both).real.sum(1) / size
    return float(1 - (_poisson(wins, n * law[0]) * rest).sum() / _poisson(np.array([n]), float(n))[0])


def _power(base: np.ndarray, exponent: int) -> np.ndarray:
    """By squaring: numpy's power of complex numbers takes logarithms, twenty times as slow."""
    if exponent == 1:
        return base
    half = _power(base, exponent // 2)
    return half * half * base if exponent % 2 else half * half


def _poisson(counts: np.ndarray, mean: float) -> np.ndarray:
    return np.exp(counts * np.log(mean) - mean - gammaln(counts + 1)) if mean > 0 else (counts == 0).astype(float)


def vote_errors(alpha: float, tau: float, rho: float, lengths: Iterable[int]) -> list[float]:
    """The error of a vote at each number of examples, all errors being in the first step: of every later step too."""
    from toy_models.incontext.errors import Errors

    law = Errors.of(tau, rho, N_STEPS, N_PATTERNS, "first").laws[0]
    return [vote_error(law, _similar(alpha, length)) for length in lengths]


def _similar(alpha: float, n_examples: int) -> int:
    """`toy_models.incontext.prompts.n_similar`, without torch, which judging does not need."""
    return math.ceil(alpha * n_examples - 1e-9)


@cache
def cot_vote_error(alpha: float, tau: float, rho: float, spread: str, n_examples: int) -> float:
    """The share of wrong steps of a chain of votes; once wrong, it stays wrong. For simulated worlds.

    With errors in the first step alone it is exact. With errors in every step the number of columns that agree with
    the chain so far is taken at its mean, and examples that start elsewhere are left out.
    """
    from toy_models.incontext.errors import Errors

    if spread == "first":
        return vote_errors(alpha, tau, rho, [n_examples])[0]
    n, right, wrong = float(_similar(alpha, n_examples)), 1.0, []
    for law in Errors.of(tau, rho, N_STEPS, N_PATTERNS, "even").laws:
        right *= 1 - vote_error(law, max(1, round(n)))
        wrong.append(1 - right)
        n *= law[0]
    return float(np.mean(wrong))
