"""How would samples to solution grow, were the law known? Simulated runs for wen2024/fig2."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun
from interp.claims.wen2024._worlds import simulated_outcomes
from interp.core.claim import World

NOISE = 0.15
"""Standard deviation of the logarithm of samples to solution."""
Law = Callable[[np.ndarray], np.ndarray]
"""The median samples to solution as a function of k."""


def worlds(runs: Sequence[ParityRun]) -> tuple[World, ...]:
    """Powers, cliffs and an overhead without CoT, growth at the boundary with it, and the published laws.

    Faster than a power is said of k = 1 to 3, exponential growth of all sizes, by a law that may have an overhead.
    """
    seeds = len({run.seed for run in runs})
    first = [run for run in runs if run.seed == runs[0].seed]
    power, both = {"faster": False, "exponential": False}, {"faster": True, "exponential": False}
    all_false = {**power, "linear": False, "saves": False}
    described: list[tuple[str, dict[str, bool], Law, Law]] = [
        ("k^2 without CoT, k^1.5 with it, twice the samples at k=4", all_false, _square, _faster),
        ("linear without CoT up to k=3, never at k=4", power, partial(_cliff, last=np.inf), _line),
        ("linear without CoT up to k=3, harder at k=4", power, partial(_cliff, last=5e5), _line),
        ("linear without CoT up to k=2, a cliff at k=3, never at k=4", both, _early_cliff, _line),
        ("k^3 without CoT", power, _cube, _line),
        ("an overhead and k^3 without CoT", both, _overhead_and_cube, _line),
        ("3^k without CoT, and no less with it at k=2", {"saves_2": False}, _exponential, _as_hard_at_2),
        (
            "as published: 3^k without CoT, linear with it",
            dict.fromkeys([*all_false, "saves_2"], True),
            _exponential,
            _line,
        ),
    ]
    return tuple(
        World(name, truth, partial(_rows, runs=first, seeds=seeds, without=without, with_cot=with_cot))
        for name, truth, without, with_cot in described
    )


def _rows(
    generator: np.random.Generator, *, runs: Sequence[ParityRun], seeds: int, without: Law, with_cot: Law
) -> pd.DataFrame:
    k, cot = np.array([[run.k] for run in runs], dtype=float), np.array([[run.cot] for run in runs])
    median = np.where(cot, with_cot(k), without(k))
    samples = median * np.exp(generator.normal(0, NOISE, (len(runs), seeds)))
    return simulated_outcomes(runs, samples, np.ones_like(samples))


def _line(k: np.ndarray) -> np.ndarray:
    return 15_000 * k


def _as_hard_at_2(k: np.ndarray) -> np.ndarray:
    return np.where(k == 2, _exponential(k), _line(k))


def _faster(k: np.ndarray) -> np.ndarray:
    return 20_000 * k**1.5


def _square(k: np.ndarray) -> np.ndarray:
    return 20_000 * k**2


def _cliff(k: np.ndarray, last: float) -> np.ndarray:
    return np.where(k < 4, 30_000 * k, last)


def _early_cliff(k: np.ndarray) -> np.ndarray:
    return np.where(k < 3, 30_000 * k, np.where(k < 4, 300_000, np.inf))


def _cube(k: np.ndarray) -> np.ndarray:
    return 10_000 * k**3


def _overhead_and_cube(k: np.ndarray) -> np.ndarray:
    return 60_000 + 9_000 * k**3


def _exponential(k: np.ndarray) -> np.ndarray:
    return 7_000 * 3**k
