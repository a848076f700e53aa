"""Reasoning in context for a standard decoder: the prompts of `incontext_cot` with one token for each column.

A column (input; output) of an example is one of M^2 tokens; a column of the query, whose output is still to come, is
one of M tokens, the number of its pattern. So the target of a query's column, the pattern z_k, is the next token: the
chain is next-token prediction, and a rollout feeds back what it predicts. Without CoT an example is one column, its
input with its label. Errors are given as the accuracy of a step, for testing (`Errors.offset`).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toy_models.incontext.errors import Errors
from toy_models.incontext.prompts import Prompts, draw_prompts, n_similar
from toy_models.task import UNSUPERVISED, Batch, register


@register
@dataclass(frozen=True)
class IncontextTokens:
    """Prompts of in-context examples as tokens."""

    name: ClassVar[str] = "incontext_tokens"

    n_patterns: int = 10
    """Number of patterns (M)."""
    n_steps: int = 3
    """Number of steps (K)."""
    n_examples: int = 20
    """Number of examples in a prompt (l)."""
    alpha: float = 0.4
    """Share of the examples that start at the query's pattern."""
    cot: bool = True
    """Whether the examples show their steps, or inputs and labels alone."""
    accuracy: float = 1.0
    """Probability that a step of an example is right; otherwise it goes one pattern too far."""

    def __post_init__(self) -> None:
        if not (0 < self.alpha <= 1 and self.n_examples >= 1 and self.n_steps >= 1):
            raise ValueError(
                f"a prompt needs alpha in (0, 1], examples and steps, got alpha={self.alpha}, "
                f"n_examples={self.n_examples}, n_steps={self.n_steps}"
            )
        _ = self.errors  # refuses at once what cannot be made

    @cached_property
    def errors(self) -> Errors:
        """The laws of the examples' errors."""
        return Errors.offset(self.accuracy, self.n_steps, self.n_patterns)

    @property
    def d_vocab(self) -> int:
        return self.n_patterns + self.n_patterns**2

    @property
    def n_columns(self) -> int:
        """Columns of an example, and of the query."""
        return self.n_steps if self.cot else 1

    @property
    def n_ctx(self) -> int:
        return (self.n_examples + 1) * self.n_columns

    @property
    def n_inputs(self) -> int:
        return math.factorial(self.n_patterns) * (self.n_patterns - 1) ** (
            self.n_examples - n_similar(self.alpha, self.n_examples)
        )

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """n prompts, balanced, their examples in random order."""
        drawn = draw_prompts(n, self.n_patterns, self.n_examples, self.alpha, self.errors, generator)
        prompts = drawn.shuffled(generator)
        prompts = prompts if self.cot else prompts.shortcut
        pairs = prompts.examples[..., :-1] * self.n_patterns + prompts.examples[..., 1:]
        inputs = torch.cat([self.n_patterns + pairs.flatten(1), prompts.query[:, :-1]], dim=1)
        targets = torch.full_like(inputs, UNSUPERVISED)
        targets[:, -self.n_columns :] = prompts.query[:, 1:]
        return Batch(inputs, targets)

    def read(self, inputs: Int[Tensor, "batch pos"]) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
        """The input and the output of each column; -1 for an output that is still to come."""
        open_column = inputs < self.n_patterns
        pair = inputs - self.n_patterns
        first = torch.where(open_column, inputs, pair // self.n_patterns)
        return first, torch.where(open_column, -1, pair % self.n_patterns)

    def prompts(self, batch: Batch) -> Prompts:
        """The patterns that a batch's tokens stand for; without CoT inputs and labels alone."""
        first, second = self.read(batch.inputs)
        shape = (len(batch.inputs), self.n_examples + 1, self.n_columns)
        inputs, outputs = first.view(shape), second.view(shape)[:, :-1]
        examples = torch.cat([inputs[:, :-1], outputs[..., -1:]], dim=-1)
        return Prompts(examples, torch.cat([inputs[:, -1], batch.answers[:, -1:]], dim=-1))

    def dependencies(self, batch: Batch) -> Bool[Tensor, "batch query key"]:
        """The examples' columns of the query's step with the query's pattern as input; and the query's own column."""
        pattern, _ = self.read(batch.inputs)
        position = torch.arange(self.n_ctx, device=batch.inputs.device)
        same_step = position[:, None] % self.n_columns == position % self.n_columns
        asking = position >= self.n_ctx - self.n_columns
        same_pattern = pattern[:, :, None] == pattern[:, None, :]
        own = torch.eye(self.n_ctx, dtype=torch.bool, device=batch.inputs.device)
        return (same_pattern & same_step & ~asking | own) & asking[:, None]

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
        """What ceil(alpha l) columns of the query's step agree on, as in `IncontextCot.solve`; for accuracy 1."""
        quorum, targets = n_similar(self.alpha, self.n_examples), torch.full_like(inputs, UNSUPERVISED)
        patterns, outputs = (part.tolist() for part in self.read(inputs))
        first_query = self.n_ctx - self.n_columns
        for row, (pattern, output) in enumerate(zip(patterns, outputs)):
            for position in range(first_query, self.n_ctx):
                same_step = range(position % self.n_columns, first_query, self.n_columns)
                named = [output[key] for key in same_step if pattern[key] == pattern[position]]
                agreed = max(sorted(set(named)), key=named.count, default=-1)
                if agreed >= 0 and named.count(agreed) >= quorum:
                    targets[row, position] = agreed
        return targets
