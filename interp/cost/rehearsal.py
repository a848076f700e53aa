"""Would an item run, and what would it cost? One of its kind is run at its own sizes, with every loop cut short.

Run with every loop at its least, and again with one loop more doubled each time, an item shows what it does once and
what a repetition adds; where that takes too little time to be seen, there are more repetitions. What importing and
counting take is subtracted; where counting takes most, because operations are small, the item is timed in a run of
its own.
Slow kinds of a family whose largest has shown all that are run only once: that they run, and how much more or less
they do, is seen from it. All this happens in a process whose memory is limited: what asks for more than there is
fails with a sentence, and takes nothing else down.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from interp.core.claim import CLAIMS, Claim, Item, load_claims
from interp.core.loops import Loop, repeated
from interp.cost.imports import Imports
from interp.cost.kinds import active
from interp.cost.memory import limited_memory, peak, resident
from interp.cost.stand_ins import StandIn, stand_in

SLOW = 2.0
"""Seconds of a claim's first run, without imports, beyond which what is set up once does not matter to its time."""
MOST = 0.5
"""Of a run's time: what counting may take of it before the run is timed without."""
BRIEF = 1.0
"""Seconds of a run beyond which nothing is doubled, if only the item's size beside a larger one is asked for."""
SEEN = 0.1
"""Share of a run's time that repetitions must add to tell theirs: until they do, there are more of them."""
LEAST_SEEN = 0.002
"""The least such share that is believed."""
_imported: set[str] = set()
"""Claims of which an item has been run in this process."""


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
    """The cost of one repetition, by loop; none of an item that was run once only."""
    memory: float = 0.0
    """Bytes of the whole process at their most."""
    working: float = 0.0
    """Bytes of these that the item took."""
    asks_for_gpu: bool = False
    """Whether it would have used a GPU."""
    took: float = 0.0
    """Seconds of the processor that all its runs took."""

    def record(self) -> dict[str, Any]:
        """As JSON."""
        arrays = {"base": self.base.tolist(), "once": self.once.tolist(), "each": [of.tolist() for of in self.each]}
        return {**vars(self), **arrays}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Rehearsed":
        """What `record` gave."""
        arrays = {"base": np.array(record["base"]), "once": np.array(record["once"])}
        return cls(**{**record, **arrays, "each": [np.array(of) for of in record["each"]]})


def rehearse(claim_id: str, item: Item, layers: int = 1, doubled: bool = True, brief: bool = False) -> Rehearsed:
    """Runs `item` cut short; once without `doubled`, for the cost of `layers` layers, or if slow and `brief`."""
    import threadpoolctl
    import torch

    claim = CLAIMS.get(claim_id) or load_claims()[claim_id]
    loops = active(item.parameters, claim.loops)
    here = stand_in(item.parameters, layers)
    torch.set_num_threads(1)
    asked = _watch_for_gpu()
    start, started = resident(), time.process_time()
    try:
        with threadpoolctl.threadpool_limits(1), limited_memory():
            base, each = _repetitions(_Cut(claim, item, here), loops, doubled, brief)
    except Exception as error:  # whatever an item raises is what a dry run is there to find
        line = (str(error).strip().splitlines() or [""])[0]
        return Rehearsed(error=f"{type(error).__name__}: {line}")
    most = peak()
    shortest = repeated(item.parameters, loops, [1] * len(loops))
    among = sum((one.count(shortest) * cost for one, cost in zip(loops, each)), np.zeros_like(base))
    held = sum((one.count(p) - one.count(shortest)) * one.holds(p) for p in (item.parameters,) for one in loops)
    took = time.process_time() - started
    return Rehearsed("", base, np.maximum(base - among, 0), each, most + held, most + held - start, bool(asked), took)


@dataclass(frozen=True)
class _Cut:
    """An item that can be run with its loops cut to so many times their least."""

    claim: Claim
    item: Item
    here: StandIn

    def cost(self, loops: Sequence[Loop], times: Sequence[int]) -> np.ndarray:
        short = Item(self.item.name, repeated(self.here.parameters, loops, times))
        found = _cost(self.claim.measure, short, self.here, self.claim.id in _imported)
        _imported.add(self.claim.id)
        return found


def _repetitions(cut: _Cut, loops: Sequence[Loop], doubled: bool, brief: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    """The cost with every loop at its least, and that of one repetition of each."""
    times, each = [1] * len(loops), []
    base = before = cut.cost(loops, times)
    if not doubled or (brief and base[0] > BRIEF):
        return base, each
    for place, one in enumerate(loops):
        shorter, most = list(times), int(one.count(cut.item.parameters) // one.least)
        times[place] = 2
        after = cut.cost(loops, times)
        longer = one.alone and not cut.here.n_layers
        while longer and after[0] - before[0] < SEEN * before[0] and times[place] < most:
            share = max((after[0] - before[0]) / before[0], LEAST_SEEN) if before[0] else LEAST_SEEN
            times[place] = min(most, ceil(max(2, 3 * SEEN / share)) * times[place])
            after = cut.cost(loops, times)
        more, fewer = (one.count(repeated(cut.item.parameters, loops, of)) for of in (times, shorter))
        each.append(np.maximum(after - before, 0) / (more - fewer))
        before = after
    return base, each


def _cost(measure: Any, item: Item, here: StandIn, imported: bool) -> np.ndarray:
    from interp.cost.counting import QUANTITIES, Counting, seconds_of_counting

    with TemporaryDirectory() as work, Counting(half=bool(here.n_layers)) as counted:
        seconds = _seconds(measure, item, Path(work), bool(here.n_layers))
    counting = seconds_of_counting() * counted.cost[QUANTITIES.index("launches")]
    distorted = counting > MOST * seconds or (not imported and seconds < SLOW)
    seconds -= min(counting, MOST * seconds)
    if distorted and not here.n_layers:  # a large model's operations are slow, and its traces are kept
        with TemporaryDirectory() as work:
            seconds = _seconds(measure, item, Path(work), False)
    counted.cost[0] = seconds
    return counted.cost


def _seconds(measure: Any, item: Item, work: Path, random_model: bool) -> float:
    with Imports() as imports:
        started = time.process_time()
        rows = measure(item, work)
        taken = time.process_time() - started
    if not len(rows) and not random_model:  # what a random model writes may hold no sentence
        raise ValueError("the item has no rows")
    return taken - imports.seconds


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
