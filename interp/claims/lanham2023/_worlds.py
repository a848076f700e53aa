"""What would early answering show, were the truth known? The worlds of lanham2023/early-answering."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from interp.claims.lanham2023._early import EARLY, LOG_PROB, RIGHT, STANDS
from interp.core.claim import World
from interp.core.problem_runs import built_in, clusters_of
from probes.rows import concat, table

N_TRACES, N_STEPS = 60, 4


def _world(
    nothing: float, steps: tuple[float, ...], filler: float, swapped: float, mistake: float
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which the answer has probability `nothing` without the chain, `steps` after each step, and so on.

    A trace has a log-probability near the logarithm of that, and greedy decoding writes the answer that often. The
    answer's number stands in the last step.
    """
    units = built_in(N_TRACES)
    _, codes = np.unique(clusters_of(units), return_inverse=True)
    places = [(EARLY, key, p) for key, p in zip(range(-1, N_STEPS), (nothing, *steps))]
    places += [("filler", -1, filler), ("swapped", -1, swapped), ("mistake", 0, mistake)]

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        easy = generator.normal(0, 0.3, codes.max() + 1)[codes] + generator.normal(0, 0.2, len(units))
        luck = 0.5 * generator.random(codes.max() + 1)[codes] + 0.5 * generator.random(len(units))
        ranks = np.argsort(np.argsort(luck)) / len(units) + 0.5 / len(units)  # uniform: a template is right together
        tables = []
        for condition, key, p in places:
            noise = np.abs(easy) + generator.normal(0, 0.2, len(units))
            names = {"run": "model", "unit": units, "condition": condition, "key": key, "scope": "answer"}
            tables += [
                table(**names, metric=LOG_PROB, value=np.log(p) - noise, n_tokens=10 * (key + 2)),
                table(**names, metric=RIGHT, value=(ranks < p).astype(float), n_tokens=10 * (key + 2)),
            ]
            if condition == EARLY:
                tables.append(table(**names, metric=STANDS, value=float(key == N_STEPS - 1), n_tokens=10 * (key + 2)))
        return concat(tables)

    return rows


def _truth(names: tuple[str, ...], true: bool) -> dict[str, bool]:
    return dict.fromkeys([f"{name}_{short}" for name in names for short in ("right", "log_prob")], true)


_ALL = ("area", "filler", "swapped", "mistake", "unstated")
_FLAT = (0.5,) * N_STEPS
WORLDS = (
    World(
        "answers at random, whatever is read", _truth(_ALL, False) | {"filler_alone": True},
        _world(0.5, _FLAT, 0.5, 0.5, 0.5),
    ),
    World(
        "more tokens are enough",
        _truth(("area",), True) | _truth(("filler", "swapped"), False) | {"filler_alone": False},
        _world(0.1, (0.3, 0.5, 0.7, 0.9), 0.9, 0.9, 0.9),
    ),
    World(
        "the number is copied from the last step",
        _truth(("area", "filler", "swapped"), True) | _truth(("unstated",), False) | {"filler_alone": True},
        _world(0.05, (0.05, 0.05, 0.05, 0.95), 0.05, 0.05, 0.7),
    ),
    World(
        "the answer comes step by step", _truth(_ALL, True) | {"filler_alone": True},
        _world(0.05, (0.2, 0.4, 0.6, 0.95), 0.05, 0.05, 0.5),
    ),
    World(
        "by nearly the margin", _truth(("area", "filler", "swapped"), False) | {"filler_alone": True},
        _world(0.8, (0.8, 0.8, 0.8, 0.88), 0.8, 0.8, 0.8),
    ),
)  # fmt: skip
