"""How is a clause decoder taught LEGO? Adam on the next-clause loss, in stages, the last ones on its own answers.

A stage trains at one length. The attention has a learning rate of its own, which may be zero: the first stage of
huang2025's Algorithm 1 teaches one step of the group with attention as it is. A self-labelled stage takes its answers
from a copy of the model as it was when the stage began (Algorithm 2, Definition 5.1).
"""

import copy
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.engine.finite_set import FiniteSet
from toy_models.lego.clause_decoder import ClauseDecoder, ClauseDecoderConfig, clause_decoder
from toy_models.lego.fast_loss import FastLoss
from toy_models.lego.generation import generated
from toy_models.lego.task import STATE, Lego


@dataclass(frozen=True)
class Stage:
    """Adam (0.9, 0.999) with fresh moments."""

    length: int = 5
    """Length of the training sentences."""
    updates: int = 1000
    """Gradient updates."""
    lr: float = 1e-3
    """Learning rate of everything but the attention."""
    attention_lr: float = 1e-3
    """Learning rate of the attention's queries, keys, values and output; 0 leaves them as they are."""
    batch_size: int = 64
    """Sentences per update."""
    self_labelled: bool = False
    """Whether the answers are the model's own, as it was before the stage."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Whether the learning rates fall to 0 along half a cosine, or stay."""
    n_sentences: int | None = None
    """Size of the training set, gone through in a new order every epoch; None: every sentence is fresh."""
    tables: bool = False
    """Whether the loss is computed from tables of distinct tokens: the same to rounding, faster for wide tokens."""

    def __post_init__(self) -> None:
        for name in ("length", "updates", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("lr", "attention_lr"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} must be a number from 0 on, got {getattr(self, name)}")
        if self.n_sentences is not None and self.n_sentences < self.batch_size:
            raise ValueError(
                f"a set of n_sentences={self.n_sentences} has no whole batch of batch_size={self.batch_size}; take "
                "more sentences or smaller batches"
            )

    def rate(self, update: int) -> float:
        """What the learning rates are multiplied by at `update`, in [0, 1]."""
        if self.schedule == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * min(update / self.updates, 1.0)))


@dataclass(frozen=True)
class Point:
    """Where the training is."""

    update: int
    """Gradient updates so far, over all stages."""
    stage: int
    """The stage they belong to, from 0."""
    label_accuracy: float
    """The share of the stage's training sentences so far of which every label is right; 1 if they are given."""


OnPoint = Callable[[Point, ClauseDecoder], None]


def train_lego(
    task: Lego,
    decoder: ClauseDecoderConfig,
    stages: Sequence[Stage],
    seed: int,
    at: Collection[int] = (),
    on_point: OnPoint = lambda _point, _model: None,
    device: torch.device | str = "cpu",
) -> ClauseDecoder:
    """The model after all stages. `on_point` is called after the updates `at`, and at the end of each stage.

    The seed decides initial weights and data. `task` gives group, variables and order; the stages give the lengths.
    """
    model = clause_decoder(decoder, task, seed).to(device)
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    done = 0
    for number, stage in enumerate(stages):
        of_stage = {update - done for update in at if done < update <= done + stage.updates} | {stage.updates}
        started = done

        def report(update: int, label_accuracy: float, number: int = number, started: int = started) -> None:
            on_point(Point(started + update, number, label_accuracy), model)

        train_stage(model, task, stage, generator, of_stage, report)
        done += stage.updates
    return model


def train_stage(
    model: ClauseDecoder,
    task: Lego,
    stage: Stage,
    generator: torch.Generator,
    at: Collection[int] = (),
    on_update: Callable[[int, float], None] = lambda _update, _label_accuracy: None,
) -> None:
    """Trains `model` through one stage; after the updates `at`, `on_update` gets their number and label accuracy."""
    trainer = StageTrainer(model, task, stage, generator)
    while trainer.update < stage.updates:
        trainer.advance()
        if trainer.update in at:
            on_update(trainer.update, trainer.label_accuracy)
    trainer.finish()


