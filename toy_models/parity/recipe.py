"""Which models learn parity from the command line? The standard decoder, and wen2024's simplified block."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.engine.decoder_recipe import DECODER
from toy_models.engine.evaluation import rollout as token_rollout
from toy_models.engine.forward import HookedForward, Reader
from toy_models.engine.loop_run import LoopRun, Progress, RunConfig
from toy_models.engine.recipe import Recipe, identity, register
from toy_models.engine.training_run import moved, stream
from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock
from toy_models.parity.three_steps import initial_block, lr_for_score, sgd_update


@dataclass(frozen=True)
class TheoryTraining:
    """Three updates of SGD (Theorem 3)."""

    d_model: int = 1024
    """Dimension of the random embedding."""
    m: int = 512
    """Half the number of neurons."""
    batch: int = 16_384
    """Fresh sequences of an update; Assumption 2 asks for more than any computer has."""
    eps: float = 10.0
    """Size of the initial weights."""
    score: float = 90.0
    """Expected score of the secret key after two updates (Lemma 21); sets the first two learning rates."""
    third: float = 3.0
    """The third learning rate, in units of Lemma 25's 4 eps m / 3."""

    def __post_init__(self) -> None:
        if min(self.d_model, self.m, self.batch) < 1 or min(self.eps, self.score, self.third) <= 0:
            raise ValueError(f"sizes must be at least 1 and eps, score and third positive, got {self}")


@dataclass(frozen=True)
class TheoryOptions:
    """The simplified block and how it is trained."""

    training: TheoryTraining = field(default_factory=TheoryTraining)
    """Sizes and learning rates."""
    run: RunConfig = field(default_factory=RunConfig)
    """Seed, held-out inputs and stop rule."""


def _fresh(task: Parity, options: TheoryOptions, seed: int) -> SimplifiedBlock:
    training = options.training
    return initial_block(task, training.d_model, training.m, training.eps, stream(seed, "weights")).float()


def _loop(task: Parity, block: SimplifiedBlock, options: TheoryOptions, device: torch.device) -> Iterator[Progress]:
    training, generator = options.training, stream(options.run.seed, "data")
    lr = lr_for_score(training.score, task.n, training.m)
    for update, rate in enumerate((lr, lr, training.third * 4 * training.eps * training.m / 3), start=1):
        loss = sgd_update(block, task.sample(training.batch, generator).to(device), rate)
        yield Progress(update * training.batch, update, loss / task.k)


def _start(task: Parity, options: TheoryOptions, device: torch.device) -> LoopRun:
    block, read = moved(_fresh(task, options, options.run.seed), device), _reader(task)
    forward = HookedForward(block, read=read)
    return LoopRun(
        task, block, _loop(task, block, options, device), options.run, budget=3 * options.training.batch,
        path="simplified block by three updates (Theorem 3)", read=read,
        rollout=lambda batch: token_rollout(forward, batch), identity=identity(task, THEORY, options), device=device,
    )  # fmt: skip


def _reader(task: Parity) -> Reader:
    """T(b) is positive if the next token is 1."""

    def read(output: Float[Tensor, "batch pos"], positions: Int[Tensor, "supervised"]) -> Tensor:
        values = output[:, positions]
        return torch.stack([-values, values], dim=-1)

    return read


THEORY = Recipe(
    model="theory",
    summary="the simplified block of Theorem 3, trained by three updates of SGD; needs CoT",
    options=TheoryOptions,
    seed=lambda options: options.run.seed,
    fresh=_fresh,
    start=_start,
    reader=_reader,
    test=lambda task, options: options.run.held_out(task).test,
)
register("parity", DECODER)
register("parity", THEORY)
