"""Which inputs may training never see? Held-out sets that are disjoint from every training sample.

Each sequence has a key: a linear hash of its tokens modulo 2^64. Equal sequences have equal keys, so a
training sample whose key is not among the held-out keys cannot be a held-out sequence. (Two different
sequences may share a key; that costs one needless redraw and never lets a held-out sequence through.)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from toy_models.task import Batch, Task

FRUITLESS = 200
"""Redraws in a row that may bring nothing new. With half of the inputs free each succeeds with probability 1/2."""


@dataclass(frozen=True)
class HeldOut:
    """Validation and test inputs, all distinct, and the keys that training must avoid."""

    validation: Batch
    test: Batch
    keys: Int[Tensor, "held_out"]
    """Sorted."""


def require_room(task: Task, n_validation: int, n_test: int) -> None:
    """Refuses held-out sets that the task is too small for."""
    wanted = n_validation + n_test
    if n_validation < 1 or n_test < 1:
        raise ValueError(f"need at least one validation and one test input, got {n_validation} and {n_test}")
    if task.n_inputs < 2 * wanted:
        raise ValueError(
            f"{task.name} has {task.n_inputs} distinct inputs, too few to hold out {n_validation} + {n_test} "
            f"and still train on the rest (need at least {2 * wanted}); enlarge the task or hold out fewer: "
            f"n_validation and n_test of {task.n_inputs // 4} fit (--n-validation, --n-test)"
        )


def held_out(task: Task, n_validation: int, n_test: int, seed: int) -> HeldOut:
    """Distinct validation and test sequences of `task`, drawn by `seed`."""
    require_room(task, n_validation, n_test)
    wanted = n_validation + n_test
    generator = torch.Generator().manual_seed(seed)
    batch, before, fruitless = task.sample(wanted, generator), 0, 0
    while (found := len(keys := sequence_keys(batch).unique())) < wanted:  # unique also sorts
        fruitless = fruitless + 1 if found == before else 0
        _refuse_fruitless(task, fruitless, f"found {found} distinct sequences of the {wanted} to hold out")
        before = found
        first_seen = _first_occurrences(sequence_keys(batch))
        batch = joined(batch[first_seen], task.sample(wanted - len(first_seen), generator))
    return HeldOut(validation=batch[:n_validation], test=batch[n_validation:], keys=keys)


def training_sample(task: Task, n: int, keys: Int[Tensor, "held_out"], generator: torch.Generator) -> Batch:
    """n fresh sequences, none of which is held out: held-out draws are replaced by new ones."""
    batch, before, fruitless = task.sample(n, generator), 0, 0
    allowed = ~_contains(keys, sequence_keys(batch))
    while not bool(allowed.all()):
        kept = batch[allowed.nonzero().squeeze(-1)]
        fruitless = fruitless + 1 if len(kept) == before else 0
        _refuse_fruitless(task, fruitless, f"found {len(kept)} of {n} training sequences that are not held out")
        before = len(kept)
        batch = joined(kept, task.sample(n - len(kept), generator))
        allowed = ~_contains(keys, sequence_keys(batch))
    return batch


def sequence_keys(batch: Batch) -> Int[Tensor, "batch"]:
    """The key of each sequence; equal sequences have equal keys. Numbers that are no tokens count by their bits."""
    tokens = _as_integers(batch.inputs.flatten(1))
    multipliers = torch.randint(-(2**62), 2**62, (tokens.shape[1],), generator=torch.Generator().manual_seed(0x5EED))
    return ((tokens + 1) * multipliers).sum(-1)  # int64 arithmetic wraps: modulo 2^64


def joined(first: Batch, second: Batch) -> Batch:
    """The sequences of both batches, in order."""
    return Batch(
        torch.cat([first.inputs, second.inputs]),
        torch.cat([first.targets, second.targets]),
    )


def _as_integers(inputs: Shaped[Tensor, "batch number"]) -> Int[Tensor, "batch number"]:
    if not inputs.is_floating_point():
        return inputs.to(torch.int64)
    return (inputs.double() + 0.0).view(torch.int64)  # adding zero makes -0 and 0 the same bits


def _refuse_fruitless(task: Task, fruitless: int, found: str) -> None:
    """Ends a search that no redraw has brought further for a long time."""
    if fruitless > FRUITLESS:
        raise ValueError(
            f"{task.name} draws the same sequences again and again: {found}, {FRUITLESS} redraws brought no more; "
            f"its n_inputs says {task.n_inputs}. Hold out fewer (--n-validation, --n-test) or enlarge the task"
        )


def _contains(keys: Int[Tensor, "held_out"], queries: Int[Tensor, "batch"]) -> Bool[Tensor, "batch"]:
    place = torch.searchsorted(keys, queries).clamp(max=len(keys) - 1)
    return keys[place] == queries


def _first_occurrences(keys: Int[Tensor, "batch"]) -> Int[Tensor, "distinct"]:
    seen: dict[int, int] = {}
    for row, key in enumerate(keys.tolist()):
        seen.setdefault(key, row)
    return torch.tensor(list(seen.values()))
