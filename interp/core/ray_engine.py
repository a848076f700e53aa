"""How do the items of a claim run on many machines? As tasks of a Ray cluster (extra `ray`).

Ray places the tasks and tries again what a lost worker or machine had; nothing here schedules. A task returns its
rows as the bytes of a Parquet file, at most LARGEST of them; the process that asked for them writes the files, so
machines need no shared disk, only the same environment. Actors that hold a pretrained model are in `ray_actors`.
"""

import importlib
import logging
import os
import re
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interp.core.claim import Item
from interp.core.engine import measure_item, rows_file
from probes.base import atomic

RETRIES = 3
"""How often a piece of work is started again whose worker died."""
SETTINGS = b"\x04"
"""The kind of the first frame that either side of HTTP/2 sends, which Ray speaks."""
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + SETTINGS + b"\0\0\0\0\0"
LARGEST = 2**28
"""Bytes of the largest result of a task; rows take about 7 each."""


def is_share(gpus: float) -> bool:
    """Whether a piece of work can have so many GPUs: a part of one, or a whole number of them."""
    return 0 <= gpus <= 1 or (gpus > 1 and gpus % 1 == 0)  # NaN and infinity are neither


@dataclass(frozen=True)
class OnRay:
    """A running cluster at `address`, or one started on this machine for the time of the run; one core per item."""

    address: str | None = None
    gpus: float = 0.0
    """GPUs of each item: 0.25 puts four on one."""

    def measured(self, claim_id: str, items: Sequence[Item], out: Path) -> Iterator[tuple[Item, float]]:
        with cluster(self.address) as ray:
            require_room(ray, 1, cpus=1, gpus=self.gpus)
            task = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=RETRIES)(measured_bytes)
            pending = {task.remote(claim_id, item): item for item in items}
            try:
                while pending:
                    (done, *_), _ = ray.wait(list(pending), num_returns=1)
                    item = pending.pop(done)
                    data, seconds = _result(ray, done)
                    atomic.remove_leftovers(rows_file(out, item).parent)
                    atomic.write_bytes(rows_file(out, item), data)
                    yield item, seconds
            finally:
                for reference in pending:  # nobody waits for them any more, but the cluster may live on
                    ray.cancel(reference, force=True)


def measured_bytes(claim_id: str, item: Item) -> tuple[bytes, float]:
    """The file of rows of one item, and the seconds it took; for a machine that does not see the run's directory."""
    with tempfile.TemporaryDirectory() as scratch:
        seconds = measure_item(claim_id, item, Path(scratch))
        data = rows_file(Path(scratch), item).read_bytes()
    if len(data) > LARGEST:
        raise ValueError(
            f"the rows of {claim_id}, item {item.name}, are {len(data):,} bytes, more than the {LARGEST:,} that a "
            "task may return: choose a preset with smaller items, or --engine local"
        )
    return data, seconds


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """The `ray` module, connected; a connection that this process has already is used, and left."""
    try:
        ray: Any = importlib.import_module("ray")
        importlib.import_module("ray.util.scheduling_strategies")
    except ImportError as error:
        raise ValueError("--engine ray needs Ray: pip install 'cotlens[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS")
    _require_answer(address)
    try:
        options = {} if address else {"include_dashboard": False}
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING, **options)
    except Exception as error:  # Ray raises nothing more special when a machine is too busy to start it
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"no Ray cluster that can be used answers at {address or 'this machine'}: {line}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def require_room(ray: Any, n_pieces: int, cpus: int, gpus: float) -> None:
    """A ValueError if the cluster could never run so many pieces of work at once."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    room = sum(_pieces(node, cpus, gpus) for node in nodes)
    if room < n_pieces:
        raise ValueError(
            f"the Ray cluster's {len(nodes)} nodes have room for {room} pieces of work with {cpus} cores and "
            f"{gpus:g} GPUs, but {n_pieces} are asked for: they would wait for ever; ask for less, or start more"
        )


def plain(ray: Any, error: Any) -> BaseException:
    """The error of our own code, or what became of the worker in one line."""
    if isinstance(error, ray.exceptions.RayTaskError) and error.cause is not None:
        return error.cause
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    said = lines[-1].partition(" Some common causes")[0]
    return ValueError(f"Ray gave up on a piece of work ({said}); finished ones are kept: --resume goes on")


def _require_answer(address: str | None) -> None:
    """A ValueError unless somebody at HOST:PORT speaks as Ray does; Ray itself would try for minutes."""
    if address in (None, "auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"--address {address}: expected auto, HOST:PORT (usually 6379) or ray://HOST:PORT (10001)")
    try:
        with socket.create_connection((host, int(port)), timeout=10) as line:
            line.sendall(GREETING)
            answer = line.recv(9)
    except (OSError, OverflowError) as error:
        raise ValueError(f"no Ray cluster answers at {address} ({error}); is `ray start --head` running?") from error
    if answer[3:4] != SETTINGS and not os.environ.get("RAY_USE_TLS"):
        raise ValueError(f"somebody answers at {address}, but not as Ray does; expected the address of a Ray cluster")


def _pieces(node: dict[str, float], cpus: int, gpus: float) -> int:
    """How many pieces of work fit on a node at once; a piece with a part of a GPU has it on one GPU."""
    by_cpu = node.get("CPU", 0) // cpus
    if not gpus:
        return int(by_cpu)
    here = node.get("GPU", 0)
    by_gpu = here // gpus if gpus >= 1 else here * (1 // gpus)
    return int(min(by_cpu, by_gpu))


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        raise plain(ray, error) from None
