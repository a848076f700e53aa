"""What does a preset of a claim cost? Items, what they repeat, memory, time here and on GPUs, from rehearsals."""

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from math import ceil
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from interp.console import span
from interp.core.claim import Claim, Item, Preset
from interp.core.engine import die_with_parent, end_now, interrupts_waiting
from interp.cost.gpus import GPUS, USABLE, Gpu
from interp.cost.kinds import active, family_of, is_within, kind_of, largest, size_of
from interp.cost.rehearsal import Rehearsed, rehearse
from interp.cost.stand_ins import stand_in, with_known_size
from probes.base.atomic import read_json, write_json

Report = Callable[[str], None]


ENOUGH = 60.0
"""Seconds of the processor that rehearsals of a claim take before kinds that a larger one bounds are not tried."""


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
    bounded: int = 0
    """Kinds that were not tried, and are counted as a larger one of their family."""
    took: float = 0.0
    """Seconds of the processor that rehearsing took."""

    def lines(self, gpu: Gpu) -> list[str]:
        """In words."""
        lines = self.outline.lines()
        lines += [f"fails: {name}: {error}" for name, error in self.failed.items()]
        if len(self.failed) == self.tried:
            return lines
        here = f"{max(self.memory.values()) / 1e9:.1f} GB for each worker here"
        lines.append(f"tried {_many(self.tried, 'item')}, cut short: {self.tried - len(self.failed)} ran")
        if self.bounded:
            lines[-1] += f"; {_many(self.bounded, 'smaller kind')} not tried, and counted as larger ones that ran"
        if self.gpu_seconds:
            n = ceil(self.on_device / (USABLE * gpu.memory))
            lines.append(f"memory: {here}; {self.on_device / 1e9:.1f} GB on a GPU, so {_many(n, gpu.name)} at least")
            on_gpu = f"{span(self.gpu_seconds[gpu.name])} on one {gpu.name}, an item at a time"
        else:
            lines.append(f"memory: {here}")
            on_gpu = "its items use no GPU"
        lines.append(
            f"time at most: {self.flops:.1e} FLOPs; {on_gpu}; {span(self.seconds)} on one core of this machine"
        )
        return lines

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Estimate":
        """What `record` gave."""
        told = record["outline"]
        return cls(**{**record, "outline": Outline(**{**told, "replaced": tuple(told["replaced"])})})

    def answers(self, told: Outline, every_kind: bool) -> bool:
        """Whether this is an estimate of what `told` asks for, of which all that was tried ran."""
        return (
            self.outline == told and not self.failed and (self.tried + self.bounded == told.kinds or not every_kind)
        )


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
    claim: Claim,
    preset_name: str,
    preset: Preset,
    every_kind: bool,
    report: Report = lambda _: None,
    kept: Path | None = None,
    process: "Process | None" = None,
) -> Estimate:
    """Rehearses one item of every kind, or the largest of every family, and adds up what all items cost.

    After `ENOUGH` seconds of the processor, kinds that lie within a larger one of their family count as that one.
    A rehearsal that ran is written to the directory `kept`, and read from there if it is there. What is run is run in
    `process`, which the caller closes; without one, in a process for this claim.
    """
    turns = _turns(claim, _grouped(kind_of if every_kind else family_of, claim, claim.items(with_known_size(preset))))
    own, total, memory, on_device = Process(report), np.zeros(3 + 2 * len(GPUS)), {}, 0.0
    failed, asks, bounded, took, known = {}, False, 0, 0.0, {}
    for number, group in enumerate(turns, start=1):
        chosen, place = largest(claim, group), f"{claim.id} [{number}/{len(turns)}]"
        like = known.setdefault(family_of(claim, chosen), [])
        bound = _bound(claim, chosen, like)
        if bound is not None and took > ENOUGH:
            report(f"{place} {chosen.name} is counted as {bound[0].name}, which is larger")
            total += sum(_cost(claim, bound[0], item, bound[1]) for item in group)
            bounded += 1
            continue
        report(f"{place} trying {chosen.name}, the largest of {_many(len(group), 'item')} like it, cut short")
        kept_in = kept and kept / f"{kind_of(claim, chosen)}.json"
        found = _rehearsed(process or own, claim, chosen, kept_in, like[0] if like else None)
        took += found.took
        report(f"{place} {chosen.name}: {found.error or f'runs, tried in {span(found.took)} of the processor'}")
        if found.error:
            failed[chosen.name] = found.error
            continue
        like.append((chosen, found))
        total += sum(_cost(claim, chosen, item, found) for item in group)
        memory |= {kind_of(claim, item): found.memory for item in group}
        whole = stand_in(chosen.parameters, 1).whole
        on_device = max(on_device, 2 * whole + found.working / (2 if whole else 1))
        asks = asks or found.asks_for_gpu
    own.close()
    seconds, flops, _, *gpus = total
    by_gpu = dict(zip(GPUS, map(float, np.reshape(gpus, (2, -1)).max(0)))) if asks else {}
    told = outline(claim, preset_name, preset)
    tried = len(turns) - bounded
    return Estimate(told, tried, failed, memory, on_device, float(seconds), float(flops), by_gpu, bounded, took)


def _grouped(key: Callable[[Claim, Item], str], claim: Claim, items: Sequence[Item]) -> list[list[Item]]:
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(key(claim, item), []).append(item)
    return list(groups.values())


