"""How is the theory model of li2024 trained? SGD on the squared loss (Algorithm 1), many seeds at once.

Every column of a training prompt is a sum of three orthonormal features: its input pattern, its output pattern and
its step. Only the products of W with features matter, and every gradient is a combination of outer products of
features, so training needs no vectors: it updates W in the coordinates of the features, which is exact. The gradient
is closed: with attention s_i on a column p_i of output y_i it is sum_i s_i (y_i - F).(F - z) p_i p_query^T.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.incontext.errors import Errors
from toy_models.incontext.prompts import Prompts, draw_prompts
from toy_models.incontext.space import Space, features

Weights = Float[Tensor, "seed width width"]
DRAWN = 50
"""Iterations whose prompts are drawn at once."""


@dataclass(frozen=True)
class Setup:
    """The sizes of the paper's appendix E, and numbers of ours where it gives none."""

    d_x: int = 30
    n_training: int = 20
    n_testing: int = 10
    n_steps: int = 3
    n_examples: int = 20
    """Examples of a training prompt."""
    alpha: float = 0.4
    eta: float = 10.0
    """Learning rate."""
    iterations: int = 400
    rows: int = 20
    """Prompts of an iteration, each asked at all K steps; a multiple of the number of patterns is balanced."""
    xi: float = 1e-3
    """Standard deviation of the initial entries of W."""
    added: bool = False
    """Whether positional vectors are added to the inputs or appended."""
    by_chance: bool = False
    """Whether examples share the query's pattern each with probability alpha, or an exact share of them does."""

    @property
    def width(self) -> int:
        return 2 * self.d_x + (0 if self.added else self.n_steps)

    def spaces(self, generators: Sequence[torch.Generator]) -> Space:
        """One space for each seed."""
        drawn = [Space.draw(self.d_x, self.n_training, self.n_testing, self.n_steps, g) for g in generators]
        return Space.stacked(drawn)

    def initial(self, generators: Sequence[torch.Generator]) -> Weights:
        """The initial W of each seed."""
        return self.xi * torch.stack([torch.randn(self.width, self.width, generator=g) for g in generators])

    def features(self, patterns: Float[Tensor, "*seed m d"], space: Space) -> Float[Tensor, "*seed feature width"]:
        """The features of columns made of `patterns`."""
        return features(patterns, self.n_steps, space.positions if self.added else None)


def sgd(
    setup: Setup, space: Space, initial: Weights, generators: Sequence[torch.Generator], keep: Sequence[int] = ()
) -> Iterator[tuple[int, Weights, Float[Tensor, "seed"]]]:
    """The number of updates, W and the loss of the next batch: at each of `keep`, and at the end."""
    basis = setup.features(space.training, space)
    start = basis @ initial @ basis.mT
    moved = torch.zeros_like(start)
    wanted = {*keep, setup.iterations}
    for iteration, prompts in zip(range(setup.iterations + 1), training_prompts(setup, generators)):
        loss, gradient = loss_and_gradient(start + moved, prompts.to(start.device))
        if iteration in wanted:
            yield iteration, initial + basis.mT @ moved @ basis, loss
        moved = moved - setup.eta * gradient


def training_prompts(setup: Setup, generators: Sequence[torch.Generator]) -> Iterator[Prompts]:
    """One batch of prompts after another, [seed batch ...]."""
    right = Errors.none(setup.n_steps, setup.n_training)
    sizes = setup.rows * DRAWN, setup.n_training, setup.n_examples
    while True:
        drawn = [draw_prompts(*sizes, setup.alpha, right, g, by_chance=setup.by_chance) for g in generators]
        for start in range(0, setup.rows * DRAWN, setup.rows):
            part = slice(start, start + setup.rows)
            yield Prompts(
                torch.stack([prompts.examples[part] for prompts in drawn]),
                torch.stack([prompts.query[part] for prompts in drawn]),
            )


def loss_and_gradient(
    weights: Float[Tensor, "seed feature feature"], prompts: Prompts
) -> tuple[Float[Tensor, "seed"], Float[Tensor, "seed feature feature"]]:
    """The loss (3) of prompts asked at each of the K steps, and its gradient, W being given by features."""
    n_steps = prompts.n_steps
    m = n_patterns_of(weights, n_steps)
    asked, labels = prompts.query[..., :-1], prompts.query[..., 1:]  # [seed batch step]
    attention, columns = query_attention(weights, prompts)
    outputs = columns[..., 1, :] - m
    error = attention.new_zeros(*attention.shape[:-1], m).scatter_add(-1, outputs, attention)
    error.scatter_add_(-1, labels[..., None], -torch.ones_like(error[..., :1]))
    along = error.gather(-1, outputs)
    pull = attention * (along - (attention * along).sum(-1, keepdim=True))
    empty = weights.new_zeros(*asked.shape, weights.shape[-1])
    pulled = empty.scatter_add(-1, columns.flatten(-2), pull[..., None, :].expand_as(columns).flatten(-2))
    query = empty.scatter(-1, asked[..., None], 1.0)
    query[..., 2 * m :] = torch.eye(n_steps, device=query.device)
    n_queries = asked[0].numel()
    gradient = pulled.flatten(1, 2).mT @ query.flatten(1, 2) / n_queries
    return error.square().sum((1, 2, 3)) / 2 / n_queries, gradient


def query_attention(
    weights: Float[Tensor, "seed feature feature"], prompts: Prompts
) -> tuple[Float[Tensor, "seed batch step key"], Int[Tensor, "seed batch step 3 key"]]:
    """The attention of the query at each step on the columns before it, and the features of these columns."""
    n_steps = prompts.n_steps
    m = n_patterns_of(weights, n_steps)
    seed = torch.arange(len(weights), device=weights.device)[:, None, None]
    by_query = weights.mT
    towards = (
        by_query[seed, prompts.query[..., :-1]] + by_query[:, None, 2 * m :]
    )  # [seed batch step feature]: W p_query
    columns = column_features(prompts, m)[:, :, None].expand(-1, -1, n_steps, -1, -1)
    scores = towards[..., None, :].expand(*columns.shape[:-1], -1).gather(-1, columns).sum(-2)
    visible = _visible(n_steps, scores.shape[-1], scores.device)
    return scores.masked_fill(~visible, -torch.inf).softmax(-1), columns


def n_patterns_of(weights: Float[Tensor, "seed feature feature"], n_steps: int) -> int:
    """M, from W in the coordinates of M inputs, M outputs and K steps."""
    return (weights.shape[-1] - n_steps) // 2


def column_features(prompts: Prompts, m: int) -> Int[Tensor, "seed batch 3 key"]:
    """The numbers of the features of each column: the examples', then the query's first K - 1."""
    columns = torch.cat([prompts.examples, prompts.query[..., None, :]], dim=-2)
    inputs, outputs = columns[..., :-1].flatten(-2), columns[..., 1:].flatten(-2)
    steps = (torch.arange(inputs.shape[-1], device=inputs.device) % prompts.n_steps).expand_as(inputs)
    return torch.stack([inputs, m + outputs, 2 * m + steps], dim=-2)[..., :-1]


def _visible(n_steps: int, n_keys: int, device: torch.device) -> Tensor:
    """Step k sees the examples and the query's columns before its own."""
    first = n_keys - (n_steps - 1)
    return torch.arange(n_keys, device=device) < first + torch.arange(n_steps, device=device)[:, None]
