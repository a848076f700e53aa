"""How is the clause decoder trained on LEGO from the command line? In stages, in two variants."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from probes.base import checkpoint
from toy_models.engine.forward import Reader
from toy_models.engine.loop_run import LoopRun, Progress, RunConfig
from toy_models.engine.recipe import Recipe, identity, register
from toy_models.engine.training_run import moved, stream, stream_seed
from toy_models.lego.clause_decoder import (
    STANDARD,
    THEORY,
    ClauseDecoder,
    ClauseDecoderConfig,
    clause_decoder,
    slots,
)
from toy_models.lego.generation import generated
from toy_models.lego.task import BLANK, CLAUSE, STATE, Lego
from toy_models.lego.training import Stage, StageTrainer
from toy_models.task import Batch


@dataclass(frozen=True)
class StagedTraining:
    """Adam in stages: length 1, which teaches the group, then the task's length, which teaches where to look."""

    first: int = 1000
    """Updates at length 1, with the attention as it is; 0: training starts at the task's length."""
    updates: int = 1000
    """Updates at the task's length."""
    first_lr: float = 3e-3
    """Learning rate at length 1."""
    lr: float = 1e-3
    """Learning rate at the task's length."""
    attention_lr: float = 1e-2
    """Learning rate of the attention at the task's length."""
    batch_size: int = 64
    """Sentences of an update at the task's length; twice as many at length 1."""
    eval_every: int = 200
    """Updates between evaluations."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Whether the learning rates fall to 0 along half a cosine in each stage, or stay."""
    n_sentences: int | None = None
    """Size of the training set of each stage, gone through again and again; by default every sentence is fresh."""
    tables: bool = False
    """Whether the loss is computed from tables of distinct tokens: the same to rounding, faster for wide tokens."""

    def __post_init__(self) -> None:
        if self.eval_every < 1:
            raise ValueError(f"eval_every must be at least 1, got {self.eval_every}")
        if self.first < 0:
            raise ValueError(f"first must be a number of updates from 0 on, got {self.first}")

    def stages(self, length: int) -> tuple[Stage, ...]:
        """The two stages, or the second alone."""
        common = {"schedule": self.schedule, "n_sentences": self.n_sentences, "tables": self.tables}
        main = Stage(length, self.updates, self.lr, self.attention_lr, self.batch_size, **common)
        if self.first == 0:
            return (main,)
        return Stage(1, self.first, self.first_lr, 0.0, 2 * self.batch_size, **common), main


@dataclass(frozen=True)
class StandardOptions:
    """A usual pre-LayerNorm layer over clauses and how it is trained."""

    decoder: ClauseDecoderConfig = field(default_factory=lambda: STANDARD)
    """The decoder's sizes and variant."""
    training: StagedTraining = field(default_factory=StagedTraining)
    """The stages."""
    run: RunConfig = field(default_factory=RunConfig)
    """Seed, held-out inputs and stop rule."""

    @property
    def unsaid(self) -> tuple[tuple[str, str], ...]:
        """Places that have no vector; a run without positions is that of versions which had none."""
        places = {"none": ("positions", "n_ctx"), "sinusoidal": ("n_ctx",)}.get(self.decoder.positions, ())
        return tuple(("decoder", name) for name in places)


@dataclass(frozen=True)
class BareOptions(StandardOptions):
    """A layer as bare as the theory's and how it is trained."""

    decoder: ClauseDecoderConfig = field(default_factory=lambda: THEORY)
    """The decoder's sizes and variant."""
    training: StagedTraining = field(default_factory=lambda: StagedTraining(first=400, updates=600, first_lr=1e-2))
    """The stages."""


