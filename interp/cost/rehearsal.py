"""Would an item run, and what would it cost? One of its kind is run at its own sizes, with every loop cut short.

Run with every loop at its least, and again with one loop more doubled each time, an item shows what it does once and
what a repetition adds. Operations are counted and steps timed apart, because counting slows small operations. This
happens in a process of its own whose memory is limited: what asks for more than there is fails with a sentence, and
takes nothing else down.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from interp.core.claim import CLAIMS, Item, load_claims
from interp.core.loops import shortened
from interp.cost.kinds import active
from interp.cost.memory import limited_memory, peak, resident
from interp.cost.stand_ins import StandIn, stand_in

SLOW = 20.0
"""Seconds of a counted run beyond which neither counting nor the first imports matter to its time."""


@dataclass(frozen=True)
class Rehearsed:
    """What one item showed; costs as in `interp.cost.counting`."""

    error: str = ""
    """Why it does not run; empty if it does."""
    base: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """The cost of the item with every loop at its least."""
    once: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """The part of it that is not repeated."""
    each: Sequence[np.ndarray] = ()
    """The cost of one repetition, by loop."""
    memory: float = 0.0
    """Bytes of the whole process at their most."""
    working: float = 0.0
    """Bytes of these that the item took."""
    asks_for_gpu: bool = False
    """Whether it would have used a GPU."""


def rehearse(claim_id: str, item: Item, layers: int = 1, doubled: bool = True) -> Rehearsed:
    """Runs `item` cut short; without `doubled` only once, for the cost of `layers` layers."""
    import threadpoolctl
    import torch

    claim = CLAIMS.get(claim_id) or load_claims()[claim_id]
    loops = active(item.parameters, claim.loops)
    here = stand_in(item.parameters, layers)
    torch.set_num_threads(1)
    asked = _watch_for_gpu()
    start, tried = resident(), []
    try:
        with threadpoolctl.threadpool_limits(1), limited_memory():
            for n_doubled in range(len(loops) * doubled + 1):
                short = Item(item.name, shortened(here.parameters, loops, n_doubled))
                tried.append((short.parameters, _cost(claim.measure, short, here)))
    except Exception as error:  # whatever an item raises is what a dry run is there to find
        line = (str(error).strip().splitlines() or [""])[0]
        return Rehearsed(error=f"{type(error).__name__}: {line}")
    most = peak()
    each = [
        np.maximum(after - before, 0) / (one.count(longer) - one.count(shorter))
        for one, (shorter, before), (longer, after) in zip(loops, tried, tried[1:])
    ]
    parameters, base = tried[0]
    repeated = sum((one.count(parameters) * cost for one, cost in zip(loops, each)), np.zeros_like(base))
    once = np.maximum(base - repeated, 0)
    return Rehearsed("", base, once, each, most, most - start, bool(asked))


def _cost(measure: Any, item: Item, here: StandIn) -> np.ndarray:
    from interp.cost.counting import Counting

    with TemporaryDirectory() as work, Counting(half=bool(here.n_layers)) as counted:
        seconds = _seconds(measure, item, Path(work), bool(here.n_layers))
    if seconds < SLOW and not here.n_layers:  # a large model's operations are slow, and its traces are kept
        with TemporaryDirectory() as work:
            seconds = _seconds(measure, item, Path(work), False)
    counted.cost[0] = seconds
    return counted.cost


def _seconds(measure: Any, item: Item, work: Path, random_model: bool) -> float:
    started = time.process_time()
    rows = measure(item, work)
    if not len(rows) and not random_model:  # what a random model writes may hold no sentence
        raise ValueError("the item has no rows")
    return time.process_time() - started


def _watch_for_gpu() -> list[str]:
    """A list that is no longer empty once our own code has asked whether there is a GPU."""
    import torch

    asked: list[str] = []
    there = torch.cuda.is_available

    def is_available() -> bool:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith(("toy_models", "hf_analysis")):
            asked.append(caller)
        return there()

    torch.cuda.is_available = is_available
    return asked
