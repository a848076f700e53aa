"""How does a paper's own algorithm become a training run? A loop that stops wherever it should be evaluated.

A loop is an iterator: it changes the model in place and yields `Progress` when an evaluation is due. What is held
out, measured and tested is the same for all of them. A loop with `state` and `load_state` is checkpointed; one
without takes seconds and starts again on --resume, with the same bits.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from probes.base import checkpoint
from probes.hooked.points import Hooked
from toy_models.engine.evaluation import exact_match, teacher_forced_logits
from toy_models.engine.forward import HookedForward, Reader
from toy_models.engine.splits import HeldOut, held_out
from toy_models.engine.training_run import (
    Evaluation,
    TrainResult,
    evaluated,
    restored_evaluation,
    sample_complexity,
    stream_seed,
)
from toy_models.engine.weights import load_weights, weights
from toy_models.task import Batch, Task


@dataclass(frozen=True)
class RunConfig:
    """What every run of a paper's own algorithm has."""

    seed: int = 0
    """Decides initial weights, held-out inputs and training data."""
    n_validation: int = 512
    """Inputs for the evaluations; drawn apart from the training data, which may contain some of them again."""
    n_test: int = 512
    """Inputs for the final test and for the probes; no decision uses them."""
    entropy_inputs: int = 256
    """How many validation inputs the attention entropy is averaged over."""
    stop_when_perfect: bool = True
    """Whether to stop at the first perfect evaluation instead of at the end of the algorithm."""

    def __post_init__(self) -> None:
        for name in ("n_validation", "n_test", "entropy_inputs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def held_out(self, task: Task) -> HeldOut:
        """The validation and test inputs of this run."""
        return held_out(task, self.n_validation, self.n_test, seed=stream_seed(self.seed, "split"))


@dataclass(frozen=True)
class Progress:
    """Where a loop stands."""

    samples: int
    """Training sequences seen, each counted as often as an update has used it."""
    updates: int
    """Gradient updates made."""
    loss: float | None = None
    """The training loss of the last update, in the loop's own unit; None if it computes none."""


@runtime_checkable
class Stateful(Protocol):
    """A loop that can be taken up again where it yielded."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything but the model's weights, as tensors and JSON."""
        ...

    def load_state(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None: ...


class LoopRun:
    """A `TrainingRun` of one loop."""

    def __init__(
        self,
        task: Task,
        model: Hooked,
        loop: Iterator[Progress],
        config: RunConfig,
        *,
        budget: int,
        path: str,
        read: Reader,
        rollout: Callable[[Batch], Tensor] | None,
        identity: dict[str, Any],
        device: torch.device,
    ) -> None:
        """`rollout` gives the free-running predictions for a batch, [batch supervised]; `path` names the loop."""
        self.task, self.model, self.loop, self.config, self.budget = task, model, loop, config, budget
        self.path, self.rollout, self.identity = path, rollout, identity
        self.forward = HookedForward(model, read=read)
        split = config.held_out(task)
        self.validation, self.test = split.validation.to(device), split.test.to(device)
        self.progress, self.exhausted = Progress(0, 0), False
        self.history: list[Evaluation] = []

    @property
    def resumable(self) -> bool:
        return isinstance(self.loop, Stateful)

    @property
    def finished(self) -> bool:
        perfect = self.config.stop_when_perfect and bool(self.history) and self.history[-1].accuracy == 1.0
        return perfect or self.exhausted or self.progress.samples >= self.budget

    def train_until_evaluation(self) -> None:
        """Runs the loop to its next stop; a loop that has ended leaves everything as it is."""
        found = next(self.loop, None)
        self.exhausted = found is None
        self.progress = found or self.progress

    def evaluate(self) -> Evaluation:
        """Evaluates on validation and appends the result to the history; a loop that has ended is not done again."""
        if self.exhausted:
            return self.history[-1]
        samples, updates, loss = self.progress.samples, self.progress.updates, self.progress.loss
        if loss is not None and not math.isfinite(loss):
            raise ValueError(f"the loss is {loss} after {updates} updates: training diverged; lower the step size")
        evaluation = evaluated(
            self.forward,
            self.model,
            self.task,
            self.validation,
            samples=samples,
            updates=updates,
            train_loss=loss,
            entropy_inputs=self.config.entropy_inputs,
            check=self._require_finite,
        )
        self.history.append(evaluation)
        return evaluation

    def _require_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise ValueError(f"the weights are not finite after {self.progress.updates} updates: lower the step size")

    def result(self) -> TrainResult:
        """The finished run, tested on inputs of a stream of their own.

        A loop draws its own data, so where a task has few inputs, it may have met some of them.
        """
        forced = teacher_forced_logits(self.forward, self.test).argmax(-1)
        free = None if self.rollout is None else exact_match(self.rollout(self.test), self.test)
        return TrainResult(
            model=self.model,
            history=tuple(self.history),
            sample_complexity=sample_complexity(self.history),
            test_accuracy=exact_match(forced, self.test),
            rollout_accuracy=free,
            path=self.path,
            test=self.test,
        )

    def save(self, path: Path) -> None:
        """Writes everything the run needs to go on; call it right after `evaluate`."""
        tensors, state = self._stateful().state()
        tensors = {**tensors, **{f"model.{name}": tensor for name, tensor in weights(self.model).items()}}
        history = [asdict(evaluation) for evaluation in self.history]
        whole = {"identity": self.identity, "loop": state, "progress": asdict(self.progress), "history": history}
        checkpoint.save(path, tensors, whole)

    def restore(self, path: Path) -> None:
        """Takes up the run saved at `path`, which must be of the same configuration."""
        tensors, state = checkpoint.load(path)
        checkpoint.require_same(path, self.identity, state.get("identity", {}))
        try:
            load_weights(self.model, {n[6:]: t for n, t in tensors.items() if n.startswith("model.")})
            self._stateful().load_state(tensors, state["loop"])
            self.progress = Progress(**state["progress"])
            self.history = [restored_evaluation(entry) for entry in state["history"]]
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"checkpoint {path} is incomplete: {error!r}") from error

    def _stateful(self) -> Stateful:
        if not isinstance(self.loop, Stateful):
            raise ValueError(f"{self.path} cannot be checkpointed: its loop has no `state`")
        return self.loop
