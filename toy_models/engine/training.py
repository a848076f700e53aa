"""How is a toy decoder trained? One pass over fresh samples or many over a finite set, and stop rules.

A mutable `Trainer` yields an immutable `TrainResult`. Its whole state is in the checkpoint, so a run that is
killed and resumed ends with the same bits as one that never stopped.
"""

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from probes.base import checkpoint
from toy_models.engine.decoder import DecoderConfig, hooked_decoder, load_weights, weights
from toy_models.engine.evaluation import exact_match, head_entropies, rollout, teacher_forced_logits
from toy_models.engine.forward import Dropout, HookedForward, attention_keep, choose_forward
from toy_models.engine.splits import held_out, training_sample
from toy_models.task import Batch, Task, is_causal

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

DIVERGED = 100.0
"""A training loss this many times that of guessing means the run has diverged."""


@dataclass(frozen=True)
class TrainConfig:
    """Adam (0.9, 0.999) without weight decay; the learning rate falls linearly to 0 over the budget."""

    seed: int = 0
    """Decides initial weights, held-out inputs, training data and dropout."""
    lr: float = 1e-4
    """Initial learning rate."""
    batch_size: int = 512
    """Samples per step."""
    budget: int = 1_000_000
    """Samples to train on at most."""
    dataset_size: int = 0
    """0: fresh samples all the time (one pass); otherwise epochs over this many samples (multi-pass)."""
    eval_every: int = 2048
    """Samples between evaluations."""
    stop_when_perfect: bool = True
    """Whether to stop at the first perfect evaluation instead of at the budget."""
    n_validation: int = 2048
    """Held-out inputs for the evaluations."""
    n_test: int = 2048
    """Held-out inputs for the final test."""
    entropy_inputs: int = 512
    """How many validation inputs the attention entropy is averaged over."""
    dropout: Dropout = field(default_factory=Dropout)
    """Dropout probabilities."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "budget", "eval_every", "n_validation", "n_test", "entropy_inputs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.dataset_size < 0:
            raise ValueError(f"dataset_size must be 0 (fresh samples) or positive, got {self.dataset_size}")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr must be a positive number, got {self.lr}")


@dataclass(frozen=True)
class Evaluation:
    """What one evaluation found."""

    samples: int
    accuracy: float
    """Share of validation inputs with every supervised token right (teacher-forced; rollout agrees)."""
    token_accuracy: float
    loss: float
    """Mean cross-entropy on validation, nats per supervised token."""
    train_loss: float
    """The same on the training batches since the last evaluation."""
    entropies: tuple[tuple[float, ...], ...]
    """Normalised attention entropy by layer and head."""


@dataclass(frozen=True)
class TrainResult:
    """A trained model and how it got there."""

    model: "TransformerBridge"
    history: tuple[Evaluation, ...]
    sample_complexity: int | None
    """Samples seen at the first perfect evaluation; None if the budget ran out first (a censored run)."""
    test_accuracy: float
    """Exact match on the test inputs, teacher-forced."""
    rollout_accuracy: float
    """Exact match on the test inputs, free-running."""
    path: str
    """Which forward trained it: sparse or hooked, and why."""
    test: Batch

    @property
    def samples(self) -> int:
        return self.history[-1].samples


class TrainingDiverged(ValueError):
    """The loss became NaN, infinite or absurdly large."""


def train(
    task: Task,
    decoder: DecoderConfig,
    config: TrainConfig,
    checkpoint_path: Path | None = None,
    checkpoint_seconds: float = 20.0,
    on_evaluation: Callable[[Evaluation], None] = lambda _: None,
    on_model: Callable[[int, "TransformerBridge"], None] = lambda _samples, _model: None,
) -> TrainResult:
    """Trains until perfect or out of budget; resumes from `checkpoint_path` if there is one.

    After every evaluation `on_evaluation` gets what was found and `on_model` the samples seen and the model. A
    resumed run repeats, with the same bits, the calls since the last checkpoint.
    """
    trainer = Trainer(task, decoder, config)
    if checkpoint_path is not None and checkpoint_path.exists():
        trainer.restore(checkpoint_path)
    if not trainer.history:
        on_evaluation(trainer.evaluate())
        on_model(0, trainer.model)
    saved = time.monotonic()
    while not trainer.finished:
        trainer.train_until_evaluation()
        on_evaluation(trainer.evaluate())
        on_model(trainer.samples, trainer.model)
        if checkpoint_path is not None and time.monotonic() - saved >= checkpoint_seconds:
            trainer.save(checkpoint_path)
            saved = time.monotonic()
    if checkpoint_path is not None:
        trainer.save(checkpoint_path)
    return trainer.result()


class Trainer:
    """The mutable state of one run."""

    def __init__(self, task: Task, decoder: DecoderConfig, config: TrainConfig) -> None:
        if not is_causal(task):
            raise ValueError(f"a decoder cannot see the later tokens that {task.name} depends on: train a causal one")
        self.task, self.config = task, config
        self.identity = {"task": task.name, **_plain(task), **_plain(decoder), **_plain(config)}
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.held_out = held_out(task, config.n_validation, config.n_test, seed=_seed(config.seed, "split"))
        if self.held_out.test.inputs.ndim != 2:
            features = list(self.held_out.test.inputs.shape[2:])
            raise ValueError(
                f"a decoder reads one token at each position, a position of {task.name} has {features} features: "
                "train a task of tokens, or run the claims that bring the model for this one"
            )
        self.model = hooked_decoder(decoder, task.d_vocab, task.n_ctx, _seed(config.seed, "weights"))
        self.model.to(self.device, print_details=False)
        self.data = torch.Generator().manual_seed(_seed(config.seed, "data"))
        self.noise = torch.Generator().manual_seed(_seed(config.seed, "dropout"))
        self.choice = choose_forward(self.model, task.n_ctx, config.dropout, self.noise)
        # The hooked forward drops embeddings and residuals; an evaluation must not.
        self.eval_forward = self.choice.forward if self.choice.path == "sparse" else HookedForward(self.model)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=config.lr, betas=(0.9, 0.999), fused=True)
        self.dataset = self._dataset()
        self.samples = 0
        self.losses: list[float] = []
        self.history: list[Evaluation] = []

    @property
    def finished(self) -> bool:
        perfect = self.config.stop_when_perfect and self.history[-1].accuracy == 1.0
        return perfect or self.samples >= self.config.budget

    def train_until_evaluation(self) -> None:
        """Steps until the next multiple of `eval_every` is reached or the budget is spent."""
        goal = min((self.samples // self.config.eval_every + 1) * self.config.eval_every, self.config.budget)
        while self.samples < goal:
            self._step(self._next_batch().to(self.device))

    def evaluate(self) -> Evaluation:
        """Evaluates on validation and appends the result to the history."""
        validation = self.held_out.validation.to(self.device)
        logits = teacher_forced_logits(self.eval_forward, validation)
        predictions = logits.argmax(-1)
        loss = F.cross_entropy(logits.flatten(0, 1), validation.answers.flatten()).item()
        self._check(loss)
        entropies = head_entropies(self.model, validation.inputs[: self.config.entropy_inputs])
        evaluation = Evaluation(
            samples=self.samples,
            accuracy=exact_match(predictions, validation),
            token_accuracy=(predictions == validation.answers).double().mean().item(),
            loss=loss,
            train_loss=sum(self.losses) / len(self.losses) if self.losses else loss,
            entropies=tuple(tuple(heads) for heads in entropies.tolist()),
        )
        self.losses.clear()
        self.history.append(evaluation)
        return evaluation

    def result(self) -> TrainResult:
        """The finished run, tested on inputs that no decision has used."""
        test = self.held_out.test.to(self.device)
        forced = teacher_forced_logits(self.eval_forward, test).argmax(-1)
        return TrainResult(
            model=self.model,
            history=tuple(self.history),
            sample_complexity=next((e.samples for e in self.history if e.accuracy == 1.0), None),
            test_accuracy=exact_match(forced, test),
            rollout_accuracy=exact_match(rollout(self.eval_forward, test), test),
            path=f"{self.choice.path}: {self.choice.reason}",
            test=test,
        )

    def save(self, path: Path) -> None:
        """Writes everything the run needs to go on; call it right after `evaluate`."""
        tensors = {f"model.{name}": tensor for name, tensor in weights(self.model).items()}
        tensors |= checkpoint.adam_tensors(self.optimiser)
        tensors["generator.data"] = self.data.get_state()
        tensors["generator.dropout"] = self.noise.get_state()
        history = [asdict(evaluation) for evaluation in self.history]
        checkpoint.save(path, tensors, {"identity": self.identity, "samples": self.samples, "history": history})

    def restore(self, path: Path) -> None:
        """Takes up the run saved at `path`, which must be of the same configuration."""
        tensors, state = checkpoint.load(path)
        checkpoint.require_same(path, self.identity, state.get("identity", {}))
        try:
            load_weights(self.model, {n[6:]: t for n, t in tensors.items() if n.startswith("model.")})
            self.samples = int(state["samples"])
            checkpoint.restore_adam(self.optimiser, tensors, started=self.samples > 0)
            self.data.set_state(tensors["generator.data"])
            self.noise.set_state(tensors["generator.dropout"])
            self.history = [_evaluation(entry) for entry in state["history"]]
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"checkpoint {path} is incomplete: {error!r}") from error

    def _dataset(self) -> Batch | None:
        if not self.config.dataset_size:
            return None
        return training_sample(self.task, self.config.dataset_size, self.held_out.keys, self.data)

    def _next_batch(self) -> Batch:
        """Always drawn on the CPU: the data do not depend on the device."""
        size = min(self.config.batch_size, self.config.budget - self.samples)
        if self.dataset is None:
            return training_sample(self.task, size, self.held_out.keys, self.data)
        epoch, start = divmod(self.samples, len(self.dataset))
        shuffle = torch.Generator().manual_seed(_seed(self.config.seed, f"epoch {epoch}"))
        order = torch.randperm(len(self.dataset), generator=shuffle)
        return self.dataset[order[start : start + size]]

    def _step(self, batch: Batch) -> None:
        config = self.config
        for group in self.optimiser.param_groups:
            group["lr"] = config.lr * (1 - self.samples / config.budget)
        n_heads = len(self.history[0].entropies[0])
        keep = attention_keep(
            len(self.history[0].entropies),
            n_heads,
            batch.inputs,
            batch.supervised,
            config.dropout.attention,
            self.noise,
        )
        logits = self.choice.forward(batch.inputs, batch.supervised, keep)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten())
        self._check(loss.item())
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        self.samples += len(batch)
        self.losses.append(loss.item())

    def _check(self, loss: float) -> None:
        if not math.isfinite(loss) or loss > DIVERGED * math.log(self.task.d_vocab):
            raise TrainingDiverged(
                f"the loss is {loss:.3g} after {self.samples} samples: training diverged; lower lr "
                f"(now {self.config.lr:g}). A checkpoint, if there is one, is from before"
            )


def _plain(config: object) -> dict:
    return asdict(config)  # pyright: ignore[reportArgumentType]


def _seed(seed: int, purpose: str) -> int:
    """Independent streams for independent purposes, from one seed."""
    return int.from_bytes(hashlib.sha256(f"{seed} {purpose}".encode()).digest()[:7], "big")


def _evaluation(entry: dict) -> Evaluation:
    entropies = tuple(tuple(heads) for heads in entry["entropies"])
    return Evaluation(**{**entry, "entropies": entropies})
