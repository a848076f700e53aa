"""The recipe of the standard decoder, for every causal task of tokens."""

from dataclasses import dataclass, field

import torch

from probes.hooked.points import Hooked
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.forward import next_token_logits
from toy_models.engine.recipe import Recipe
from toy_models.engine.splits import held_out
from toy_models.engine.training import TrainConfig, Trainer
from toy_models.engine.training_run import stream_seed
from toy_models.task import Batch, Task


@dataclass(frozen=True)
class DecoderOptions:
    """A standard decoder trained by Adam on the cross-entropy of the supervised tokens."""

    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    """The decoder's sizes."""
    training: TrainConfig = field(default_factory=TrainConfig)
    """Data, optimiser and stop rule."""


def _fresh(task: Task, options: DecoderOptions, seed: int) -> Hooked:
    return hooked_decoder(options.decoder, task.d_vocab, task.n_ctx, seed)


def _start(task: Task, options: DecoderOptions, device: torch.device) -> Trainer:
    return Trainer(task, options.decoder, options.training, device=device)


def _test(task: Task, options: DecoderOptions) -> Batch:
    config = options.training
    return held_out(task, config.n_validation, config.n_test, seed=stream_seed(config.seed, "split")).test


DECODER = Recipe(
    model="decoder",
    summary="a GPT-2 style decoder, trained by Adam",
    options=DecoderOptions,
    seed=lambda options: options.training.seed,
    fresh=_fresh,
    start=_start,
    reader=lambda task: next_token_logits,
    test=_test,
)
