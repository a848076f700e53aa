"""Which patterns stand in a prompt of in-context examples? Integers only; `incontext_space` turns them into vectors.

A task is a cyclic order of the patterns; its k-th step goes k places on: f_k(mu_{p_i}) = mu_{p_{(i+k) mod M}}
(li2024, appendix E). Each query has a task of its own. Of l examples, ceil(alpha l) start at the query's pattern and
the others at any other; this holds for the first l examples of a longer prompt too: one prompt serves every l.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from toy_models.incontext.errors import Errors


@dataclass(frozen=True)
class Prompts:
    """Patterns by index; along the last axis the input and the outputs of the K steps."""

    examples: Int[Tensor, "*batch example place"]
    """With whatever errors the examples have."""
    query: Int[Tensor, "*batch place"]
    """The truth: z_0, ..., z_K."""

    def to(self, device: torch.device) -> "Prompts":
        """The same prompts on another device."""
        return Prompts(self.examples.to(device), self.query.to(device))

    @property
    def n_steps(self) -> int:
        return self.query.shape[-1] - 1

    def first(self, n_examples: int) -> "Prompts":
        """The prompts with their first examples only."""
        return Prompts(self.examples[..., :n_examples, :], self.query)

    def shuffled(self, generator: torch.Generator) -> "Prompts":
        """The prompts with their examples in random order."""
        order = torch.rand(self.examples.shape[:-1], generator=generator).argsort(-1)
        return Prompts(self.examples.gather(-2, order[..., None].expand_as(self.examples)), self.query)

    @property
    def shortcut(self) -> "Prompts":
        """Inputs and labels alone, without the steps between: what ICL is shown."""
        return Prompts(self.examples[..., [0, -1]], self.query[..., [0, -1]])


def n_similar(alpha: float, n_examples: int) -> int:
    """How many of `n_examples` start at the query's pattern: at least the share alpha."""
    return math.ceil(alpha * n_examples - 1e-9)  # 0.4 of 5 are 2, whatever rounding says


def draw_prompts(
    n: int,
    n_patterns: int,
    n_examples: int,
    alpha: float,
    errors: Errors,
    generator: torch.Generator,
    *,
    by_chance: bool = False,
) -> Prompts:
    """n prompts, balanced: at every step each pattern is the query's input equally often (up to one block of M).

    `by_chance`: each example starts at the query's pattern with probability alpha, independently, and not an exact
    share of them: a short prompt may have none.
    """
    order = _balanced_orders(n, n_patterns, len(errors.laws), generator)
    if by_chance:
        similar = torch.rand(n, n_examples, generator=generator) < alpha
    else:
        similar = torch.tensor([n_similar(alpha, i + 1) > n_similar(alpha, i) for i in range(n_examples)])
    others = torch.randint(1, n_patterns, (n, n_examples), generator=generator)
    place = others.masked_fill(similar, 0)  # along the cycle, which starts at the query
    places, truth = [place], [0]
    for k, law in enumerate(errors.laws, start=1):
        chances = torch.rand(n, n_examples, generator=generator, dtype=torch.float64)
        edges = torch.tensor(law, dtype=torch.float64).cumsum(0)[:-1]
        place = (place + k + torch.searchsorted(edges, chances, right=True)) % n_patterns
        places.append(place)
        truth.append((truth[-1] + k) % n_patterns)
    along = torch.stack(places, -1)
    examples = order.gather(-1, along.flatten(1)).view_as(along)
    return Prompts(examples, order[:, truth])


def _balanced_orders(
    n: int, n_patterns: int, n_steps: int, generator: torch.Generator
) -> Int[Tensor, "batch pattern"]:
    """n uniform orders of the patterns, each beginning at its query; M of them at a time are balanced at every step.

    A block of M rows shares one random order of patterns, and row r takes its element number r + s for the place that
    the query reaches at a step, with a random s for each step: every row is uniform, and no pattern comes twice.
    """
    reached = sorted({k * (k + 1) // 2 % n_patterns for k in range(n_steps)})
    n_blocks = -(-n // n_patterns)
    block = torch.rand(n_blocks, n_patterns, generator=generator).argsort(-1)
    shifts = torch.rand(n_blocks, n_patterns, generator=generator).argsort(-1)[:, : len(reached)]
    rows = torch.arange(n_patterns)
    number = (rows[None, :, None] + shifts[:, None, :]) % n_patterns  # [block row step]
    path = block[:, None].expand(-1, n_patterns, -1).gather(-1, number).flatten(0, 1)[:n]
    priority = torch.rand(n, n_patterns, generator=generator).scatter(-1, path, 2.0)
    order = torch.empty(n, n_patterns, dtype=torch.long)
    order[:, reached] = path
    free = [place for place in range(n_patterns) if place not in reached]
    order[:, free] = priority.argsort(-1)[:, : len(free)]
    return order
