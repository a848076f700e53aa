"""Which models learn to reason in context? The theory model of li2024 on vectors, the standard decoder on tokens."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.engine.decoder_recipe import DECODER
from toy_models.engine.forward import Reader
from toy_models.engine.loop_run import LoopRun, Progress, RunConfig
from toy_models.engine.recipe import Recipe, identity, register
from toy_models.engine.training_run import moved, stream
from toy_models.incontext.space import Space
from toy_models.incontext.task import IncontextCot
from toy_models.incontext.theory_model import IncontextAttention
from toy_models.incontext.training import Setup, sgd
from toy_models.task import Batch


@dataclass(frozen=True)
class TheoryTraining:
    """SGD on the squared loss (Algorithm 1), always on training prompts with their steps shown."""

    eta: float = 10.0
    """Learning rate."""
    iterations: int = 400
    """Gradient updates."""
    rows: int = 20
    """Prompts of an update, each asked at all steps; a multiple of the number of patterns is balanced."""
    xi: float = 1e-3
    """Standard deviation of the initial entries of W."""
    eval_every: int = 40
    """Updates between evaluations."""

    def __post_init__(self) -> None:
        for name in ("iterations", "rows", "eval_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not (self.eta > 0 and self.xi >= 0):
            raise ValueError(f"eta must be positive and xi at least 0, got eta={self.eta}, xi={self.xi}")


@dataclass(frozen=True)
class TheoryOptions:
    """The theory model and how it is trained."""

    training: TheoryTraining = field(default_factory=TheoryTraining)
    """SGD's numbers."""
    run: RunConfig = field(default_factory=RunConfig)
    """Seed, held-out inputs and stop rule."""


def _setup(task: IncontextCot, training: TheoryTraining) -> Setup:
    return Setup(
        task.d_x, task.n_patterns, task.n_testing, task.n_steps, task.n_examples, task.alpha, training.eta,
        training.iterations, training.rows, training.xi,
    )  # fmt: skip


def _fresh(task: IncontextCot, options: TheoryOptions, seed: int) -> IncontextAttention:
    model = IncontextAttention(task.d_x, task.n_steps)
    with torch.no_grad():
        model.W.copy_(_setup(task, options.training).initial([stream(seed, "weights")])[0])
    return model


def _loop(
    task: IncontextCot, model: IncontextAttention, options: TheoryOptions, device: torch.device
) -> Iterator[Progress]:
    training = options.training
    one = task.space
    space = Space.stacked([one])
    space = Space(*(part.to(device) for part in (space.training, space.testing, space.positions, space.directions)))
    stops = range(training.eval_every, training.iterations, training.eval_every)
    initial = model.W.detach().clone()[None]
    for update, weights, loss in sgd(
        _setup(task, training), space, initial, [stream(options.run.seed, "data")], stops
    ):
        with torch.no_grad():
            model.W.copy_(weights[0])
        yield Progress(update * training.rows, update, loss.item())


def _start(task: IncontextCot, options: TheoryOptions, device: torch.device) -> LoopRun:
    model = moved(_fresh(task, options, options.run.seed), device)
    n_outputs = task.n_steps if task.cot else 1
    first, patterns = task.n_examples * task.n_steps, task.patterns.to(device)

    def rollout(batch: Batch) -> Int[Tensor, "batch output"]:
        query = batch.inputs[:, first, : task.d_x]
        return model.generate(batch.inputs[:, :first], query, patterns, n_outputs)

    return LoopRun(
        task, model, _loop(task, model, options, device), options.run,
        budget=options.training.iterations * options.training.rows, path="theory model by SGD (Algorithm 1)",
        read=_reader(task), rollout=rollout, identity=identity(task, THEORY, options), device=device,
    )  # fmt: skip


def _reader(task: IncontextCot) -> Reader:
    """Greedy decoding (5) as logits: minus half the squared distance to every pattern, up to a constant."""

    def read(output: Float[Tensor, "batch pos d"], positions: Int[Tensor, "supervised"]) -> Tensor:
        patterns = task.patterns.to(output.device)
        return output[:, positions] @ patterns.T - patterns.square().sum(-1) / 2

    return read


THEORY = Recipe(
    model="theory",
    summary="one attention layer on columns of vectors, trained by SGD on the squared loss (Algorithm 1)",
    options=TheoryOptions,
    seed=lambda options: options.run.seed,
    fresh=_fresh,
    start=_start,
    reader=_reader,
    test=lambda task, options: options.run.held_out(task).test,
)
register("incontext_cot", THEORY)
register("incontext_tokens", DECODER)