class StagedLoop:
    """The stages one after another; stops every so many updates and at the end of each stage."""

    def __init__(
        self, model: ClauseDecoder, task: Lego, stages: tuple[Stage, ...], every: int, generator: torch.Generator
    ) -> None:
        self.model, self.task, self.stages, self.every, self.generator = model, task, stages, every, generator
        self.number, self.trainer = 0, StageTrainer(model, task, stages[0], generator)
        self.samples, self.updates = 0, 0

    def __iter__(self) -> "StagedLoop":
        return self

    def __next__(self) -> Progress:
        if self.trainer.update >= self.stages[self.number].updates:
            self.trainer.finish()
            if self.number + 1 == len(self.stages):
                raise StopIteration
            self.number += 1
            self.trainer = StageTrainer(self.model, self.task, self.stages[self.number], self.generator)
        stage, losses = self.stages[self.number], []
        for _ in range(min(self.every, stage.updates - self.trainer.update)):
            self.trainer.advance()
            losses.append(self.trainer.loss)
        self.samples, self.updates = self.samples + len(losses) * stage.batch_size, self.updates + len(losses)
        return Progress(self.samples, self.updates, sum(losses) / len(losses))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything but the model's weights."""
        tensors = checkpoint.adam_tensors(self.trainer.optimiser) | {"generator": self.generator.get_state()}
        counts = {"samples": self.samples, "updates": self.updates, "of_stage": self.trainer.update}
        return tensors, {"stage": self.number, **counts}

    def load_state(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Takes the loop up where `state` left it; the model's weights are there already."""
        self.number, self.samples, self.updates = int(state["stage"]), int(state["samples"]), int(state["updates"])
        self.trainer.finish()
        self.trainer = StageTrainer(self.model, self.task, self.stages[self.number], self.generator)
        self.trainer.update = int(state["of_stage"])
        checkpoint.restore_adam(self.trainer.optimiser, tensors, started=self.trainer.update > 0)
        self.generator.set_state(tensors["generator"])


def _fresh(task: Lego, options: StandardOptions, seed: int) -> ClauseDecoder:
    return clause_decoder(options.decoder, task, stream_seed(seed, "weights"))


def _start(task: Lego, options: StandardOptions, device: torch.device, variant: str) -> LoopRun:
    fresh = _fresh(task, options, options.run.seed)
    fresh.embedded(torch.full((1, task.n_ctx, CLAUSE), BLANK))  # refuses sentences with more places than positions
    model = moved(fresh, device)
    stages = options.training.stages(task.length)
    loop = StagedLoop(model, task, stages, options.training.eval_every, stream(options.run.seed, "data"))

    def rollout(batch: Batch) -> Int[Tensor, "batch answer"]:
        return generated(model, batch.inputs[:, : task.length + 1], task.length)[..., STATE]

    return LoopRun(
        task, model, loop, options.run, budget=sum(stage.updates * stage.batch_size for stage in stages),
        path="clause decoder by Adam, in stages", read=_reader(task), rollout=rollout,
        identity=identity(task, VARIANTS[variant], options), device=device,
    )  # fmt: skip


def _reader(task: Lego) -> Reader:
    """The logits of the state's slot, over all tokens; tokens that cannot stand there have none."""
    sizes = [1 + size for _, size in slots(task)]

    def read(output: Float[Tensor, "batch pos logit"], positions: Int[Tensor, "supervised"]) -> Tensor:
        found = output[:, positions].split(sizes, dim=-1)[STATE]
        logits = found.new_full((*found.shape[:-1], task.d_vocab), -torch.inf)
        logits[..., 0], logits[..., task.first_state :] = found[..., 0], found[..., 1:]
        return logits

    return read


def _variant(name: str, summary: str, options: type[StandardOptions]) -> Recipe:
    return Recipe(
        model=name,
        summary=summary,
        options=options,
        seed=lambda options: options.run.seed,
        fresh=_fresh,
        start=partial(_start, variant=name),
        reader=_reader,
        test=lambda task, options: options.run.held_out(task).test,
    )


VARIANTS = {
    recipe.model: register("lego", recipe)
    for recipe in (
        _variant("decoder", "one pre-LayerNorm layer over clauses, NoPE by default; Adam in stages", StandardOptions),
        _variant("bare", "the same, as bare as the theory: identity values, nothing goes round it", BareOptions),
    )
}
