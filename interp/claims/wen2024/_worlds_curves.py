"""What would accuracy and entropy look like, were they related or not? Curves simulated for fig1b and fig5-slow."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun
from interp.claims.wen2024._worlds import simulated_curves, simulated_outcomes
from interp.core.claim import World
from probes.rows import concat

GRID = 48
"""Evaluations of a run: fewer than in the experiment, for speed."""
NOISE = 0.02
"""Standard deviation of an evaluation."""
SPREAD = 0.25
"""Standard deviation of the logarithm of a run's own falls."""


@dataclass(frozen=True)
class Simulated:
    """A run of which many seeds are simulated."""

    run: ParityRun
    solution: float
    """Median samples to solution."""
    solves: float
    """The probability that a run solves the task within its budget."""


@dataclass(frozen=True)
class CurveWorld:
    """What entropy does: a drift that every run has, and falls that only solved runs have."""

    drift: Literal["none", "line", "sigmoid"]
    step: float = 0.0
    """A fall at `at` times the jump of accuracy."""
    at: float = 1.0
    early: float = 0.0
    """A fall spread over the plateau before the jump."""


def curve_rows(
    generator: np.random.Generator, *, runs: Sequence[Simulated], seeds: int, world: CurveWorld
) -> pd.DataFrame:
    """Outcomes and curves of every run and seed in `world`."""
    samples = np.array([_solutions(of, seeds, generator) for of in runs])
    steps, accuracy, entropy = [], [], []
    for of, at in zip(runs, samples):
        run, grid = of.run, np.linspace(0, of.run.budget, GRID + 1)
        jump = np.where(np.isfinite(at), 0.9 * at, 10.0 * run.budget)[:, None]  # a failed run's never comes
        chance = 0.5**run.k if run.cot else 0.5
        rise = 1 / (1 + np.exp(np.minimum((jump - grid) / (0.03 * jump), 50)))
        accuracy.append(chance + (1 - chance) * rise + generator.normal(0, NOISE / 2, rise.shape))
        size = np.exp(generator.normal(0, SPREAD, (seeds, 1)))
        fall = _drift(world, of.solution, grid, seeds, generator) + world.step * size * (grid >= world.at * jump)
        fall = fall + world.early * size * np.where(np.isfinite(at)[:, None], np.minimum(grid / jump, 1.0), 0.0)
        entropy.append(0.98 - fall[:, None] + generator.normal(0, NOISE, (seeds, run.heads, len(grid))))
        steps.append(np.floor(grid))
    each = [of.run for of in runs]
    outcomes = simulated_outcomes(each, samples, np.where(np.isfinite(samples), 1.0, 0.5))
    return concat([outcomes, simulated_curves(each, steps, accuracy, entropy)])


def _solutions(of: Simulated, seeds: int, generator: np.random.Generator) -> np.ndarray:
    samples = of.solution * np.exp(generator.normal(0, 0.2, seeds))
    return np.where(generator.random(seeds) < of.solves, samples, np.inf)


def _drift(
    world: CurveWorld, solution: float, grid: np.ndarray, seeds: int, generator: np.random.Generator
) -> np.ndarray:
    """A fall that has nothing to do with accuracy, of about 0.5 over the first twice the samples to solution."""
    time = grid / (2 * solution)
    size = 0.5 * np.exp(generator.normal(0, 0.2, (seeds, 1)))
    if world.drift == "line":
        return size * np.minimum(time, 1.5)
    if world.drift == "sigmoid":
        centre = generator.uniform(0, 1, (seeds, 1))
        return 1.5 * size / (1 + np.exp(-(time - centre) / 0.15))
    return np.zeros((seeds, len(grid)))


def curve_worlds(
    runs: Sequence[Simulated], seeds: int, described: Sequence[tuple[str, dict[str, bool], CurveWorld]]
) -> tuple[World, ...]:
    """Each described world, simulated for these runs."""
    return tuple(
        World(name, truth, partial(curve_rows, runs=runs, seeds=seeds, world=world))
        for name, truth, world in described
    )
