"""How is huang2025's theory model trained on LEGO from the command line? Algorithms 1 and 2."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.engine.forward import Reader
from toy_models.engine.loop_run import LoopRun, Progress, RunConfig
from toy_models.engine.recipe import Recipe, identity, register
from toy_models.engine.training_run import moved, stream
from toy_models.lego.task import ANSWERED, STATE, Lego
from toy_models.lego.theory_model import LegoTheory, LegoTheoryConfig
from toy_models.lego.theory_training import Descent, attention_updates, self_labelled, train_slot
from toy_models.task import Batch


@dataclass(frozen=True)
class TheoryTraining:
    """Gradient descent on fresh sentences: W at length 1, then Q at length 2, then on its own answers."""

    algorithm: Literal["1", "2"] = "1"
    """Algorithm 1 ends at length 2; Algorithm 2 goes on at 4, 8, ..., on answers of the model of the stage before."""
    states_lr: float = 20.0
    """Learning rate of the states' weights: 20 for C6, 15 for S5."""
    states_updates: int = 300
    """Updates that teach the states: 300 for C6, 2500 for S5."""
    variables_updates: int = 60
    """Updates that teach which variable comes next."""
    lr: float = 0.2
    """Learning rate of Q, in units of the number of variables."""
    updates: int = 500
    """Updates of Q at each length."""
    batch_size: int = 128
    """Fresh sentences of an update of Q; 144 for those before."""
    longest: int = 16
    """Algorithm 2: the longest sentences that Q is trained on."""
    eval_every: int = 100
    """Updates of Q between evaluations."""

    def __post_init__(self) -> None:
        for name in ("states_updates", "variables_updates", "updates", "batch_size", "eval_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.longest < 2:
            raise ValueError(f"longest must be at least 2, got {self.longest}")

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths that Q is trained at."""
        most = self.longest if self.algorithm == "2" else 2
        return tuple(2**stage for stage in range(1, most.bit_length()))

    @property
    def budget(self) -> int:
        """Sentences of all updates."""
        first = ONE_STEP_BATCH * (self.states_updates + self.variables_updates)
        return first + len(self.lengths) * self.updates * self.batch_size


ONE_STEP_BATCH = 144
"""Sentences of an update at length 1."""


@dataclass(frozen=True)
class TheoryOptions:
    """The theory model and how it is trained."""

    theory: LegoTheoryConfig = field(default_factory=lambda: LegoTheoryConfig(clip=3.0))
    """The constants that the paper leaves open."""
    training: TheoryTraining = field(default_factory=TheoryTraining)
    """The algorithm and its numbers."""
    run: RunConfig = field(default_factory=RunConfig)
    """Seed, held-out inputs and stop rule."""


def _fresh(task: Lego, options: TheoryOptions, seed: int) -> LegoTheory:
    return LegoTheory(task.d_vocab, options.theory, stream(seed, "weights"))


def _loop(task: Lego, model: LegoTheory, options: TheoryOptions) -> Iterator[Progress]:
    training, seed = options.training, options.run.seed
    variables = Descent(1.0, training.variables_updates, ONE_STEP_BATCH)
    states = Descent(training.states_lr, training.states_updates, ONE_STEP_BATCH)
    train_slot(model, task, ANSWERED, variables, stream(seed, "variables"))
    loss = train_slot(model, task, STATE, states, stream(seed, "states"))
    updates = training.variables_updates + training.states_updates
    samples = updates * ONE_STEP_BATCH
    yield Progress(samples, updates, loss)
    teacher, descent = None, Descent(training.lr, training.updates, training.batch_size)
    for length in training.lengths:
        sentences, answers = replace(task, length=length), [0, 1] if length == 2 else [1]
        losses = attention_updates(model, sentences, answers, descent, stream(seed, f"length {length}"), teacher)
        for done, loss in enumerate(losses):  # a loss is that before its update
            if done and done % training.eval_every == 0:
                yield Progress(samples + done * training.batch_size, updates + done, loss)
        samples, updates = samples + training.updates * training.batch_size, updates + training.updates
        teacher = copy.deepcopy(model)
        yield Progress(samples, updates, loss)


def _start(task: Lego, options: TheoryOptions, device: torch.device) -> LoopRun:
    longest = max(options.training.lengths)
    if task.n_variables < longest + 1:
        raise ValueError(f"sentences of length {longest} name {longest + 1} variables, got {task.n_variables}")
    model = moved(_fresh(task, options, options.run.seed), device)

    def rollout(batch: Batch) -> Int[Tensor, "batch answer"]:
        return self_labelled(model, batch.inputs, task.length)[:, task.length + 1 :, STATE]

    return LoopRun(
        task, model, _loop(task, model, options), options.run, budget=options.training.budget,
        path=f"theory model by Algorithm {options.training.algorithm}", read=_reader(task), rollout=rollout,
        identity=identity(task, THEORY, options), device=device,
    )  # fmt: skip


def _reader(task: Lego) -> Reader:
    """The logits of the state's slot."""

    def read(output: Float[Tensor, "batch pos five vocab"], positions: Int[Tensor, "supervised"]) -> Tensor:
        return output[:, positions, STATE]

    return read


THEORY = register(
    "lego",
    Recipe(
        model="theory",
        summary="one layer on one-hot clauses with block-sparse attention (Algorithms 1 and 2)",
        options=TheoryOptions,
        seed=lambda options: options.run.seed,
        fresh=_fresh,
        start=_start,
        reader=_reader,
        test=lambda task, options: options.run.held_out(task).test,
    ),
)
