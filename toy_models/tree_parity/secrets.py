"""How much does a gradient say about the secret? Exact over all secrets of a size at once (kim2024, Theorem 2).

The gradient of half the squared error of f to the parity p is E[f grad f] - E[p grad f]: only the second term depends
on p, and for all 2^d parities together it is the Walsh-Hadamard transform of grad f over the inputs. Its variance
over the secrets of k bits is bounded by E|grad f|^2 / |P| over all inputs (Proposition 3), and by
2 max(1 / |P|, sqrt(4 d / n)) sup |grad f|^2 on n samples (Appendix A), |P| being the number of those secrets.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

RADIX = 4
"""Bits that one matrix product transforms: products with 16 x 16 matrices are faster than butterflies of two."""


def every_input(d: int) -> Float[Tensor, "input bit"]:
    """All 2^d inputs as +-1; bit i of an input's number says whether its i-th value is -1."""
    if not 1 <= d <= 24:
        raise ValueError(f"enumerating 2^d inputs needs 1 <= d <= 24, got d={d}; draw a sample instead")
    return 1.0 - 2.0 * ((torch.arange(2**d)[:, None] >> torch.arange(d)) & 1).double()


def walsh(values: Float[Tensor, "input *rest"]) -> Float[Tensor, "input *rest"]:
    """sum_x chi_S(x) values(x) for every set S of bits, by its number; chi_S is the product of the bits in S."""
    n = len(values)
    if n < 2 or n & (n - 1):
        raise ValueError(f"a Walsh-Hadamard transform needs 2^d values, got {n}")
    sign = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=values.dtype)
    found, done = values.reshape(n, -1), 1
    while done < n:
        size = min(2**RADIX, n // done)
        matrix = torch.ones(1, 1, dtype=values.dtype)
        while len(matrix) < size:
            matrix = torch.kron(matrix, sign)
        found = matrix @ found.reshape(n // (size * done), size, -1)
        done *= size
    return found.reshape(values.shape)


def secrets(d: int, k: int) -> Int[Tensor, "secret"]:
    """The numbers of all sets of k of d bits."""
    if not 0 <= k <= d:
        raise ValueError(f"a secret has between 0 and d bits, got k={k} of d={d}")
    numbers = torch.arange(2**d)
    return numbers[((numbers[:, None] >> torch.arange(d)) & 1).sum(1) == k]


def parity(bits: Float[Tensor, "seed input bit"], hidden: Int[Tensor, "seed"]) -> Float[Tensor, "seed input"]:
    """The parity of every input, by the number of each seed's secret set."""
    chosen = ((hidden[:, None] >> torch.arange(bits.shape[-1])) & 1).bool()
    return torch.where(chosen[:, None], bits, 1.0).prod(-1)


def input_shares(bits: Float[Tensor, "sample bit"]) -> Float[Tensor, "input"]:
    """The share of samples that each of the 2^d inputs has: the empirical distribution."""
    d = bits.shape[1]
    numbers = ((bits < 0).long() << torch.arange(d)).sum(1)
    return torch.bincount(numbers, minlength=2**d).double() / len(bits)


@dataclass(frozen=True)
class Spread:
    """How the gradient of one model varies with the secret, under one distribution of inputs."""

    variance: float
    """E over secrets of |gradient - its mean over secrets|^2."""
    deviations: Float[Tensor, "secret"]
    """The norm of each secret's gradient less that mean."""


def spread(transformed: Float[Tensor, "set parameter"], of: Int[Tensor, "secret"]) -> Spread:
    """The spread over the secrets `of`, from `walsh(share[:, None] * gradients)`."""
    coefficients = transformed[of]
    squares = (coefficients - coefficients.mean(0)).square().sum(1)
    return Spread(squares.mean().item(), squares.sqrt())


def population_bound(mean_square: float, n_secrets: int) -> float:
    """F^2 / |H| of Proposition 3, with F^2 = E|grad f|^2.

    It holds for half the squared error, as in Theorem 2; the proposition is printed with the squared error itself,
    whose gradient is twice as large and its variance four times.
    """
    return mean_square / n_secrets


def correlation_bound(d: int, n: int) -> float:
    """delta = sqrt(4 d / n): no two parities correlate more on n samples, but for (2/e)^(2d) (Appendix A)."""
    return math.sqrt(4 * d / n)


def sample_bound(largest_square: float, n_secrets: int, d: int, n: int) -> float:
    """2 max(1 / |P|, sqrt(4 d / n)) sup|grad f|^2 (Appendix A), with the supremum over inputs at these weights."""
    return 2 * max(1 / n_secrets, correlation_bound(d, n)) * largest_square


def correlation(shares: Float[Tensor, "input"], d: int, k: int) -> float:
    """The largest |<p, p'>_n| of two different secrets of k bits: p p' is the parity of their difference."""
    apart = range(2, 2 * min(k, d - k) + 1, 2)
    if not apart:
        return 0.0
    of = torch.cat([secrets(d, size) for size in apart])
    return walsh(shares)[of].abs().max().item()


def mean_parity(d: int, k: int) -> Float[Tensor, "input"]:
    """E over secrets of p(x), for every input: what an oracle that hides the secret trains a model on."""
    chosen = torch.zeros(2**d, dtype=torch.float64)
    of = secrets(d, k)
    chosen[of] = 1 / len(of)
    return walsh(chosen)


def squared_errors(answers: Float[Tensor, "input"], of: Int[Tensor, "secret"]) -> Float[Tensor, "secret"]:
    """E_x (p(x) - f(x))^2 for every secret: 1 - 2 E[p f] + E[f^2]."""
    return 1 - 2 * walsh(answers)[of] / len(answers) + answers.square().mean()


def loss_bound(hidden: float, mean_correlation: float) -> float:
    """What the loss over all secrets is at least if a share of at least `hidden` of them is never told apart.

    Equation (5) before its last step, 2 - 1 / Pr(Q) - 2 E_x|E_p p(x)|: what Theorem 2 calls e^(-Omega(d)) is here
    the number itself. No bound is left where half of the secrets or fewer stay hidden.
    """
    return max(0.0, 2 - 1 / hidden - 2 * mean_correlation) if hidden > 0 else 0.0
