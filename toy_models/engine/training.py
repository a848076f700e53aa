"""How is a hooked model trained by Adam? One pass over fresh samples or many over a finite set, and stop rules.

A mutable `Trainer` yields an immutable `TrainResult`. Its whole state is in the checkpoint, so a run that is
killed and resumed ends with the same bits as one that never stopped.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F

from probes.base import checkpoint
from probes.hooked.points import Hooked
from toy_models.engine.attention_control import AttentionControl, controlled_forward, mean_entropy
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.evaluation import exact_match, rollout, teacher_forced_logits
from toy_models.engine.forward import (
    Choice,
    Dropout,
    Reader,
    attention_keep,
    choose_forward,
    next_token_logits,
)
from toy_models.engine.sparse_step import SparseForward
from toy_models.engine.splits import held_out, training_sample
from toy_models.engine.training_run import (
    Device,
    Evaluation,
    TrainResult,
    choose_device,
    complete,
    evaluated,
    moved,
    restored_evaluation,
    sample_complexity,
    stream,
    stream_seed,
)
from toy_models.engine.weights import architecture, digest, load_weights, weights
from toy_models.task import Batch, Task, is_causal

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

DIVERGED = 100.0
"""A training loss this many times that of guessing means the run has diverged."""


@dataclass(frozen=True)
class TrainConfig:
    """Adam (0.9, 0.999) without weight decay; the learning rate falls linearly to 0."""

    seed: int = 0
    """Decides initial weights, held-out inputs, training data and dropout."""
    lr: float = 1e-4
    """Initial learning rate."""
    batch_size: int = 512
    """Samples per gradient update."""
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
    decay_over: int = 0
    """Samples over which the learning rate falls to 0; 0 means the budget. With more than the budget, a run that its
    budget ends is the beginning of a longer one."""
    clip: float = 0.0
    """The norm of all gradients together that is not exceeded; 0 means no clipping."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "budget", "eval_every", "n_validation", "n_test", "entropy_inputs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.dataset_size < 0:
            raise ValueError(f"dataset_size must be 0 (fresh samples) or positive, got {self.dataset_size}")
        if self.decay_over and self.decay_over < self.budget:
            raise ValueError(
                f"decay_over must be 0 (the budget) or at least the budget of {self.budget}, got {self.decay_over}: "
                "the learning rate would be below 0"
            )
        if not (math.isfinite(self.clip) and self.clip >= 0):
            raise ValueError(f"clip must be 0 (no clipping) or positive, got {self.clip}")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr must be a positive number, got {self.lr}")


class TrainingDiverged(ValueError):
    """The loss became NaN, infinite or absurdly large."""


def train(
    task: Task,
    model: DecoderConfig | Hooked,
    config: TrainConfig,
    checkpoint_path: Path | None = None,
    checkpoint_seconds: float = 20.0,
    on_evaluation: Callable[[Evaluation], None] = lambda _: None,
    on_model: Callable[[int, Hooked], None] = lambda _samples, _model: None,
    read: Reader = next_token_logits,
    device: Device | torch.device = "auto",
    control: AttentionControl | None = None,
) -> TrainResult:
    """Trains a fresh decoder, or the hooked model given, until perfect or out of budget; see `complete`."""
    run = Trainer(task, model, config, read, device, control)
    return complete(run, checkpoint_path, checkpoint_seconds, on_evaluation, on_model)


