"""How is one model measured by many machines? Actors of a Ray cluster hold copies of it and share the work.

All actors are placed at once or not at all (a placement group), each with its cores and GPUs on one machine: no two
commands wait for each other's half of a cluster, and no model is spread over machines. An actor that is lost, alone
or with its machine, costs the call it was at: another one repeats it, and a new one takes its place as soon as there
is room. Results are bytes and travel in pieces of at most PIECE.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from interp.core.ray_engine import RETRIES, cluster, plain, require_room

PIECE = 2**24
"""Bytes of the largest object that an actor returns."""
PATIENCE = 3600.0
"""Seconds without any actor at work after which it is given up; to load a large model takes a part of it."""
Load = Callable[[], Any]


@contextmanager
def actors(n: int, address: str | None, cpus: int, gpus: float) -> Iterator["Actors"]:
    """`n` actors with so many cores and GPUs each, for as long as the context lasts."""
    with cluster(address) as ray:
        require_room(ray, n, cpus, gpus)
        bundle = {"CPU": cpus, **({"GPU": gpus} if gpus else {})}
        group = ray.util.placement_group([bundle] * n, strategy="SPREAD")
        try:
            while not group.wait(timeout_seconds=20):
                print(f"waiting for room for {n} actors with {cpus} cores and {gpus:g} GPUs each", flush=True)
            pool = Actors(ray, group, n, cpus, gpus)
            try:
                yield pool
            finally:
                pool.end()
        finally:
            ray.util.remove_placement_group(group)


class Actors:
    """Actors that hold an object which is costly to load, such as a model: the same one, then perhaps another."""

    def __init__(self, ray: Any, group: Any, n: int, cpus: int, gpus: float) -> None:
        self.ray, self.group = ray, group
        self.kind = ray.remote(num_cpus=cpus, num_gpus=gpus)(Holder)
        self.members = [self._started(place) for place in range(n)]
        self.load: Load | None = None
        self.n_loads = 0

    def calls(self, load: Load, method: str, arguments: Sequence[Any]) -> Iterator[bytes]:
        """What the method of the object that `load` makes returns for each argument, in the order they are done."""
        shared = self._shared(load)
        waiting, idle = deque(range(len(arguments))), list[int]()
        running: dict[Any, tuple[int, int | None]]
        running = {self._holding(place, shared): (place, None) for place in range(len(self.members))}
        lost = Counter[int | None]()  # by argument; None: while loading
        while waiting or any(which is not None for _, which in running.values()):
            while waiting and idle:
                place, which = idle.pop(), waiting.popleft()
                running[self.members[place].call.remote(method, arguments[which])] = place, which
            reference = self._first_done(running)
            place, which = running.pop(reference)
            try:
                found = self._received(place, reference)
            except self.ray.exceptions.RayError as error:
                lost[which] += 1
                most = RETRIES * (1 if which is not None else len(self.members))  # a machine may have all of them
                if isinstance(error, self.ray.exceptions.RayTaskError) or lost[which] > most:
                    raise plain(self.ray, error) from None
                if which is not None:
                    waiting.appendleft(which)
                self.members[place] = self._started(place)
                running[self._holding(place, shared)] = place, None
                continue
            idle.append(place)
            if which is not None:
                yield found
            lost[None] = 0

    def _shared(self, load: Load) -> tuple[int, Any]:
        """The number of this load, and its place in Ray's store, from which every actor fetches it."""
        if load is not self.load:
            self.load, self.n_loads = load, self.n_loads + 1
        return self.n_loads, self.ray.put(load)

    def _holding(self, place: int, shared: tuple[int, Any]) -> Any:
        return self.members[place].hold.remote(*shared)

    def _first_done(self, running: dict[Any, tuple[int, int | None]]) -> Any:
        """The first that is done; work may take its time, but somebody has to be at work."""
        while True:
            done, _ = self.ray.wait(list(running), num_returns=1, timeout=PATIENCE)
            if done:
                return done[0]
            if all(which is None for _, which in running.values()):
                raise ValueError(
                    f"no actor has been ready for {PATIENCE:g} seconds: machines are lost or full; what was finished "
                    "is kept: start machines, then --resume goes on"
                )

    def end(self) -> None:
        for member in self.members:
            self.ray.kill(member)

    def _started(self, place: int) -> Any:
        strategy = self.ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            self.group, placement_group_bundle_index=place
        )
        return self.kind.options(scheduling_strategy=strategy).remote()

    def _received(self, place: int, reference: Any) -> bytes:
        n, first = self.ray.get(reference)
        more = [self.ray.get(self.members[place].piece.remote(i)) for i in range(1, n)]
        return b"".join([first, *more])


class Holder:
    """What runs in an actor."""

    def __init__(self) -> None:
        self.number = 0  # of the load that made what is held
        self.held: Any = None
        self.pieces: list[bytes] = []

    def hold(self, number: int, load: Load) -> tuple[int, bytes]:
        """Loads the object unless it is there; the one before is let go of first, to have room.

        Not when the actor is made, for Ray reports an error there as the death of the actor and not as itself.
        """
        if self.number != number:
            self.held = None
            self.number, self.held = number, load()
        return 1, b""

    def call(self, method: str, argument: Any) -> tuple[int, bytes]:
        """How many pieces the result has, and the first one."""
        data = getattr(self.held, method)(argument)
        self.pieces = [data[start : start + PIECE] for start in range(0, max(1, len(data)), PIECE)]
        return len(self.pieces), self.pieces[0]

    def piece(self, i: int) -> bytes:
        return self.pieces[i]