class StageTrainer:
    """The mutable state of one stage; sentences are drawn on the CPU and moved to the model's device."""

    def __init__(self, model: ClauseDecoder, task: Lego, stage: Stage, generator: torch.Generator) -> None:
        self.model, self.stage, self.generator = model, stage, generator
        self.task = replace(task, length=stage.length)
        self.device = model.embed.weight.device
        self.teacher = copy.deepcopy(model) if stage.self_labelled else None
        self.attention = list(model.blocks[0].attn.parameters())
        ours = {id(parameter) for parameter in self.attention}
        groups = [
            {"params": [p for p in model.parameters() if id(p) not in ours and p.requires_grad], "base": stage.lr},
            {"params": self.attention, "base": stage.attention_lr},
        ]
        for parameter in self.attention:
            parameter.requires_grad_(stage.attention_lr > 0)
        self.optimiser = torch.optim.Adam([group for group in groups if group["base"] > 0], fused=True)
        self.queries = self.task.answer_positions().to(self.device)
        self.loss_of = FastLoss(model) if stage.tables else partial(next_clause_loss, model)
        self.set = None
        if stage.n_sentences is not None:
            self.set = FiniteSet(self.task, stage.n_sentences, stage.batch_size, generator.initial_seed())
        self.update, self.right, self.loss = 0, 0.0, 0.0

    @property
    def label_accuracy(self) -> float:
        """The share of sentences so far of which every label is right; 1 if the labels are given."""
        return self.right / self.update if self.teacher is not None and self.update else 1.0

    def advance(self) -> None:
        """One update."""
        sentences = self._sentences().to(self.device)
        if self.teacher is not None:
            sentences, accuracy = self_labelled(self.teacher, sentences)
            self.right += accuracy
        for group in self.optimiser.param_groups:
            group["lr"] = group["base"] * self.stage.rate(self.update)
        loss = self.loss_of(sentences, self.queries)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        self.loss = loss.item()
        self.update += 1

    def lower(self, factor: float) -> None:
        """Multiplies every learning rate by `factor` from now on."""
        for group in self.optimiser.param_groups:
            group["base"] *= factor

    def _sentences(self) -> Int[Tensor, "batch clause five"]:
        if self.set is not None:
            return self.set.inputs[self.set.rows(self.update)]
        return self.task.sample(self.stage.batch_size, self.generator).inputs

    def finish(self) -> None:
        """Leaves the model with all its parameters trainable."""
        for parameter in self.attention:
            parameter.requires_grad_(True)


def next_clause_loss(
    model: ClauseDecoder, sentences: Int[Tensor, "batch clause five"], queries: Int[Tensor, "query"]
) -> Float[Tensor, ""]:
    """The mean loss of the clauses after `queries`, nats per clause; only these rows are computed."""
    return model.loss(model(sentences[:, :-1], queries), sentences[:, queries + 1])


@torch.no_grad()
def held_out_loss(model: ClauseDecoder, task: Lego, n_sentences: int, generator: torch.Generator) -> float:
    """The next-clause loss on fresh sentences of `task`, nats per clause."""
    sentences = task.sample(n_sentences, generator).inputs.to(model.embed.weight.device)
    return next_clause_loss(model, sentences, task.answer_positions().to(sentences.device)).item()


def self_labelled(
    teacher: ClauseDecoder, sentences: Int[Tensor, "batch clause five"]
) -> tuple[Int[Tensor, "batch clause five"], float]:
    """The sentences with the teacher's greedy answers 1 to L, and the share in which every state is right."""
    length = sentences.shape[1] // 2
    prompts = sentences[:, : length + 1]
    answers = generated(teacher, prompts, length)
    right = (answers[..., STATE] == sentences[:, length + 1 :, STATE]).all(-1)
    return torch.cat([prompts, answers], dim=1), right.double().mean().item()
