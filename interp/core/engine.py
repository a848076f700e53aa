"""Where do the items of a claim run? In this process, in a pool of processes, or on a cluster (`ray_engine`).

Every item runs on one thread, so rows do not depend on where, nor on how many at once. An item counts as done when
its rows are on disk; whatever is killed costs only items that are not.

A worker process starts afresh and looks the claim up by its id. It knows the suite's claims, those of installed
plug-ins (`probes.base.plugins`), and those that the main script registers outside its `if __name__ == "__main__"`. It
cannot know a claim registered in a notebook: run that with one worker, which is the process itself.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol, runtime_checkable

from interp.core.claim import CLAIMS, Item, load_claims
from probes import rows
from probes.base import atomic


@runtime_checkable
class Engine(Protocol):
    """Something that measures items."""

    def measured(self, claim_id: str, items: Sequence[Item], out: Path) -> Iterator[tuple[Item, float]]:
        """Each item, in any order, as soon as `rows_file(out, item)` is there, with the processor seconds it took."""
        ...


@dataclass(frozen=True)
class Local:
    """This machine: this process itself, or a pool of `workers` processes."""

    workers: int = 1

    def measured(self, claim_id: str, items: Sequence[Item], out: Path) -> Iterator[tuple[Item, float]]:
        if self.workers > 1 and len(items) > 1:
            yield from _in_pool(self.workers, claim_id, items, out)
            return
        for item in items:
            yield item, measure_item(claim_id, item, out)


def rows_file(out: Path, item: Item) -> Path:
    """Where the rows of `item` are once it is done."""
    return out / "items" / item.name / "rows.parquet"


def measure_item(claim_id: str, item: Item, out: Path) -> float:
    """Measures one item, writes its rows and returns the processor seconds it took: a busy machine adds none."""
    import threadpoolctl
    import torch

    started = time.process_time()
    # The registry first: a claim file that someone edits meanwhile must not end a running claim.
    claim = CLAIMS.get(claim_id) or load_claims().get(claim_id)
    if claim is None:
        raise ValueError(
            f"the claim {claim_id} is registered in the calling process, but a worker process does not find it: "
            "use one worker, name the claim's file in COTLENS_PLUGINS, or install its module as an entry point of "
            "the group cotlens.plugins"
        )
    file = rows_file(out, item)
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic.remove_leftovers(file.parent)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpoolctl.threadpool_limits(1):  # numpy and scikit-learn have threads of their own
            rows.write(file, claim.measure(item, file.parent))
    finally:
        torch.set_num_threads(threads)
    clear(out, item)
    return time.process_time() - started


def clear(out: Path, item: Item) -> None:
    """Removes what a finished item needed only to resume."""
    (rows_file(out, item).parent / "checkpoint.safetensors").unlink(missing_ok=True)


def _in_pool(workers: int, claim_id: str, items: Sequence[Item], out: Path) -> Iterator[tuple[Item, float]]:
    context = multiprocessing.get_context("spawn")  # a forked torch can deadlock
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(workers, len(items)), mp_context=context, initializer=die_with_parent) as pool:
        try:  # from the first submission on: leaving the pool by itself would wait for what was submitted
            with interrupts_waiting():
                submitted = {pool.submit(measure_item, claim_id, item, out): item for item in items}
            for future in as_completed(submitted):
                yield submitted[future], future.result()
        except BrokenProcessPool as error:
            raise ValueError(
                "a worker process was killed, perhaps for lack of memory; finished items are kept: --resume goes on"
            ) from error
        except BaseException:
            end_now(pool, set(multiprocessing.active_children()) - others)  # an item keeps its own checkpoint
            raise


def end_now(pool: ProcessPoolExecutor, workers: set[BaseProcess]) -> None:
    """Ends the pool and its workers. An interrupt that broke this off would leave the process to wait for them."""
    with interrupts_waiting():
        pool.shutdown(wait=False, cancel_futures=True)
        for process in workers:
            process.terminate()


@contextmanager
def interrupts_waiting() -> Iterator[None]:
    """Lets an interrupt wait until the workers have begun, or are ended, and keeps theirs from them for good.

    A terminal interrupts them as well, and a worker that is only half begun would say so in a traceback: we end them.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die_with_parent() -> None:
    """Ends this worker when the process that started it is gone: a pool's workers would wait for it for ever."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
