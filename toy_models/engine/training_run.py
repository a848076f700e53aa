"""What is a training run, whatever trains? Evaluations, a result, and a driver that checkpoints and resumes.

`Trainer` (Adam on any hooked model) and `LoopRun` (a paper's own algorithm) are both a `TrainingRun`; `complete`
takes either to its end. Data and initial weights are drawn on the CPU and moved: they do not depend on the device.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

import torch
import torch.nn.functional as F

from probes.hooked.points import Hooked
from toy_models.engine.evaluation import exact_match, head_entropies, teacher_forced_logits
from toy_models.engine.forward import Forward
from toy_models.engine.sparse_step import SparseForward
from toy_models.task import Batch, Task, is_causal

AnyHooked = TypeVar("AnyHooked", bound=Hooked)
Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class Evaluation:
    """What one evaluation found."""

    samples: int
    """Training sequences seen."""
    accuracy: float
    """Share of validation inputs with every supervised token right (teacher-forced; rollout agrees)."""
    token_accuracy: float
    loss: float
    """Mean cross-entropy of the model's readout on validation, nats per supervised token."""
    train_loss: float
    """The mean training loss since the last evaluation: the same for `Trainer`, else the loop's loss in its unit."""
    entropies: tuple[tuple[float, ...], ...]
    """Normalised attention entropy by layer and head."""
    updates: int = 0
    """Gradient updates made."""


@dataclass(frozen=True)
class TrainResult:
    """A trained model and how it got there."""

    model: Hooked
    history: tuple[Evaluation, ...]
    sample_complexity: int | None
    """Samples seen at the first perfect evaluation; None if the budget ran out first (a censored run)."""
    test_accuracy: float
    """Exact match on the test inputs, teacher-forced."""
    rollout_accuracy: float | None
    """Exact match on the test inputs, free-running; None for a model that feeds nothing back."""
    path: str
    """What trained it: the sparse or the hooked forward and why, or the algorithm."""
    test: Batch

    @property
    def samples(self) -> int:
        return self.history[-1].samples


@runtime_checkable
class TrainingRun(Protocol):
    """The mutable state of one run; `evaluate` appends to `history`, and comes first."""

    history: list[Evaluation]

    @property
    def model(self) -> Hooked: ...

    @property
    def budget(self) -> int:
        """Samples to train on at most."""
        ...

    @property
    def resumable(self) -> bool:
        """Whether the run can be saved and restored; otherwise a resumed run starts again, with the same bits."""
        ...

    @property
    def finished(self) -> bool: ...

    def train_until_evaluation(self) -> None: ...

    def evaluate(self) -> Evaluation: ...

    def result(self) -> TrainResult: ...

    def save(self, path: Path) -> None: ...

    def restore(self, path: Path) -> None: ...


def complete(
    run: TrainingRun,
    checkpoint_path: Path | None = None,
    checkpoint_seconds: float = 20.0,
    on_evaluation: Callable[[Evaluation], None] = lambda _: None,
    on_model: Callable[[int, Hooked], None] = lambda _samples, _model: None,
) -> TrainResult:
    """Takes a run to its end, from `checkpoint_path` if there is one.

    After every evaluation `on_evaluation` gets what was found and `on_model` the samples seen and the model. A
    resumed run repeats, with the same bits, the calls since the last checkpoint.
    """
    kept = checkpoint_path if run.resumable else None
    if kept is not None and kept.exists():
        run.restore(kept)
    if not run.history:
        on_evaluation(run.evaluate())
        on_model(0, run.model)
    saved = time.monotonic()
    while not run.finished:
        run.train_until_evaluation()
        on_evaluation(run.evaluate())
        on_model(run.history[-1].samples, run.model)
        if kept is not None and time.monotonic() - saved >= checkpoint_seconds:
            run.save(kept)
            saved = time.monotonic()
    if kept is not None:
        run.save(kept)
    return run.result()


def evaluated(
    forward: Forward,
    model: Hooked,
    task: Task,
    validation: Batch,
    *,
    samples: int,
    updates: int,
    train_loss: float | None,
    entropy_inputs: int,
    check: Callable[[float], None] = lambda _loss: None,
) -> Evaluation:
    """The accuracy, loss and attention entropies of `model` on `validation`; before training its loss is both.

    `check` refuses a loss before attention is looked at, which may be NaN then as well.
    """
    logits = teacher_forced_logits(forward, validation)
    predictions = logits.argmax(-1)
    loss = F.cross_entropy(logits.flatten(0, 1), validation.answers.flatten()).item()
    check(loss)
    sparse = forward if isinstance(forward, SparseForward) else None
    entropies = head_entropies(model, validation.inputs[:entropy_inputs], is_causal(task), sparse)
    return Evaluation(
        samples=samples,
        accuracy=exact_match(predictions, validation),
        token_accuracy=(predictions == validation.answers).double().mean().item(),
        loss=loss,
        train_loss=loss if train_loss is None else train_loss,
        entropies=tuple(tuple(heads) for heads in entropies.tolist()),
        updates=updates,
    )


def sample_complexity(history: list[Evaluation]) -> int | None:
    """Samples seen at the first perfect evaluation; None if there was none."""
    return next((e.samples for e in history if e.accuracy == 1.0), None)


def restored_evaluation(entry: dict) -> Evaluation:
    """An evaluation from what JSON made of it."""
    return Evaluation(**{**entry, "entropies": tuple(tuple(heads) for heads in entry["entropies"])})


def choose_device(name: Device | torch.device = "auto") -> torch.device:
    """The device called `name`; `auto` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device cuda was asked for, and torch finds no GPU here; use --device cpu or auto")
    return device


def moved(model: AnyHooked, device: torch.device) -> AnyHooked:
    """The model itself, on `device`, without a word."""
    from transformer_lens.model_bridge import TransformerBridge

    if isinstance(model, TransformerBridge):
        model.to(device, print_details=False)
    else:
        model.to(device)
    return model


def stream_seed(seed: int, purpose: str) -> int:
    """Independent streams for independent purposes, from one seed."""
    return int.from_bytes(hashlib.sha256(f"{seed} {purpose}".encode()).digest()[:7], "big")


def stream(seed: int, purpose: str) -> torch.Generator:
    """The CPU generator of one purpose of a run."""
    return torch.Generator().manual_seed(stream_seed(seed, purpose))
