"""How much can a statistical query tell about hidden permutations? wang2025, section 4 and Appendix B, exactly.

Functions f_pi are compared by <f_pi, f_rho> = P(f_pi(sigma, x) = f_rho(sigma, x)) - 1/N (equation 1). A query g is
normalised (sum over y of E g^2 is 1) and has no mean over sigma; its answer on f_pi is E g(sigma, x, f_pi(sigma, x)).
"""

import math
from collections import Counter
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.kfold.gradients import every_input

Hidden = Int[Tensor, "function k n"]


def fold(hidden: Int[Tensor, "k n"], values: Int[Tensor, "batch k n"]) -> Int[Tensor, "batch n"]:
    """f_pi(sigma, x) for every sequence and x, by composing one permutation after another."""
    x = torch.arange(values.shape[-1]).expand(len(values), -1)
    for step, pi in enumerate(hidden):
        x = values[:, step].gather(1, pi[x])
    return x


def inner_products(hidden: Hidden, others: Int[Tensor, "other k n"]) -> Float[Tensor, "function other"]:
    """Lemma 10, as its proof has it: the product over i of (<pi_i, rho_i> - 1), over N (N-1)^(k-1)."""
    k, n = hidden.shape[1:]
    same = torch.stack([(hidden[:, None, i] == others[None, :, i]).sum(-1) for i in range(k)], dim=-1)
    return (same - 1).double().prod(-1) / (n * (n - 1) ** (k - 1))


def counted_inner_products(hidden: Hidden, others: Hidden) -> Float[Tensor, "pair"]:
    """Equation 1 pair by pair, by applying both functions to every sequence and every x."""
    k, n = hidden.shape[1:]
    values = every_input(k, n)
    agree = [(fold(pi, values) == fold(rho, values)).double().mean() for pi, rho in zip(hidden, others)]
    return torch.stack(agree) - 1 / n


def random_functions(size: int, k: int, n: int, generator: torch.Generator) -> Hidden:
    """Uniform hidden permutations."""
    return torch.rand(size, k, n, generator=generator).argsort(-1)


def related_pairs(size: int, k: int, n: int, generator: torch.Generator) -> tuple[Hidden, Hidden]:
    """Pairs that share some hidden permutations and differ by a transposition in others, as random ones hardly do."""
    first, second = (random_functions(size, k, n, generator) for _ in range(2))
    kind = torch.randint(0, 3, (size, k, 1), generator=generator)
    swapped = torch.cat([first[..., [1, 0]], first[..., 2:]], dim=-1)
    return first, torch.where(kind == 0, first, torch.where(kind == 1, swapped, second))


def promised(n: int, r: int, k: int) -> tuple[int, float]:
    """Lemma 12: how many functions there are, at least, and the largest inner product of two of them."""
    return math.ceil((math.factorial(r) / 4) ** (k / 2)), (2 * r / n) ** (k / 2)


