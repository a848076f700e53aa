"""What would runs on repeated data look like, were it known who learns, what a layer costs and what CoT saves?"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import ndtr

from interp.claims.wen2024._runs import ParityRun
from interp.claims.wen2024._worlds import simulated_outcomes
from probes.rows import concat

ALIKE = 0.3
"""How much runs of a seed, which share their secret, are alike: the correlation of their luck."""
SPREAD = 0.35
"""Standard deviation of the logarithm of the samples that a run takes."""


def repeated_data(
    generator: np.random.Generator,
    *,
    runs: Sequence[ParityRun],
    seeds: int,
    easy: int,
    learns: float,
    layers_cost: float,
    cot_saves: float,
    easier: float,
) -> pd.DataFrame:
    """Rows in which a run learns with a probability, m layers cost a factor over m heads, and CoT saves one.

    Of `easy` secret bits a run learns with the probability `easier`.
    """
    cot, simple, deep = (
        np.array([[flag] for flag in flags]) for flags in zip(*((r.cot, r.k == easy, r.layers > 1) for r in runs))
    )
    shape = (len(runs), seeds)
    luck = np.sqrt(ALIKE) * generator.normal(size=seeds) + np.sqrt(1 - ALIKE) * generator.normal(size=shape)
    solved = ndtr(luck) < np.where(simple, easier, learns)
    near = 3e5 * np.where(deep, layers_cost, 1.0) * np.exp(generator.normal(0, SPREAD, shape))
    near = np.where(solved, near, np.inf)
    budgets = np.array([[float(run.budget)] for run in runs])
    hard = ~cot & ~simple
    best = np.where(hard, np.minimum(near, budgets), np.inf).min(0)
    near = np.where(cot, best / cot_saves * np.exp(generator.normal(0, 0.2, shape)), near)
    found = simulated_outcomes(runs, near, np.where(near < budgets, 1.0, 0.5))
    curve = found[found["metric"] == "test_accuracy"].assign(metric="accuracy", samples=near.ravel())
    return concat([found, curve[(near < budgets).ravel()]])
