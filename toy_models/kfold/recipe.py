"""Which models learn k-fold composition? A standard encoder, wang2025's theory model, and a decoder with CoT."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.engine.decoder_recipe import DECODER
from toy_models.engine.forward import Reader
from toy_models.engine.loop_run import LoopRun, Progress, RunConfig
from toy_models.engine.recipe import Recipe, identity, register
from toy_models.engine.training_run import moved, stream, stream_seed
from toy_models.kfold.curricula import examples, mixture, stagewise
from toy_models.kfold.encoder import EncoderConfig, HookedEncoder
from toy_models.kfold.hop_training import Curriculum, HopLoop, fresh_encoder
from toy_models.kfold.task import KFold
from toy_models.kfold.theory_model import KFoldTheory


@dataclass(frozen=True)
class EncoderTraining:
    """Adam with a constant learning rate; every position is labelled with every hop of the curriculum."""

    curriculum: Curriculum = "mixture"
    """Which hops are trained on: all, one after another from easy to hard, or the hardest alone."""
    lr: float = 2e-3
    """Learning rate."""
    batch_size: int = 64
    """Sequences of an update."""
    budget: int = 100_000
    """Sequences to train on at most."""
    eval_every: int = 6_400
    """Sequences between evaluations."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "budget", "eval_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.lr > 0:
            raise ValueError(f"lr must be a positive number, got {self.lr}")


@dataclass(frozen=True)
class EncoderOptions:
    """A standard encoder and how it is trained."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """The encoder's sizes."""
    training: EncoderTraining = field(default_factory=EncoderTraining)
    """Curriculum and optimiser."""
    run: RunConfig = field(default_factory=RunConfig)
    """Seed, held-out inputs and stop rule."""


def _fresh_encoder(task: KFold, options: EncoderOptions, seed: int) -> HookedEncoder:
    return fresh_encoder(task, options.encoder, stream_seed(seed, "weights"))


def _start_encoder(task: KFold, options: EncoderOptions, device: torch.device) -> LoopRun:
    model = moved(_fresh_encoder(task, options, options.run.seed), device)
    training, validation = options.training, options.run.held_out(task).validation.inputs.to(device)
    loop = HopLoop(
        model, task, validation, stream(options.run.seed, "data"), curriculum=training.curriculum, lr=training.lr,
        batch_size=training.batch_size, budget=training.budget, eval_every=training.eval_every,
    )  # fmt: skip
    return LoopRun(
        task, model, loop, options.run, budget=training.budget, path=f"encoder by Adam, {training.curriculum}",
        read=_read_encoder(task), rollout=None, identity=identity(task, ENCODER, options), device=device,
    )  # fmt: skip


def _read_encoder(task: KFold) -> Reader:
    """The readout of the task's hop: the only one with a hop token, else the last."""

    def read(output: Float[Tensor, "batch readout pos n"], positions: Int[Tensor, "supervised"]) -> Tensor:
        return output[:, -1, positions]

    return read


@dataclass(frozen=True)
class TheoryTraining:
    """Plain gradient descent with a few large updates."""

    algorithm: Literal["stagewise", "mixture"] = "stagewise"
    """One hop after another (Algorithm 1), or all hops together (Algorithm 2)."""
    n_sequences: int = 1_000
    """Sequences of a stage (the paper's M), labelled at every position."""
    one_query: bool = False
    """Whether one position of each sequence is labelled, as in the paper; needs kN times as many sequences."""
    rate: float = 30.0
    """Learning rate, in units of (kN)^2."""

    def __post_init__(self) -> None:
        if self.n_sequences < 1 or not self.rate > 0:
            raise ValueError(f"need sequences and a positive rate, got {self.n_sequences} and {self.rate}")


@dataclass(frozen=True)
class TheoryOptions:
    """The theory model and how it is trained."""

    training: TheoryTraining = field(default_factory=TheoryTraining)
    """The algorithm and its numbers."""
    run: RunConfig = field(default_factory=RunConfig)
    """Seed, held-out inputs and stop rule."""


def _fresh_theory(task: KFold, options: TheoryOptions, seed: int) -> KFoldTheory:
    """Without random weights: any seed gives the same model."""
    if task.hop_token:
        raise ValueError("the theory model has a readout for each hop: leave out --hop-token, or train the encoder")
    return KFoldTheory(task.k, task.n)


def _theory_loop(task: KFold, model: KFoldTheory, options: TheoryOptions, device: torch.device) -> Iterator[Progress]:
    training, seed = options.training, options.run.seed
    every_hop = replace(task, hop=task.k, cyclic=True)
    test = examples(every_hop, 64, stream(seed, "snapshots")).to(device)
    algorithm = stagewise if training.algorithm == "stagewise" else mixture
    run = algorithm(
        model, every_hop, training.n_sequences, training.rate * (task.k * task.n) ** 2, stream(seed, "data"),
        test, training.one_query,
    )  # fmt: skip
    index = task.hop.bit_length() - 1
    for at in run:
        if at.update:
            yield Progress(at.update * training.n_sequences, at.update, at.loss[index])


def _start_theory(task: KFold, options: TheoryOptions, device: torch.device) -> LoopRun:
    model = moved(_fresh_theory(task, options, options.run.seed), device)
    n_updates = 2 * model.n_layers if options.training.algorithm == "stagewise" else model.n_layers + 1
    return LoopRun(
        task, model, _theory_loop(task, model, options, device), options.run,
        budget=n_updates * options.training.n_sequences, path=f"theory model, {options.training.algorithm}",
        read=_read_theory(task), rollout=None, identity=identity(task, THEORY, options), device=device,
    )  # fmt: skip


def _read_theory(task: KFold) -> Reader:
    """The readout of the task's hop."""
    index = task.hop.bit_length() - 1

    def read(output: Float[Tensor, "batch hop pos n"], positions: Int[Tensor, "supervised"]) -> Tensor:
        return output[:, index, positions]

    return read


ENCODER = Recipe(
    model="encoder",
    summary="a standard encoder with a readout for each hop, trained by Adam on a curriculum of hops",
    options=EncoderOptions,
    seed=lambda options: options.run.seed,
    fresh=_fresh_encoder,
    start=_start_encoder,
    reader=_read_encoder,
    test=lambda task, options: options.run.held_out(task).test,
)
THEORY = Recipe(
    model="theory",
    summary="the attention-only encoder of Theorem 4, trained by a few large updates (Algorithms 1 and 2)",
    options=TheoryOptions,
    seed=lambda options: options.run.seed,
    fresh=_fresh_theory,
    start=_start_theory,
    reader=_read_theory,
    test=lambda task, options: options.run.held_out(task).test,
)
register("kfold", ENCODER)
register("kfold", THEORY)
register("kfold_cot", DECODER)