def packing(n: int, r: int, k: int, generator: torch.Generator, attempts: int = 200_000) -> Hidden:
    """Lemma 12's set by its proof's two greedy steps, up to the promised size if `attempts` suffice.

    First r! permutations of which any two agree at r places at most, then k-tuples of them of which any two agree in
    k/2 coordinates at most.
    """
    chosen = _greedy(lambda: torch.randperm(n, generator=generator), math.factorial(r), r, attempts)
    size, m = promised(n, r, k)[0], len(chosen)
    tuples = _greedy(lambda: torch.randint(0, m, (k,), generator=generator), size, k // 2, attempts)
    return chosen[tuples]


def _greedy(draw: Callable[[], Tensor], size: int, most: int, attempts: int) -> Int[Tensor, "found width"]:
    """Words, drawn one after another, of which any two agree at `most` places at most."""
    found = draw()[None]
    for _ in range(attempts):
        if len(found) >= size:
            break
        word = draw()
        if int((found == word).sum(-1).max()) <= most:
            found = torch.cat([found, word[None]])
    return found


def separated(gram: Float[Tensor, "f f"], weights: Float[Tensor, "f"]) -> float:
    """How many functions one query sets apart, over what the proof of Theorem 5 allows, at the worst tolerance.

    The query is the normalised sum of `weights` f (what is orthogonal to all f would be wasted). The j functions with
    the largest answers, the least of them tau, must be at most 1 / (tau^2 - c), c the largest inner product.
    """
    answers = (gram @ weights) / (weights @ gram @ weights).sqrt()
    largest = gram.clone().fill_diagonal_(0).abs().max()
    tau = answers.sort(descending=True).values.clamp(min=0)
    return float((torch.arange(1, len(tau) + 1) * (tau**2 - largest)).max())


def packing_exponent(n: int, k: int) -> float:
    """log of the packing number over k N log N, from below (Corollary 13): as many functions as there are, over how
    many are closer to one of them than |f - f'|^2 = 1/2, which Lemma 10 turns into counts of fixed points."""
    agree = {i: math.comb(n, i) * _derangements(n - i) for i in range(n + 1)}
    products = Counter({1: 1})
    for _ in range(k):
        further: Counter[int] = Counter()
        for value, count in products.items():
            for i, ways in agree.items():
                further[value * (i - 1)] += count * ways
        products = further
    total = math.factorial(n) ** k
    scale = n * (n - 1) ** (k - 1)
    near = sum(count for value, count in products.items() if 2 * (1 - 1 / n) - 2 * value / scale < 0.5)
    return (math.log(total) - math.log(near)) / (k * n * math.log(n))


def _derangements(n: int) -> int:
    return sum((-1) ** i * math.factorial(n) // math.factorial(i) for i in range(n + 1))


def spread_of_answers(query: Float[Tensor, "batch x y"], folded: Int[Tensor, "function batch x"], k: int) -> float:
    """Root mean square over functions of a query's answer, centred and normalised, in units of its bound.

    The bound is sqrt((N-1)/N) (N-1)^-k: the matrix of inner products over all hidden permutations is a tensor product
    of k times the matrix <pi, rho> - 1, whose one eigenvalue besides 0 is N!/(N-1). It is attained by every f_pi.
    """
    n = query.shape[-1]
    centred = query - query.mean(0)
    centred = centred / centred.square().sum(-1).mean().sqrt()
    answers = torch.stack([centred.gather(-1, results[..., None]).mean() for results in folded])
    return float(answers.square().mean().sqrt()) * (n - 1) ** k * (n / (n - 1)) ** 0.5


def one_hot_inputs(values: Int[Tensor, "batch k n"]) -> Float[Tensor, "batch x feature"]:
    """For every sequence and x: one-hot sigma_i(j) for all i and j, and one-hot x."""
    n = values.shape[-1]
    sigma = torch.nn.functional.one_hot(values, n).flatten(1).double()
    x = torch.eye(n, dtype=sigma.dtype)
    return torch.cat([sigma[:, None].expand(-1, n, -1), x.expand(len(values), -1, -1)], dim=-1)


def gradient_queries(
    values: Int[Tensor, "batch k n"], hidden_units: int, generator: torch.Generator
) -> list[Float[Tensor, "batch x y"]]:
    """Queries of gradient descent: d logit_y / d w for weights w of a random perceptron, one of
    each of its two layers for every hidden unit (Appendix B, "Connection to Gradient Descent")."""
    inputs, n = one_hot_inputs(values), values.shape[-1]
    width = inputs.shape[-1]
    into = torch.randn(width, hidden_units, generator=generator, dtype=inputs.dtype)
    out = torch.randn(hidden_units, n, generator=generator, dtype=inputs.dtype) / hidden_units**0.5
    before = inputs @ into  # [batch x unit]
    found = []
    for unit in range(hidden_units):
        feature = int(torch.randint(0, width, (), generator=generator))
        found.append((before[..., unit, None] > 0) * inputs[..., feature, None] * out[unit])
        label = torch.nn.functional.one_hot(torch.tensor(unit % n), n)
        found.append(before[..., unit, None].relu() * label)
    return found
