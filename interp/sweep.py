"""How is a claim run? Its items, on as many processes as asked for, each on disk as soon as it is done.

Every item runs on one thread in a process of its own, so rows do not depend on the number of workers.

A worker process starts afresh and looks the claim up by its id. It knows the suite's claims, those of installed
plug-ins (`probes.plugins`), and those that the main script registers outside its `if __name__ == "__main__"`. It
cannot know a claim registered in a notebook: run that with one worker, which is the process itself.
"""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
from pathlib import Path

from interp.claim import CLAIMS, Claim, Item, Preset, find_claims, load_claims
from interp.figures import save_figures
from interp.runs import run_directory
from interp.verdict import Verdict
from probes import atomic, rows

Report = Callable[[str], None]


class Pace:
    """How far a whole ledger is: counts finished items over all claims and estimates the time left."""

    def __init__(self, total: int) -> None:
        self.total, self.finished, self.skipped = total, 0, 0
        self._started = time.monotonic()

    def skip(self, n: int) -> None:
        """Counts items that an earlier run finished."""
        self.skipped += n

    def done(self) -> str:
        """Counts one item and says how far the work is."""
        self.finished += 1
        left = self.total - self.skipped - self.finished
        seconds = (time.monotonic() - self._started) / self.finished * left
        return f"[{self.skipped + self.finished}/{self.total}, about {seconds:.0f} s left]"


def run_claim(
    claim: Claim,
    preset_name: str,
    out: Path,
    *,
    preset: Preset | None = None,
    command: str | None = None,
    resume: bool = False,
    workers: int = 1,
    pace: Pace | None = None,
    report: Report = lambda _: None,
) -> Sequence[Verdict]:
    """Runs what is missing of `claim` in `out`, then judges and draws it.

    `preset` stands in for the named one, and `command` for the command that would make this run again.
    """
    command = command or f"cotlens claims run {claim.id} --preset {preset_name}"
    preset = preset or claim.preset(preset_name)
    config = {"claim": claim.id, "preset": preset_name, **asdict(preset)}  # pyright: ignore[reportArgumentType]
    with run_directory(out, config, resume):
        items = claim.items(preset)
        _measure_missing(claim, items, out, workers, pace or Pace(len(items)), report)
        table = rows.concat(rows.read(_rows_file(out, item)) for item in items)
        rows.write(out / "rows.parquet", table)
        verdicts = claim.judge(table)
        save_figures(out / "figures", claim.figures(table))
        record = {"claim": claim.id, "preset": preset_name, "command": command}
        atomic.write_json(out / "verdicts.json", [{**record, "verdicts": [v.record() for v in verdicts]}])
        return verdicts


def seeded(preset: Preset, seeds: int | None) -> Preset:
    """`preset` with another number of seeds, if one is given and seeds are what it replicates over."""
    if seeds is None or preset.seeds == 1:
        return preset
    if seeds < 2:
        raise ValueError(f"--seeds must be at least 2, got {seeds}: an interval over seeds needs two")
    return replace(preset, seeds=seeds)  # pyright: ignore[reportArgumentType]


def _measure_missing(
    claim: Claim, items: Sequence[Item], out: Path, workers: int, pace: Pace, report: Report
) -> None:
    if len({item.name for item in items}) != len(items):
        raise ValueError(f"claim {claim.id} has two items of one name")
    missing = [item for item in items if not _rows_file(out, item).exists()]
    if len(missing) < len(items):
        report(f"{claim.id}: {len(items) - len(missing)} of {len(items)} items are done already")
    pace.skip(len(items) - len(missing))

    def say(item: Item, seconds: float) -> None:
        report(f"{claim.id} {item.name}: {seconds:.0f} s {pace.done()}")

    if workers == 1 or len(missing) < 2:
        for item in missing:
            say(item, _measure(claim.id, item, out))
        return
    context = multiprocessing.get_context("spawn")  # a forked torch can deadlock
    with ProcessPoolExecutor(min(workers, len(missing)), mp_context=context) as pool:
        submitted = {pool.submit(_measure_in_worker, claim.id, item, out): item for item in missing}
        try:
            for future in as_completed(submitted):
                say(submitted[future], future.result())
        except BrokenProcessPool as error:
            raise ValueError(
                "a worker process was killed, perhaps for lack of memory; finished items are kept: --resume goes on"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()  # an item keeps its own checkpoint
            raise


def _measure_in_worker(claim_id: str, item: Item, out: Path) -> float:
    if claim_id not in CLAIMS and claim_id not in load_claims():
        raise ValueError(
            f"the claim {claim_id} is registered in the calling process, but a worker process does not find it: "
            "use one worker, or install the claim's module as an entry point of the group cotlens.plugins"
        )
    return _measure(claim_id, item, out)


def _measure(claim_id: str, item: Item, out: Path) -> float:
    """Measures one item, writes its rows and returns the seconds it took."""
    import torch

    torch.set_num_threads(1)
    started = time.monotonic()
    # The registry first: a claim file that someone edits meanwhile must not end a running claim.
    claim = CLAIMS.get(claim_id) or find_claims([claim_id])[0]
    work = out / "items" / item.name
    work.mkdir(parents=True, exist_ok=True)
    atomic.remove_leftovers(work)
    rows.write(_rows_file(out, item), claim.measure(item, work))
    (work / "checkpoint.safetensors").unlink(missing_ok=True)  # only needed to resume
    return time.monotonic() - started


def _rows_file(out: Path, item: Item) -> Path:
    return out / "items" / item.name / "rows.parquet"
