"""What does a preset of a claim cost? Items, what they repeat, memory, time here and on GPUs, from rehearsals."""

import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np

from interp.core.claim import Claim, Item, Preset
from interp.cost.gpus import GPUS, USABLE, Gpu
from interp.cost.kinds import active, family_of, kind_of, largest
from interp.cost.rehearsal import Rehearsed, rehearse
from interp.cost.stand_ins import stand_in, with_known_size

Report = Callable[[str], None]
DAY, HOUR, MINUTE = 86_400, 3_600, 60


@dataclass(frozen=True)
class Outline:
    """What a preset asks for, before anything is run."""

    claim: str
    preset: str
    items: int
    kinds: int
    repeats: Mapping[str, float]
    """By unit, such as steps: how many there are at most, over all items."""
    replaced: tuple[str, ...]
    """What of the hub a rehearsal does without."""
    layers: str
    """Which part of a model is rehearsed, if not the whole."""

    def lines(self) -> list[str]:
        """In words."""
        counted = ", ".join(f"{count:,.0f} {unit}" for unit, count in self.repeats.items())
        first = f"{self.claim}, preset {self.preset}: {_many(self.items, 'item')} of {_many(self.kinds, 'kind')}"
        lines = [first + (f"; at most {counted}" if counted else "")]
        if self.replaced:
            what = f"{self.layers}, random; " if self.layers else ""
            lines.append(f"not fetched, so not tried: {', '.join(self.replaced)}; tried instead: {what}built-in text")
        return lines


@dataclass(frozen=True)
class Estimate:
    """What rehearsals of a preset showed."""

    outline: Outline
    tried: int
    """Items run, cut short: one of each kind, or of each family of kinds."""
    failed: Mapping[str, str]
    """By item: why it does not run."""
    memory: Mapping[str, float]
    """By kind: bytes of a worker process here."""
    on_device: float
    """Bytes on a GPU."""
    seconds: float
    """On one core of this machine."""
    flops: float
    gpu_seconds: Mapping[str, float]
    """One item after another, by GPU; empty for items that never ask for one."""

    def lines(self, gpu: Gpu) -> list[str]:
        """In words."""
        lines = self.outline.lines()
        lines += [f"fails: {name}: {error}" for name, error in self.failed.items()]
        if len(self.failed) == self.tried:
            return lines
        here = f"{max(self.memory.values()) / 1e9:.1f} GB for each worker here"
        lines.append(f"tried {_many(self.tried, 'item')}, cut short: {self.tried - len(self.failed)} ran")
        if self.gpu_seconds:
            n = ceil(self.on_device / (USABLE * gpu.memory))
            lines.append(f"memory: {here}; {self.on_device / 1e9:.1f} GB on a GPU, so {_many(n, gpu.name)} at least")
            on_gpu = f"{_span(self.gpu_seconds[gpu.name])} on one {gpu.name}, an item at a time"
        else:
            lines.append(f"memory: {here}")
            on_gpu = "its items use no GPU"
        lines.append(
            f"time at most: {self.flops:.1e} FLOPs; {on_gpu}; {_span(self.seconds)} on one core of this machine"
        )
        return lines

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def outline(claim: Claim, preset_name: str, preset: Preset) -> Outline:
    """What `preset` asks for; nothing is run or fetched for it."""
    items = claim.items(with_known_size(preset))
    repeats: dict[str, float] = {}
    for item in items:
        for one in claim.loops:
            if count := one.count(item.parameters):
                repeats[one.unit] = repeats.get(one.unit, 0) + count
    here = [stand_in(item.parameters, 1) for item in (items[0], items[-1])]
    replaced = tuple(dict.fromkeys(name for one in here for name in one.replaced))
    layers = f"1 of {here[0].n_layers} layers" if here[0].n_layers else ""
    kinds = {kind_of(claim, item) for item in items}
    return Outline(claim.id, preset_name, len(items), len(kinds), repeats, replaced, layers)


def estimate(
    claim: Claim, preset_name: str, preset: Preset, every_kind: bool, report: Report = lambda _: None
) -> Estimate:
    """Rehearses one item of every kind, or the largest of every family, and adds up what all items cost."""
    items = claim.items(with_known_size(preset))
    key = kind_of if every_kind else family_of
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(key(claim, item), []).append(item)
    process, total, memory, on_device = _Process(), np.zeros(3 + len(GPUS)), {}, 0.0
    failed, asks = {}, False
    for number, group in enumerate(groups.values(), start=1):
        chosen = largest(claim, group)
        found, times = _rehearsed(process, claim, chosen)
        report(f"{claim.id} [{number}/{len(groups)}] {chosen.name}: {found.error or 'runs'}")
        if found.error:
            failed[chosen.name] = found.error
            continue
        for item in group:
            total += times * _cost(claim, chosen, item, found)
        memory |= {kind_of(claim, item): found.memory for item in group}
        whole = stand_in(chosen.parameters, 1).whole
        on_device = max(on_device, 2 * whole + found.working / (2 if whole else 1))
        asks = asks or found.asks_for_gpu
    process.close()
    seconds, flops, _, *gpus = total
    by_gpu = dict(zip(GPUS, map(float, gpus))) if asks else {}
    told = outline(claim, preset_name, preset)
    return Estimate(told, len(groups), failed, memory, on_device, float(seconds), float(flops), by_gpu)


def _cost(claim: Claim, chosen: Item, item: Item, found: Rehearsed) -> np.ndarray:
    """The cost of `item`, from what `chosen` showed."""
    loops = active(chosen.parameters, claim.loops)
    return sum((one.count(item.parameters) * each for one, each in zip(loops, found.each)), found.once)


def _rehearsed(process: "_Process", claim: Claim, item: Item) -> tuple[Rehearsed, np.ndarray | float]:
    """What the item showed, and by how much more all layers of its model cost than the one that was rehearsed."""
    found = process.rehearse(claim.id, item)
    n_layers = stand_in(item.parameters, 1).n_layers
    if found.error or not n_layers:
        return found, 1.0
    process.close()  # one layer of a large model is enough to hold at a time
    two = process.rehearse(claim.id, item, 2, False)
    process.close()
    if two.error:
        return two, 1.0
    more = np.maximum(two.base - found.base, 0)
    return found, 1 + (n_layers - 1) * np.divide(more, found.base, out=np.zeros_like(more), where=found.base > 0)


class _Process:
    """A process that rehearses, started anew if it dies or if asked to forget what it holds."""

    def __init__(self) -> None:
        self.pool: ProcessPoolExecutor | None = None

    def rehearse(self, claim_id: str, item: Item, *options: Any) -> Rehearsed:
        self.pool = self.pool or ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        try:
            return self.pool.submit(rehearse, claim_id, item, *options).result()
        except BrokenProcessPool:
            self.close()
            return Rehearsed(error="the process was killed, perhaps for lack of memory")

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
        self.pool = None


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _span(seconds: float) -> str:
    """A time in the unit that one would say it in."""
    for unit, name in ((365 * DAY, "years"), (2 * DAY, "days"), (2 * HOUR, "hours"), (2 * MINUTE, "minutes")):
        if seconds >= unit:
            size = {"days": DAY, "hours": HOUR, "minutes": MINUTE}.get(name, unit)
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:.0f} seconds"
