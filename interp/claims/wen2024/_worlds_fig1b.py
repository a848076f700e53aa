"""What would accuracy and entropy look like, were they related or not? Simulated curves for wen2024/fig1b."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun
from interp.claims.wen2024._transitions import RAPID
from interp.claims.wen2024._worlds import simulated_curves, simulated_outcomes
from interp.core.claim import World
from probes.rows import concat

SEEDS = 5
EVERY = 16_384
"""Samples between evaluations: eight times as coarse as in the experiment, for speed."""
SOLUTION = {True: 100_000, False: 350_000}
"""Median samples to solution, with CoT and without."""
SOLVES = {True: 1.0, False: 0.6}
"""The probability that a run solves the task within its budget."""
NOISE = 0.02
"""Standard deviation of an evaluation."""


@dataclass(frozen=True)
class CurveWorld:
    """What entropy does: a drift that every run has, and falls that only solved runs have."""

    drift: Literal["none", "line", "sigmoid"]
    step: float = 0.0
    """A fall at `at` times the jump of accuracy."""
    at: float = 1.0
    early: float = 0.0
    """A fall spread over the plateau before the jump."""


def curve_rows(generator: np.random.Generator, *, runs: Sequence[ParityRun], world: CurveWorld) -> pd.DataFrame:
    """Outcomes and curves of every run and seed in `world`."""
    samples = np.array([_solutions(run, generator) for run in runs])
    steps, accuracy, entropy = [], [], []
    for run, at in zip(runs, samples):
        grid = np.arange(0, run.budget + 1, EVERY, dtype=float)
        jump = np.where(np.isfinite(at), 0.9 * at, 10.0 * run.budget)[:, None]  # a failed run's never comes
        chance = 0.5**run.k if run.cot else 0.5
        rise = 1 / (1 + np.exp(np.minimum((jump - grid) / (0.03 * jump), 50)))
        accuracy.append(chance + (1 - chance) * rise + generator.normal(0, NOISE / 2, rise.shape))
        fall = _drift(world, run, grid, len(at), generator) + world.step * (grid >= world.at * jump)
        fall = fall + world.early * np.where(np.isfinite(at)[:, None], np.minimum(grid / jump, 1.0), 0.0)
        entropy.append(0.98 - fall[:, None] + generator.normal(0, NOISE, (len(at), run.heads, len(grid))))
        steps.append(grid)
    outcomes = simulated_outcomes(runs, samples, np.where(np.isfinite(samples), 1.0, 0.5))
    return concat([outcomes, simulated_curves(runs, steps, accuracy, entropy)])


def _solutions(run: ParityRun, generator: np.random.Generator) -> np.ndarray:
    samples = SOLUTION[run.cot] * np.exp(generator.normal(0, 0.2, SEEDS))
    return np.where(generator.random(SEEDS) < SOLVES[run.cot], samples, np.inf)


def _drift(
    world: CurveWorld, run: ParityRun, grid: np.ndarray, n_seeds: int, generator: np.random.Generator
) -> np.ndarray:
    """A fall that has nothing to do with accuracy, of about 0.5 over the first twice the samples to solution."""
    time = grid / (2 * SOLUTION[run.cot])
    size = 0.5 * np.exp(generator.normal(0, 0.2, (n_seeds, 1)))
    if world.drift == "line":
        return size * np.minimum(time, 1.5)
    if world.drift == "sigmoid":
        centre = generator.uniform(0, 1, (n_seeds, 1))
        return 1.5 * size / (1 + np.exp(-(time - centre) / 0.15))
    return np.zeros((n_seeds, len(grid)))


def worlds(runs: Sequence[ParityRun]) -> tuple[World, ...]:
    """Drifts that have nothing to do with accuracy, falls that come too early, and what the paper describes."""
    no_drop = {"cot_drop": False, "no_cot_drop": False}
    described: list[tuple[str, dict[str, bool], CurveWorld]] = [
        ("entropy drifts down along a line", {**no_drop, "plateau": False}, CurveWorld("line")),
        ("entropy falls along a broad sigmoid of its own", {**no_drop, "plateau": False}, CurveWorld("sigmoid")),
        ("a drift, and the least drop that counts", {**no_drop, "plateau": False}, CurveWorld("line", step=RAPID)),
        ("entropy falls long before the jump", {**no_drop, "plateau": True}, CurveWorld("none", step=0.5, at=0.4)),
        (
            "entropy falls on the plateau, and most at the jump",
            {"cot_drop": True, "no_cot_drop": True, "plateau": True},
            CurveWorld("none", step=0.5, early=0.2),
        ),
    ]
    return tuple(World(name, truth, partial(curve_rows, runs=runs, world=world)) for name, truth, world in described)
