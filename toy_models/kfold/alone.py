"""How many samples does k-fold composition take without easier hops? A perceptron on k-fold data alone.

Each sample is one fresh sequence with one x, as in wang2025's section 4. The network sees one-hot sigma_i(j) and x,
so it has no positions to find and any k will do; learning from k-fold data alone is what Theorem 5 bounds.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.kfold.queries import fold, random_functions
from toy_models.kfold.task import check_size, random_permutations

LEARNED = 0.9
"""Accuracy on test sequences from which on the function counts as learned."""


def samples_alone(
    k: int,
    n: int,
    seed: int,
    *,
    budget: int,
    width: int = 256,
    batch_size: int = 128,
    eval_every: int = 1_280,
    lr: float = 1e-3,
) -> int | None:
    """Samples until a perceptron with two hidden layers, trained with Adam, has learned; None: out of budget."""
    check_size(k, n)
    generator = torch.Generator().manual_seed(seed)
    hidden = random_functions(1, k, n, generator)[0]
    sizes = [k * n * n + n, width, width, n]
    weights = [(torch.randn(a, b, generator=generator) * (2 / a) ** 0.5).requires_grad_() for a, b in pairwise(sizes)]
    biases = [torch.zeros(b, requires_grad=True) for b in sizes[1:]]
    optimiser = torch.optim.Adam([*weights, *biases], lr=lr, fused=True)

    def logits(inputs: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch n"]:
        for weight, bias in zip(weights[:-1], biases):
            inputs = (inputs @ weight + bias).relu()
        return inputs @ weights[-1] + biases[-1]

    test, labels = _drawn(hidden, 1_000, generator)
    for seen in range(batch_size, budget + 1, batch_size):
        inputs, targets = _drawn(hidden, batch_size, generator)
        optimiser.zero_grad()
        F.cross_entropy(logits(inputs), targets).backward()
        optimiser.step()
        if seen % eval_every == 0:
            with torch.no_grad():
                accuracy = (logits(test).argmax(-1) == labels).float().mean()
            if accuracy >= LEARNED:
                return seen
    return None


def _drawn(
    hidden: Int[Tensor, "k n"], size: int, generator: torch.Generator
) -> tuple[Float[Tensor, "batch feature"], Int[Tensor, "batch"]]:
    k, n = hidden.shape
    values = random_permutations(size, k, n, generator)
    x = torch.randint(0, n, (size,), generator=generator)
    inputs = torch.cat([F.one_hot(values, n).flatten(1), F.one_hot(x, n)], dim=-1).float()
    return inputs, fold(hidden, values).gather(1, x[:, None])[:, 0]
