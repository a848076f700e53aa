"""Reasoning in context: K steps learned from the examples of one prompt (li2024, section 2 and appendix E).

A prompt has l examples of K columns (input; output), then the columns of the query. Every column of the query is
supervised, each standing for the training prompt that ends there: its target is the index of z_k, its own output half
must not be read for it. Without CoT the prompt shows inputs and labels alone, padded with zeros, and one query.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from toy_models.incontext.errors import Errors, Spread
from toy_models.incontext.prompts import Prompts, draw_prompts, n_similar
from toy_models.incontext.space import (
    Space,
    example_columns,
    noise_coordinates,
    query_columns,
    shortcut_columns,
)
from toy_models.task import UNSUPERVISED, Batch, register


@register
@dataclass(frozen=True)
class IncontextCot:
    """Prompts of in-context examples: for training, or of testing patterns with noise and errors."""

    name: ClassVar[str] = "incontext_cot"

    d_x: int = 30
    """Dimension of a pattern; a column has twice as many."""
    n_patterns: int = 20
    """Number of training patterns (the paper's M)."""
    n_testing: int = 10
    """Number of testing patterns (M'), combinations of the training patterns."""
    n_steps: int = 3
    """Number of steps (K)."""
    n_examples: int = 20
    """Number of examples in a prompt (l)."""
    alpha: float = 0.4
    """Share of the examples that start at the query's pattern."""
    cot: bool = True
    """Whether the examples show their steps, or inputs and labels alone."""
    testing: bool = False
    """Whether the prompts are made of testing patterns, with noise and errors, or are training prompts without."""
    noise: float = 0.2
    """Length of the noise on the examples of testing prompts."""
    tau: float = 1.0
    """Probability that all steps of an example of a testing prompt are right; 1 means no errors."""
    rho: float = 1.0
    """Primacy of the right pattern in testing prompts with errors."""
    spread: Spread = "even"
    """Whether errors occur in every step alike, or in the first alone."""
    pattern_seed: int = 0
    """Draws the patterns."""

    def __post_init__(self) -> None:
        if not (0 < self.alpha <= 1 and self.n_examples >= 1 and self.n_steps >= 1):
            raise ValueError(
                f"a prompt needs alpha in (0, 1], examples and steps, got alpha={self.alpha}, "
                f"n_examples={self.n_examples}, n_steps={self.n_steps}"
            )
        if not 0 <= self.noise <= math.sqrt(0.5):
            raise ValueError(f"the noise must be between 0 and sqrt(2)/2, got {self.noise}")
        if not self.testing and (self.tau, self.rho) != (1, 1):
            raise ValueError(f"training prompts have no errors, got tau={self.tau}, rho={self.rho}; set testing")
        for made in ("errors", "space"):
            getattr(self, made)  # refuses at once what cannot be made

    @cached_property
    def errors(self) -> Errors:
        """The laws of the examples' errors."""
        if (self.tau, self.rho) == (1, 1):
            return Errors.none(self.n_steps, self.d_vocab)
        return Errors.of(self.tau, self.rho, self.n_steps, self.d_vocab, self.spread)

    @cached_property
    def space(self) -> Space:
        """The vectors of all patterns, drawn by the seed."""
        generator = torch.Generator().manual_seed(self.pattern_seed)
        return Space.draw(self.d_x, self.n_patterns, self.n_testing, self.n_steps, generator)

    @property
    def patterns(self) -> Float[Tensor, "m d"]:
        """The patterns that the prompts are made of."""
        return self.space.testing if self.testing else self.space.training

    @property
    def d_vocab(self) -> int:
        return self.n_testing if self.testing else self.n_patterns

    @property
    def n_ctx(self) -> int:
        return self.n_examples * self.n_steps + (self.n_steps if self.cot else 1)

    @property
    def n_inputs(self) -> int:
        """Prompts of different patterns; noise makes many of each."""
        return math.factorial(self.d_vocab) * (self.d_vocab - 1) ** (
            self.n_examples - n_similar(self.alpha, self.n_examples)
        )

    def draw(self, n: int, generator: torch.Generator) -> Prompts:
        """The patterns of n prompts, balanced, examples in random order."""
        drawn = draw_prompts(n, self.d_vocab, self.n_examples, self.alpha, self.errors, generator)
        return drawn.shuffled(generator)

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """n prompts; at every step each pattern is the query's equally often."""
        prompts = self.draw(n, generator)
        vectors = self.patterns[prompts.examples]
        if self.testing:
            shape, dimension = prompts.examples.shape, self.space.noise_dimension
            vectors = vectors + noise_coordinates(shape, dimension, self.noise, generator) @ self.space.directions
        asked = self.patterns[prompts.query[:, : self.n_steps if self.cot else 1]]
        examples = example_columns(vectors) if self.cot else shortcut_columns(vectors)
        inputs = torch.cat([examples, query_columns(asked)], dim=1)
        targets = torch.full((n, self.n_ctx), UNSUPERVISED)
        targets[:, self._first_query :] = prompts.query[:, 1:] if self.cot else prompts.query[:, -1:]
        return Batch(inputs, targets)

    @property
    def _first_query(self) -> int:
        return self.n_examples * self.n_steps

    def read(self, inputs: Float[Tensor, "batch pos width"]) -> Int[Tensor, "batch pos half"]:
        """The patterns of each column's input and output half; -1 for zeros."""
        halves = inputs.unflatten(-1, (2, self.d_x))
        return (halves @ self.patterns.T).argmax(-1).masked_fill(halves.abs().amax(-1) == 0, -1)

    def dependencies(self, batch: Batch) -> Bool[Tensor, "batch query key"]:
        """The examples' columns of the query's step with the query's pattern as input; and the query's own column."""
        pattern = self.read(batch.inputs)[..., 0].to(batch.inputs.device)
        position = torch.arange(self.n_ctx, device=batch.inputs.device)
        same_step = position[:, None] % self.n_steps == position % self.n_steps
        asking, shown = position >= self._first_query, position < self._first_query
        same_pattern = pattern[:, :, None] == pattern[:, None, :]
        own = torch.eye(self.n_ctx, dtype=torch.bool, device=batch.inputs.device)
        return (same_pattern & same_step & shown | own) & asking[:, None]

    def solve(self, inputs: Float[Tensor, "batch pos width"]) -> Int[Tensor, "batch pos"]:
        """What the examples agree on, for prompts without errors: as many of them as start at the query's pattern.

        At each step ceil(alpha l) columns must name one output for the query's pattern. With fewer there is no answer
        (`UNSUPERVISED`), so each of them is needed; one more column that names another output changes nothing.
        """
        quorum, targets = n_similar(self.alpha, self.n_examples), torch.full(inputs.shape[:2], UNSUPERVISED)
        for row, columns in enumerate(self.read(inputs).tolist()):
            for position in range(self._first_query, self.n_ctx):
                shown = columns[position % self.n_steps : self._first_query : self.n_steps]
                named = [output for pattern, output in shown if pattern == columns[position][0]]
                agreed = max(sorted(set(named)), key=named.count, default=None)
                if agreed is not None and named.count(agreed) >= quorum:
                    targets[row, position] = agreed
        return targets
