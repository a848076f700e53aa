"""How is a claim run? Its items by an engine, each on disk as soon as it is done; then verdicts and figures."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean

import pandas as pd

from interp.console import span
from interp.core import reproduce
from interp.core.claim import Claim, Item, Preset
from interp.core.engine import Engine, Local, clear, rows_file
from interp.core.ledger import Record, write_records
from interp.core.plan import UNIT
from interp.core.protocol import RESULTS, declaration, status
from interp.core.runs import read_provenance, require_same_versions, run_directory
from probes import rows
from probes.base import atomic
from probes.parts import LARGE

Report = Callable[[str], None]
FEW_ITEMS = 5
"""After so many the time left is estimated, though kinds are left of which none is done."""


def seconds_file(out: Path, item: Item) -> Path:
    """Where the processor seconds that an item took are kept."""
    return rows_file(out, item).with_name("seconds.json")


class Pace:
    """How far a whole ledger is: counts finished items over all claims and estimates the time left.

    Items of a kind, which differ in their seed or their problems alone, take equally long; kinds may differ much. So
    nothing is said of the time until one of every kind that is left is done; or several items are, whose mean then
    stands for the other kinds.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self.left = Counter(kinds)
        """Items that are not finished, by kind."""
        self.total, self.finished = self.left.total(), 0
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)
        self._started = time.monotonic()

    def skip(self, kinds: Iterable[str]) -> None:
        """Counts items that an earlier run finished."""
        self.left -= Counter(kinds)

    def done(self, kind: str, seconds: float) -> str:
        """Counts one item, which took so many processor seconds, and says how far the work is."""
        self.left -= Counter([kind])
        self.finished += 1
        self._seconds[kind].append(seconds)
        time_left = self._time_left()
        told = "" if time_left is None else f", about {span(time_left)} left"
        return f"[{self.total - self.left.total()}/{self.total}{told}]"

    def _time_left(self) -> float | None:
        """Seconds by the clock, if enough is known."""
        if self.finished < FEW_ITEMS and not set(self.left) <= set(self._seconds):
            return None
        took = [seconds for of_kind in self._seconds.values() for seconds in of_kind]
        mean = {kind: fmean(self._seconds.get(kind, took)) for kind in self.left}
        if not sum(took):
            return 0.0
        return sum(n * mean[kind] for kind, n in self.left.items()) * (time.monotonic() - self._started) / sum(took)


def kinds_of(claim: Claim, items: Iterable[Item]) -> list[str]:
    """The kind of each item, for `Pace`: its claim and its name, without seed or problems."""
    return [f"{claim.id} {UNIT.sub('', item.name)}" for item in items]


def run_claim(
    claim: Claim,
    preset_name: str,
    out: Path,
    *,
    preset: Preset | None = None,
    command: str | None = None,
    resume: bool = False,
    workers: int = 1,
    engine: Engine | None = None,
    pace: Pace | None = None,
    results: Path = RESULTS,
    report: Report = lambda _: None,
) -> Record:
    """Runs what is missing of `claim` in `out`, then judges and draws it.

    `preset` stands in for the named one, and `command` for the command that would make this run again. `engine` is
    this machine with so many `workers` unless another is given. A protocol in `results` that covers this run, and is
    committed, is kept with its provenance: the run is then confirmatory.
    """
    command = command or reproduce.command("claims", "run", claim.id, options={"preset": preset_name})
    preset = preset or claim.preset(preset_name)
    config = {"claim": claim.id, "preset": preset_name, **asdict(preset)}  # pyright: ignore[reportArgumentType]
    declared = declaration(claim, preset_name, preset, results)
    with run_directory(out, config, resume, declaration=declared and declared.record()):
        items = claim.items(preset)
        _measure_missing(claim, items, out, engine or Local(workers), pace or Pace(kinds_of(claim, items)), report)
        table = _table(claim, [rows_file(out, item) for item in items])
        rows.write(out / "rows.parquet", table)
        from interp.figures.style import save_figures  # matplotlib, when the work is done

        known = status(claim, preset_name, preset, read_provenance(out).get("declaration"), results)
        record = Record(claim.judge(table, preset), preset_name, command, claim.scale_of(preset_name), known)
        save_figures(out / "figures", claim.figures(table))
        write_records(out / "verdicts.json", [record])
        return record


def _table(claim: Claim, files: Sequence[Path]) -> pd.DataFrame:
    """All rows; of more than memory would hold, those that parts and figures read. The items keep the others."""
    tables = (rows.read(file) for file in files)
    if sum(map(rows.n_rows, files)) <= LARGE:
        return rows.concat(tables)
    kept = rows.concat(map(claim.published, tables))  # of each item perhaps more than of all, such as its own maximum
    return claim.published(kept).reset_index(drop=True)


def seeded(preset: Preset, seeds: int | None, first: int | None = None) -> Preset:
    """`preset` with another number of seeds, if seeds are what it replicates over, and another first unit."""
    if seeds is not None and seeds < 2:
        raise ValueError(f"--seeds must be at least 2, got {seeds}: an interval over seeds needs two")
    if first is not None and first < 0:
        raise ValueError(f"--first-unit must be 0 or more, got {first}")
    changes = {} if seeds is None or preset.seeds == 1 else {"seeds": seeds}
    changes |= {} if first is None else {"first_unit": first}
    return replace(preset, **changes)  # pyright: ignore[reportArgumentType]


def _measure_missing(
    claim: Claim, items: Sequence[Item], out: Path, engine: Engine, pace: Pace, report: Report
) -> None:
    if len({item.name for item in items}) != len(items):
        raise ValueError(f"claim {claim.id} has two items of one name")
    missing = [item for item in items if not rows_file(out, item).exists()]
    if missing and any((out / "items").glob("*/*")):  # finished items, or checkpoints of others
        require_same_versions(out)
    if len(missing) < len(items):
        report(f"{claim.id}: {len(items) - len(missing)} of {len(items)} items are done already")
    pace.skip(kinds_of(claim, [item for item in items if item not in missing]))
    for item in items:
        if item not in missing:
            clear(out, item)  # a kill may have come between its rows and this
    for item, seconds in engine.measured(claim.id, missing, out):
        atomic.write_json(seconds_file(out, item), round(seconds, 1))
        (kind,) = kinds_of(claim, [item])
        report(f"{claim.id} {item.name}: {seconds:.0f} s {pace.done(kind, seconds)}")