def _turns(claim: Claim, groups: Sequence[list[Item]]) -> list[list[Item]]:
    """The largest group of every family, then the smallest, and then always one amid the widest gap between two."""
    families: dict[str, list[list[Item]]] = {}
    for group in sorted(groups, key=lambda of: size_of(claim, largest(claim, of)), reverse=True):
        families.setdefault(family_of(claim, group[0]), []).append(group)
    found: list[tuple[int, list[Item]]] = []
    for family in families.values():
        order, gaps = sorted({0, len(family) - 1}), [(0, len(family) - 1)]
        for start, end in gaps:
            if end - start > 1:
                order.append((start + end) // 2)
                gaps += [(start, order[-1]), (order[-1], end)]
        found += enumerate(family[place] for place in order)
    return [group for _, group in sorted(found, key=lambda one: one[0])]


def _bound(claim: Claim, item: Item, known: "Sequence[tuple[Item, Rehearsed]]") -> "tuple[Item, Rehearsed] | None":
    """The smallest of `known` that is no smaller than `item` in any number, and repeats whatever it repeats."""
    loops = active(item.parameters, claim.loops)
    holding = [
        (other, found)
        for other, found in known
        if is_within(claim, item, other) and all(one in active(other.parameters, claim.loops) for one in loops)
    ]
    return min(holding, key=lambda one: size_of(claim, one[0]), default=None)


def _cost(claim: Claim, chosen: Item, item: Item, found: Rehearsed) -> np.ndarray:
    """The cost of `item`, from what `chosen` showed."""
    loops = active(chosen.parameters, claim.loops)
    return sum((one.count(item.parameters) * each for one, each in zip(loops, found.each)), found.once)


def _rehearsed(
    process: "Process", claim: Claim, item: Item, kept: Path | None, known: tuple[Item, Rehearsed] | None
) -> Rehearsed:
    """What the item showed, or shows: it is then entered in the file `kept`.

    With a larger item of the family `known`, a slow one is run once, and what it repeats is told by that one.
    """
    if kept is not None and kept.is_file():
        return Rehearsed.read(read_json(kept))
    n_layers = stand_in(item.parameters, 1).n_layers
    loops = active(item.parameters, claim.loops)
    brief = known is not None and not n_layers and active(known[0].parameters, claim.loops) == loops
    found = process.rehearse(claim.id, item, 1, True, brief)
    if not found.error and n_layers:
        process.close()  # one layer of a large model is enough to hold at a time
        found = _of_all_layers(n_layers, found, process.rehearse(claim.id, item, 2, False))
        process.close()
    if not found.error and known is not None and len(found.each) < len(loops):
        found = _in_proportion(found, known[1])
    if kept is not None and not found.error:
        write_json(kept, found.record())
    return found


def _in_proportion(found: Rehearsed, larger: Rehearsed) -> Rehearsed:
    """`found`, run once, with repetitions that cost as much less than those of `larger` as it did."""
    times = np.divide(found.base, larger.base, out=np.ones_like(found.base), where=larger.base > 0)
    return replace(found, once=times * larger.once, each=[times * of for of in larger.each])


def _of_all_layers(n_layers: int, one: Rehearsed, two: Rehearsed) -> Rehearsed:
    """What one layer of a model showed as if it were all, by how much two cost more."""
    if two.error:
        return two
    more = np.maximum(two.base - one.base, 0)
    times = 1 + (n_layers - 1) * np.divide(more, one.base, out=np.zeros_like(more), where=one.base > 0)
    took = one.took + two.took
    return replace(one, once=times * one.once, each=[times * of for of in one.each], took=took)


PATIENCE = 30.0
"""Seconds after which an item that is still being tried is told of, and again."""
LARGE = 5e8
"""Bytes that an item may take before the next has a process of its own, so that none counts another's memory."""


class Process:
    """A process that rehearses, started anew if it dies, if asked to, or if an item has left it large."""

    def __init__(self, report: Report = lambda _: None) -> None:
        self.report = report
        """Hears of what takes long."""
        self.pool: ProcessPoolExecutor | None = None
        self.workers: set[BaseProcess] = set()

    def started(self) -> ProcessPoolExecutor:
        if self.pool is None:
            context = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(1, mp_context=context, initializer=die_with_parent)
        return self.pool

    def rehearse(self, claim_id: str, item: Item, *options: Any) -> Rehearsed:
        pool = self.started()
        try:
            with interrupts_waiting():  # a terminal interrupts the process as well, which would say so in a traceback
                others = set(multiprocessing.active_children())
                rehearsing = pool.submit(rehearse, claim_id, item, *options)
                self.workers |= set(multiprocessing.active_children()) - others
            started = time.monotonic()
            while not wait([rehearsing], timeout=PATIENCE).done:
                self.report(f"{claim_id}: still trying {item.name}, {span(time.monotonic() - started)} so far")
            found = rehearsing.result()
        except BrokenProcessPool:
            self.close()
            return Rehearsed(error="the process was killed, perhaps for lack of memory")
        except BaseException:
            end_now(pool, self.workers)
            raise
        if found.working > LARGE:
            self.close()
        return found

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
        self.pool, self.workers = None, set()


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"