class Trainer:
    """The mutable state of one run: a `TrainingRun` of any hooked model on any task that `read` reads answers for."""

    resumable = True

    def __init__(
        self,
        task: Task,
        model: DecoderConfig | Hooked,
        config: TrainConfig,
        read: Reader = next_token_logits,
        device: Device | torch.device = "auto",
        control: AttentionControl | None = None,
    ) -> None:
        from transformer_lens.model_bridge import TransformerBridge

        self.task, self.config, self.device = task, config, choose_device(device)
        if isinstance(model, DecoderConfig | TransformerBridge) and not is_causal(task):
            raise ValueError(f"a decoder cannot see the later tokens that {task.name} depends on: train a causal one")
        about = (
            _plain(model)
            if isinstance(model, DecoderConfig)
            else {"model": type(model).__name__, **architecture(model), "frozen": digest(model)}
        )
        self.identity = {"task": task.name, **_plain(task), **about, **_plain(config)}
        if read is not next_token_logits:
            self.identity["read"] = getattr(read, "__qualname__", type(read).__qualname__)
        split = stream_seed(config.seed, "split")
        self.held_out = held_out(task, config.n_validation, config.n_test, seed=split)
        hooked = self._decoder(model) if isinstance(model, DecoderConfig) else model
        self.model: Hooked = moved(hooked, self.device)
        self.data, self.noise = stream(config.seed, "data"), stream(config.seed, "dropout")
        self.control = control
        if control is None:
            self.choice = choose_forward(self.model, task.n_ctx, config.dropout, self.noise, read)
        else:
            self.identity["control"] = control.identity
            forward = controlled_forward(cast("TransformerBridge", self.model), task.n_ctx, control)
            self.choice = Choice(forward, "sparse", "attention is controlled")
        # Training may drop embeddings and residuals; an evaluation must not.
        self.eval_forward = (
            choose_forward(self.model, task.n_ctx, Dropout(), self.noise, read) if control is None else self.choice
        ).forward
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimiser = torch.optim.Adam(trained, lr=config.lr, betas=(0.9, 0.999), fused=True)
        self.dataset = self._dataset()
        self.order: tuple[int, torch.Tensor] | None = None
        self.samples, self.updates = 0, 0
        self.losses: list[float] = []
        self.history: list[Evaluation] = []

    def _decoder(self, config: DecoderConfig) -> "TransformerBridge":
        if (inputs := self.held_out.test.inputs).ndim != 2:
            raise ValueError(
                f"a decoder reads one token at each position, a position of {self.task.name} has "
                f"{list(inputs.shape[2:])} features: train a task of tokens, or give a model that reads these"
            )
        return hooked_decoder(config, self.task.d_vocab, self.task.n_ctx, stream_seed(self.config.seed, "weights"))

    @property
    def budget(self) -> int:
        return self.config.budget

    @property
    def finished(self) -> bool:
        perfect = self.config.stop_when_perfect and bool(self.history) and self.history[-1].accuracy == 1.0
        return perfect or self.samples >= self.config.budget

    def train_until_evaluation(self) -> None:
        """Updates until the next multiple of `eval_every` is reached or the budget is spent."""
        goal = min((self.samples // self.config.eval_every + 1) * self.config.eval_every, self.config.budget)
        while self.samples < goal:
            self._update(self._next_batch().to(self.device))

    def evaluate(self) -> Evaluation:
        """Evaluates on validation and appends the result to the history."""
        evaluation = evaluated(
            self.eval_forward,
            self.model,
            self.task,
            self.held_out.validation.to(self.device),
            samples=self.samples,
            updates=self.updates,
            train_loss=sum(self.losses) / len(self.losses) if self.losses else None,
            entropy_inputs=1 if self._attention_is_fixed else self.config.entropy_inputs,
            check=self._check,
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
            sample_complexity=sample_complexity(self.history),
            test_accuracy=exact_match(forced, test),
            rollout_accuracy=exact_match(rollout(self.eval_forward, test), test) if self._feeds_back else None,
            path=f"{self.choice.path}: {self.choice.reason}",
            test=test,
        )

    @property
    def _attention_is_fixed(self) -> bool:
        """Whether every input has the same attention."""
        return self.control is not None and self.control.pattern is not None

    @property
    def _feeds_back(self) -> bool:
        """Whether answers are tokens that later positions read."""
        return is_causal(self.task) and self.held_out.test.inputs.ndim == 2

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
            self.history = [restored_evaluation(entry) for entry in state["history"]]
            self.updates = self.history[-1].updates
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
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
        if self.order is None or self.order[0] != epoch:
            shuffle = stream(self.config.seed, f"epoch {epoch}")
            self.order = epoch, torch.randperm(len(self.dataset), generator=shuffle)
        return self.dataset[self.order[1][start : start + size]]

    def _update(self, batch: Batch) -> None:
        config = self.config
        for group in self.optimiser.param_groups:
            group["lr"] = config.lr * (1 - self.samples / (config.decay_over or config.budget))
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
        objective = loss
        if self.control is not None and self.control.entropy_weight:
            forward = cast(SparseForward, self.choice.forward)
            entropy = mean_entropy(forward, batch.inputs, batch.supervised)
            objective = loss + self.control.entropy_weight * entropy
        self.optimiser.zero_grad(set_to_none=True)
        objective.backward()
        if config.clip:
            torch.nn.utils.clip_grad_norm_(self.optimiser.param_groups[0]["params"], config.clip)
        self.optimiser.step()
        self.samples += len(batch)
        self.updates += 1
        self.losses.append(loss.item())

    def _check(self, loss: float) -> None:
        if not math.isfinite(loss) or loss > DIVERGED * math.log(self.task.d_vocab):
            raise TrainingDiverged(
                f"the loss is {loss:.3g} after {self.samples} samples: training diverged; lower lr "
                f"(now {self.config.lr:g}). A checkpoint, if there is one, is from before"
            )


def _plain(config: object) -> dict:
    return asdict(config)  # pyright: ignore[reportArgumentType]
