"""How is a claim run? Its items, on as many processes as asked for, each on disk as soon as it is done.

Every item runs on one thread in a process of its own, so rows do not depend on the number of workers.
"""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from interp.claim import Claim, Item, Preset, find_claims
from interp.figures import save_figures
from interp.runs import run_directory
from interp.verdict import Verdict
from probes import atomic, rows

Report = Callable[[str], None]


def run_claim(
    claim: Claim,
    preset_name: str,
    out: Path,
    *,
    preset: Preset | None = None,
    seeds: int | None = None,
    resume: bool = False,
    workers: int = 1,
    report: Report = lambda _: None,
) -> Sequence[Verdict]:
    """Runs what is missing of `claim` in `out`, then judges and draws it; `preset` overrides the named one."""
    preset = preset or claim.preset(preset_name)
    if seeds is not None:
        if seeds < 2:
            raise ValueError(f"--seeds must be at least 2, got {seeds}: an interval over seeds needs two")
        preset = replace(preset, seeds=seeds)  # pyright: ignore[reportArgumentType]
    config = {"claim": claim.id, "preset": preset_name, **asdict(preset)}  # pyright: ignore[reportArgumentType]
    with run_directory(out, config, resume):
        items = claim.items(preset)
        _measure_missing(claim, items, out, workers, report)
        table = rows.concat(rows.read(_rows_file(out, item)) for item in items)
        rows.write(out / "rows.parquet", table)
        return conclude(claim, table, out, preset_name)


def conclude(claim: Claim, table: pd.DataFrame, out: Path, preset_name: str) -> Sequence[Verdict]:
    """Judges and draws `table`, and writes verdicts.json and figures/."""
    verdicts = claim.judge(table)
    save_figures(out / "figures", claim.figures(table))
    command = f"cotlens claims run {claim.id} --preset {preset_name}"
    record = {"claim": claim.id, "preset": preset_name, "command": command}
    atomic.write_json(out / "verdicts.json", [{**record, "verdicts": [v.record() for v in verdicts]}])
    return verdicts


def _measure_missing(claim: Claim, items: Sequence[Item], out: Path, workers: int, report: Report) -> None:
    if len({item.name for item in items}) != len(items):
        raise ValueError(f"claim {claim.id} has two items of one name")
    missing = [item for item in items if not _rows_file(out, item).exists()]
    if len(missing) < len(items):
        report(f"{claim.id}: {len(items) - len(missing)} of {len(items)} items are done already")
    started = time.monotonic()

    def say(done: int, item: Item, seconds: float) -> None:
        left = (time.monotonic() - started) / done * (len(missing) - done)
        report(f"{claim.id} [{done}/{len(missing)}] {item.name}: {seconds:.0f} s; about {left:.0f} s left")

    if workers == 1 or len(missing) < 2:
        for done, item in enumerate(missing, start=1):
            say(done, item, _measure(claim.id, item, out))
        return
    context = multiprocessing.get_context("spawn")  # a forked torch can deadlock
    with ProcessPoolExecutor(min(workers, len(missing)), mp_context=context) as pool:
        submitted = {pool.submit(_measure, claim.id, item, out): item for item in missing}
        try:
            for done, future in enumerate(as_completed(submitted), start=1):
                say(done, submitted[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()  # an item keeps its own checkpoint
            raise


def _measure(claim_id: str, item: Item, out: Path) -> float:
    """Measures one item, writes its rows and returns the seconds it took."""
    import torch

    torch.set_num_threads(1)
    started = time.monotonic()
    (claim,) = find_claims([claim_id])
    work = out / "items" / item.name
    work.mkdir(parents=True, exist_ok=True)
    atomic.remove_leftovers(work)
    rows.write(_rows_file(out, item), claim.measure(item, work))
    (work / "checkpoint.safetensors").unlink(missing_ok=True)  # only needed to resume
    return time.monotonic() - started


def _rows_file(out: Path, item: Item) -> Path:
    return out / "items" / item.name / "rows.parquet"
