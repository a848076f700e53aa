"""Which models learn tree parity from the command line? The standard decoder, and kim2024's theory model."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.engine.decoder_recipe import DECODER
from toy_models.engine.forward import Reader
from toy_models.engine.loop_run import LoopRun, Progress, RunConfig
from toy_models.engine.recipe import Recipe, identity, register
from toy_models.engine.training_run import moved, stream
from toy_models.task import Batch
from toy_models.tree_parity.filter import Filter
from toy_models.tree_parity.forest import Forest, Mask, Sample
from toy_models.tree_parity.gradient import forced_gradients
from toy_models.tree_parity.links import find_link
from toy_models.tree_parity.task import TreeParity
from toy_models.tree_parity.theory_model import PositionAttention
from toy_models.tree_parity.training import sgd, solve_levels

Algorithm = Literal["one_update", "levels", "direct", "end_to_end", "teacher_forcing", "filter"]


@dataclass(frozen=True)
class TheoryTraining:
    """Theorem 5, Theorem 7, or SGD in one of its regimes."""

    algorithm: Algorithm = "one_update"
    """One update with the true chain given (Theorem 5); one level for each update (Theorem 7); or SGD, told the root
    alone (from random weights), every node of its own chain, every node with the true chain given, or as far as a
    filter lets through."""
    eta: float = 1.5
    """Learning rate, in units of d^2; SGD's own, not in these units, is about 1e-2."""
    n: int = 131_072
    """Inputs of an update by the theorems; SGD takes `batch_size`."""
    batch_size: int = 512
    """SGD: fresh inputs of an update."""
    n_updates: int = 100
    """SGD: updates."""
    eval_every: int = 10
    """SGD: updates between evaluations."""
    eps_0: float = 1.8
    """Theorem 7 and the regime `filter`: nodes whose answers are all this near to -1 have learned nothing yet."""
    link: Literal["piecewise", "quartic", "cosine"] = "piecewise"
    """The link function, which turns the mean of two values into their product."""

    def __post_init__(self) -> None:
        for name in ("n", "batch_size", "n_updates", "eval_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.eta > 0:
            raise ValueError(f"eta must be positive, got {self.eta}")
        Filter(self.eps_0)  # refuses what is no distance

    @property
    def mask(self) -> Mask:
        """What a node sees: Theorem 5 has every earlier position, the others the levels below."""
        return "position" if self.algorithm == "one_update" else "level"

    def budget(self, n_levels: int) -> int:
        """Inputs that the updates take, each counted as often as it is used."""
        by_theorem = {"one_update": self.n, "levels": n_levels * self.n}
        return by_theorem.get(self.algorithm, self.n_updates * self.batch_size)


@dataclass(frozen=True)
class TheoryOptions:
    """The theory model and how it is trained."""

    training: TheoryTraining = field(default_factory=TheoryTraining)
    """The algorithm and its numbers."""
    run: RunConfig = field(default_factory=RunConfig)
    """Seed, held-out inputs and stop rule."""


def _fresh(task: TreeParity, options: TheoryOptions, seed: int) -> PositionAttention:
    if not task.cot:
        raise ValueError("the theory model writes the tree's nodes: leave out --no-cot, or train --model decoder")
    return PositionAttention(Forest.of([task]), options.training.mask, options.training.link)


def _loop(
    task: TreeParity, model: PositionAttention, options: TheoryOptions, device: torch.device
) -> Iterator[Progress]:
    """The chosen algorithm; the weights are written into the model wherever it stops."""
    training, seed = options.training, options.run.seed
    forest, link = Forest.of([task]).to(device), find_link(training.link)
    data, more = [stream(seed, "data")], [stream(seed, "augmented")]
    if training.algorithm in ("one_update", "levels"):
        sample = Sample.draw(task.d, training.n, data).to(device)
        rate = training.eta * task.d**2
        if training.algorithm == "one_update":
            (_, gradient), *_ = forced_gradients(forest.no_weights(), forest, sample, link)
            found = iter([-rate * gradient])
        else:
            shown = Sample.draw(task.d, task.d, more).to(device)
            check = Filter(training.eps_0)
            found = solve_levels(forest, sample, shown, eta=rate, link=link, check=check)
        for update, weights in enumerate(found, start=1):
            _write(model, weights)
            yield Progress(update * training.n, update)
        return
    test = forest.grown(Sample.draw(task.d, 256, [stream(seed, "sgd test")]).to(device).values(0, 256))
    run = sgd(
        forest, training.algorithm, test, data, eta=training.eta, link=link, n_updates=training.n_updates,
        batch_size=training.batch_size, eval_every=training.eval_every, check=Filter(training.eps_0),
        n_augmented=task.d,
        start=forest.random_weights([stream(seed, "weights")]) if training.algorithm == "direct" else None,
    )  # fmt: skip
    for at in run:
        if at.update:
            _write(model, at.weights)
            yield Progress(at.update * training.batch_size, at.update, at.loss.item())


@torch.no_grad()
def _write(model: PositionAttention, weights: Float[Tensor, "1 node key"]) -> None:
    model.W.copy_(weights[0])


def _start(task: TreeParity, options: TheoryOptions, device: torch.device) -> LoopRun:
    model = moved(_fresh(task, options, options.run.seed), device)

    def rollout(batch: Batch) -> Int[Tensor, "batch node"]:
        with torch.no_grad():
            return (model.rollout(batch.inputs[:, : task.d]) < 0).long()

    return LoopRun(
        task, model, _loop(task, model, options, device), options.run,
        budget=options.training.budget(n_levels=task.k.bit_length() - 1),
        path=f"theory model by {options.training.algorithm}", read=_reader(task), rollout=rollout,
        identity=identity(task, THEORY, options), device=device,
    )  # fmt: skip


def _reader(task: TreeParity) -> Reader:
    """Node i, at position d - 1 + i, has a value in [-1, 1]: token 0 is +1."""

    def read(nodes: Float[Tensor, "batch node"], positions: Int[Tensor, "supervised"]) -> Tensor:
        values = nodes[:, positions - (task.d - 1)]
        return torch.stack([values, -values], dim=-1)

    return read


THEORY = Recipe(
    model="theory",
    summary="attention by position alone and a fixed link function; Theorem 5 (one update), Theorem 7 or SGD",
    options=TheoryOptions,
    seed=lambda options: options.run.seed,
    fresh=_fresh,
    start=_start,
    reader=_reader,
    test=lambda task, options: options.run.held_out(task).test,
)
register("tree_parity", DECODER)
register("tree_parity", THEORY)
