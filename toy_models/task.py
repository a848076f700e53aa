"""What is a reasoning task? Data, targets, and which earlier positions each target depends on.

A task is one file, `task.py` of its family's room, with one `@register`, or a plug-in (`probes.base.plugins`).
Attention probes, head scores, knockouts and figures are derived from `dependencies`, so a new task gets all of them.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from probes.base.counts import counts
from probes.base.plugins import is_rerun, load_plugins

UNSUPERVISED = -100
"""The target of a position that carries no loss; what `torch.nn.functional.cross_entropy` ignores."""


@dataclass(frozen=True)
class Batch:
    """Sequences and what should follow each of their positions."""

    inputs: Shaped[Tensor, "batch pos *features"]
    targets: Int[Tensor, "batch pos"]
    """The next token, or `UNSUPERVISED`. The same positions are supervised in every row."""

    def __repr__(self) -> str:
        n_pos = self.inputs.shape[1]
        return f"Batch({counts(sequence=len(self), position=n_pos)}, {self.supervised.numel()} of them supervised)"

    @property
    def supervised(self) -> Int[Tensor, "supervised"]:
        """The supervised positions, ascending."""
        return (self.targets[0] != UNSUPERVISED).nonzero().squeeze(-1)

    @property
    def answers(self) -> Int[Tensor, "batch supervised"]:
        """The targets of the supervised positions."""
        return self.targets[:, self.supervised]

    def __len__(self) -> int:
        return len(self.inputs)

    def to(self, device: torch.device | str) -> "Batch":
        """The same sequences on another device."""
        return Batch(self.inputs.to(device), self.targets.to(device))

    def __getitem__(self, rows: slice | Int[Tensor, "rows"]) -> "Batch":
        return Batch(self.inputs[rows], self.targets[rows])


@runtime_checkable
class Task(Protocol):
    """A frozen dataclass whose fields are the task's parameters."""

    name: ClassVar[str]

    @property
    def d_vocab(self) -> int: ...

    @property
    def n_ctx(self) -> int: ...

    @property
    def n_inputs(self) -> int:
        """How many distinct inputs there are; decides whether disjoint splits can exist."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """n independent sequences; the same generator state gives the same batch."""
        ...

    def dependencies(self, batch: Batch) -> Bool[Tensor, "batch query key"]:
        """Which positions' tokens the target of each supervised position is computed from."""
        ...

    def solve(self, inputs: Tensor) -> Int[Tensor, "batch pos"]:
        """The targets by brute force from the tokens as they stand; an oracle for tests."""
        ...


TASKS: dict[str, type] = {}
TaskClass = TypeVar("TaskClass", bound=type)


def register(task_class: TaskClass) -> TaskClass:
    """Adds a task class to the registry under its `name`; refuses a name already taken, except by a rerun cell."""
    name = task_class.name
    if name in TASKS and not is_rerun(TASKS[name], task_class):
        raise ValueError(f"task {name!r} is registered twice: {TASKS[name]} and {task_class}")
    TASKS[name] = task_class
    return task_class


def task_class(name: str) -> type:
    """The registered task class called `name`; an unknown name lists the known ones."""
    load_tasks()
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}; the known tasks are {sorted(TASKS)}")
    return TASKS[name]


def is_causal(task: Task) -> bool:
    """Whether targets depend on their own and earlier positions only, as a decoder needs it.

    So it is unless the task says `causal: ClassVar[bool] = False`: a task for an encoder.
    """
    return getattr(task, "causal", True)


def intermediate_states(task: Task, batch: Batch) -> Int[Tensor, "batch state"]:
    """What a solver computes on the way, one column for each value in the order of computation.

    `task.states(batch)` where the task has that method; otherwise the answers, which with CoT are the steps.
    """
    states = getattr(task, "states", None)
    return batch.answers if states is None else states(batch)


def load_tasks() -> dict[str, type]:
    """Imports every family's `task.py` and `*_task.py` and every plug-in, and returns the registry."""
    import toy_models

    for module in pkgutil.walk_packages(toy_models.__path__, "toy_models."):
        if (module.name.endswith(".task") and module.name != __name__) or module.name.endswith("_task"):
            importlib.import_module(module.name)
    load_plugins()
    return TASKS
