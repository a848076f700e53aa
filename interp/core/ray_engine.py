"""How does the same work run on many machines? As tasks and actors of a Ray cluster (extra `ray`).

Ray places the work, tries again what a killed worker lost, and starts anew what died; nothing here schedules. Items
of claims are tasks that return their rows as bytes; the process that asked for them writes the files, so machines
need no shared disk, only the same environment. A pretrained model is loaded once by each actor (`sharded`).
"""

import importlib
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interp.core.claim import Item
from interp.core.engine import measure_item, rows_file
from probes.base import atomic

RETRIES = 3
"""How often Ray starts a piece of work again whose worker died."""


@dataclass(frozen=True)
class OnRay:
    """A running cluster at `address`, or one started on this machine for the time of the run; one core per item."""

    address: str | None = None
    gpus: float = 0.0
    """GPUs of each item: 0.25 puts four on one."""

    def measured(self, claim_id: str, items: Sequence[Item], out: Path) -> Iterator[tuple[Item, float]]:
        with cluster(self.address, gpus=self.gpus) as ray:
            task = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=RETRIES)(measured_bytes)
            pending = {task.remote(claim_id, item): item for item in items}
            while pending:
                (done, *_), _ = ray.wait(list(pending), num_returns=1)
                item = pending.pop(done)
                data, seconds = _result(ray, done)
                atomic.remove_leftovers(rows_file(out, item).parent)
                atomic.write_bytes(rows_file(out, item), data)
                yield item, seconds


def measured_bytes(claim_id: str, item: Item) -> tuple[bytes, float]:
    """The file of rows of one item, and the seconds it took; for a machine that does not see the run's directory."""
    with tempfile.TemporaryDirectory() as scratch:
        seconds = measure_item(claim_id, item, Path(scratch))
        return rows_file(Path(scratch), item).read_bytes(), seconds


@contextmanager
def sharded(
    load: Callable[[], Any], n_actors: int, address: str | None, cpus: int, gpus: float
) -> Iterator[Callable[[str, Sequence[Any]], Iterator[Any]]]:
    """Copies of what `load` returns, one in each actor: yields `calls(method, arguments)`.

    `calls` gives the method's result for each argument, in whatever order they are done. An actor that dies is
    started again, loads again and repeats the call it was at.
    """
    with cluster(address, n_actors, cpus, gpus) as ray:
        kind = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=RETRIES, max_task_retries=RETRIES)(Loaded)
        pool = ray.util.ActorPool([kind.remote(load) for _ in range(n_actors)])

        def calls(method: str, arguments: Sequence[Any]) -> Iterator[Any]:
            for argument in arguments:
                pool.submit(lambda actor, value: actor.call.remote(method, value), argument)
            while pool.has_next():
                try:
                    yield pool.get_next_unordered()
                except ray.exceptions.RayError as error:
                    raise _plain(ray, error) from None

        yield calls


class Loaded:
    """What an actor holds: an object that is costly to load, and is loaded at its first use.

    Not when the actor is made, for Ray reports an error there as the death of the actor and not as itself.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        self.load, self.held = load, None

    def call(self, method: str, argument: Any) -> Any:
        """One call of the object's `method`."""
        self.held = self.load() if self.held is None else self.held
        return getattr(self.held, method)(argument)


@contextmanager
def cluster(address: str | None, n_pieces: int = 1, cpus: int = 1, gpus: float = 0) -> Iterator[Any]:
    """The `ray` module, connected; refuses a cluster that could never run so many pieces of work at once."""
    try:
        ray: Any = importlib.import_module("ray")
        importlib.import_module("ray.util")
    except ImportError as error:
        raise ValueError("--engine ray needs Ray: pip install 'cotlens[ray]'") from error
    try:
        options = {} if address else {"include_dashboard": False}
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING, **options)
    except ConnectionError as error:
        raise ValueError(f"no Ray cluster answers at {address}: {error}") from error
    try:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        room = sum(_pieces(node, cpus, gpus) for node in nodes)
        if room < n_pieces:
            raise ValueError(
                f"the Ray cluster's {len(nodes)} nodes have room for {room} pieces of work with {cpus} cores and "
                f"{gpus:g} GPUs, but {n_pieces} are asked for: they would wait for ever; ask for less, or start more"
            )
        yield ray
    finally:
        ray.shutdown()


def _pieces(node: dict[str, float], cpus: int, gpus: float) -> int:
    """How many pieces of work fit on a node at once."""
    by_cpu = node.get("CPU", 0) // cpus
    return int(min(by_cpu, node.get("GPU", 0) // gpus) if gpus else by_cpu)


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        raise _plain(ray, error) from None


def _plain(ray: Any, error: Any) -> BaseException:
    """The error of our own code, or what became of the worker in one line."""
    if isinstance(error, ray.exceptions.RayTaskError) and error.cause is not None:
        return error.cause
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return ValueError(f"Ray gave up on a piece of work ({line}); finished ones are kept: --resume goes on")
