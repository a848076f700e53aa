"""What would arms of attention show, were the truth known? The worlds of wen2024/causal-sparsity."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from interp.claims.wen2024._causal import ARMS, FACTOR
from interp.core.claim import World
from probes.rows import setting, table

SEEDS = 8
PROBLEMS = {"chain": ("cot", 6, 300_000), "easy": ("no_cot", 2, 1_000_000), "hard": ("no_cot", 6, 1_000_000)}
"""As in the cpu preset: condition, k and budget."""
ENTROPY = dict.fromkeys(ARMS, 0.3) | {"uniform": 1.0, "pressed_dense": 0.9, "weakly_dense": 0.9}
SPREAD = 0.3
"""Standard deviation of the natural logarithm of samples between seeds."""


def _world(
    factors: Mapping[tuple[str, str], float],
    unsolved: float = 0.0,
    free: float = 0.15,
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """`factors`: by problem (chain, easy, hard) and arm, samples over those of free attention; not named: as free.

    `unsolved`: the share of seeds, the same in every arm of a problem, that solve nothing. `free`: the share of the
    budget that free attention takes.
    """

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        columns: dict[str, list] = {name: [] for name in ("run", "unit", "condition", "setting", "metric", "value")}
        for problem, (condition, k, budget) in PROBLEMS.items():
            lost = generator.random(SEEDS) < unsolved
            for arm in ARMS if problem != "hard" else ("free", "given"):
                factor = factors.get((problem, arm), np.inf if problem == "hard" else 1.0)
                samples = free * budget * factor * np.exp(generator.normal(0, SPREAD, SEEDS))
                samples = np.where(lost, np.inf, samples)
                place = setting(n=20, k=k, arm=arm)
                for seed, value in enumerate(samples):
                    metric = "sample_complexity" if value < budget else "censored_at"
                    for name, number in ((metric, min(value, budget)), ("entropy_min", ENTROPY[arm])):
                        columns["run"].append(f"{arm},{condition},{k},{seed}")
                        columns["unit"].append(str(seed))
                        columns["condition"].append(condition)
                        columns["setting"].append(place)
                        columns["metric"].append(name)
                        columns["value"].append(number)
        return table(samples=1, **columns)

    return rows


_COSTS = ("dense", "given", "pressed_dense", "pressed_sparse", "weakly_dense", "weakly_sparse", "transplanted")
WORLDS = (
    World(
        "attention makes no difference, it becomes sparse because the task is learned",
        {**dict.fromkeys(_COSTS, False), "misplaced": False, "alone": False},
        _world({}),
    ),
    World(
        "every intervention is worth just the factor",
        dict.fromkeys(_COSTS, False),
        _world(
            {
                ("chain", "uniform"): FACTOR,
                ("easy", "given"): 1 / FACTOR,
                ("chain", "pressed_dense"): FACTOR,
                ("chain", "pressed_sparse"): 1 / FACTOR,
                ("chain", "weakly_dense"): FACTOR,
                ("chain", "weakly_sparse"): 1 / FACTOR,
                ("chain", "transplanted"): 1 / FACTOR,
            }
        ),
    ),
    World(
        "seeds that solve nothing, and no effect",
        dict.fromkeys(_COSTS, False),
        _world({}, unsolved=0.3),
    ),
    World(
        "a budget that cuts every arm alike",
        dict.fromkeys(_COSTS, False),
        _world({}, free=0.9),
    ),
    World(
        "sparse attention is needed, and enough",
        {"dense": True, "given": True, "misplaced": True, "alone": True, "dense_learns": False, "transplanted": True},
        _world(
            {
                ("chain", "uniform"): np.inf,
                ("chain", "misplaced"): np.inf,
                ("chain", "pressed_dense"): np.inf,
                ("chain", "transplanted"): 1 / 5,
                ("easy", "given"): 1 / 5,
                ("hard", "given"): 2.0,
            }
        ),
    ),
    World(
        "dense attention learns it, later",
        {"dense": True, "pressed_dense": True, "dense_learns": True, "cot_learns": True, "direct_learns": True},
        _world({("chain", "uniform"): 5.0, ("chain", "pressed_dense"): 5.0}),
    ),
)
