"""Would the judge of huang2025's theorems be fooled? Logarithms that pass for powers, stages that do not double."""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pandas as pd
from jaxtyping import Bool

from interp.claims.huang2025._theory_runs import LENGTHS
from interp.claims.huang2025._thm4_1 import AS_FAR, BALANCED, DOUBLING, EPSILON, FAILED, POWER, SHRINKING, SMALL
from interp.claims.huang2025._worlds import SEEDS, filled, measured, ramps
from interp.core.claim import World
from probes.rows import setting, table

SIZES, SYMMETRIC_D, RECURSIVE_D, STAGES, LONGEST = (32, 48, 64, 96, 128, 192), 128, 159, 4, 128
"""The cpu preset."""
METRICS = ("diagonal_43", "diagonal_44", "largest_other_43", "largest_other_44", "error")
RUNS = [("algorithm_1", "C6", d, 0) for d in SIZES]
RUNS += [("algorithm_1", "S4", SYMMETRIC_D, 0)]
RUNS += [("algorithm_2", "S4", RECURSIVE_D, stage) for stage in range(1, STAGES + 1)]
RUNS += [("algorithm_2", "C6", RECURSIVE_D, 1)]
"""Algorithm, group, d and stage of the models that are measured."""
_FIRST, _OTHER, _STAGES, _SIMPLE = slice(0, 6), 6, slice(7, 11), 11
_D = np.array([float(d) for _, _, d, _ in RUNS])[:, None]


@cache
def _labels() -> tuple[pd.DataFrame, Bool[np.ndarray, "run length"]]:
    """The rows of all models, metrics first, then accuracies; and which lengths a model is tested at."""
    tested = np.array([[length < min(d - 13, LONGEST + 1) for length in LENGTHS] for _, _, d, _ in RUNS])
    places = [(run, seed, metric, 0) for metric in METRICS for run in RUNS for seed in range(SEEDS)]
    places += [
        (run, seed, "accuracy", length)
        for run, lengths in zip(RUNS, tested)
        for seed in range(SEEDS)
        for length, used in zip(LENGTHS, lengths)
        if used
    ]
    return table(
        run=[f"{'-'.join(map(str, run[:3]))},{seed}" for run, seed, _, _ in places],
        condition=[run[0] for run, *_ in places],
        unit=[str(seed) for _, seed, _, _ in places],
        setting=[
            setting(d=d, group=group, **{k: v for k, v in (("stage", stage), ("length", length)) if v})
            for (_, group, d, stage), _, _, length in places
        ],
        update=10,
        metric=[metric for _, _, metric, _ in places],
        value=0.0,
    ), tested  # fmt: skip


def power(exponent: float) -> Callable[[np.ndarray], np.ndarray]:
    """d^exponent, 1 at the smallest d."""
    return lambda d: (d / SIZES[0]) ** exponent


def logarithm(d: np.ndarray) -> np.ndarray:
    """log d, 1 at the smallest d."""
    return np.log(d) / np.log(SIZES[0])


def _rows(
    generator: np.random.Generator,
    *,
    growth: Callable[[np.ndarray], np.ndarray],
    diagonal: float,
    imbalance: float,
    others: float,
    others_power: float,
    behind: float,
    first: float,
    doubling: float,
    off: float,
    twice: float | None = None,
) -> pd.DataFrame:
    """Lengths and concentration that grow with d as `growth`; the symmetric group is `behind` by so many octaves.

    The diagonals are 2 and a slope against log d, `others` and its power are the largest other entry's; stages begin
    at 2^first, go on by `doubling` octaves and leave attention `off`; `twice` is the mean of stage 1 at length 4.
    """
    shape = (len(RUNS), SEEDS)
    middle = 2 + diagonal * np.log(_D / SIZES[0]) + generator.normal(0, 0.03, shape)
    apart = imbalance * (1 + generator.normal(0, 0.05, shape)) / 2
    other = middle * others * power(others_power)(_D) * np.exp(generator.normal(0, 0.05, shape))
    error = 0.14 / growth(_D) * np.exp(generator.normal(0, 0.05, shape))
    error[_STAGES] = off * np.exp(generator.normal(0, 0.1, (STAGES, SEEDS)))
    reach = 3 + np.log2(growth(_D)) + generator.normal(0, 0.1, shape)
    reach[_OTHER] += behind
    reach[_STAGES] = first + doubling * np.arange(STAGES)[:, None] + generator.normal(0, 0.1, (STAGES, SEEDS))
    reach[_SIMPLE] = first + generator.normal(0, 0.1, SEEDS)
    labels, tested = _labels()
    shares = ramps(reach - 0.2, LENGTHS)
    if twice is not None:
        shares[_STAGES.start, :, LENGTHS.index(4)] = generator.uniform(2 * twice - 1, 1, SEEDS)
    accuracy = measured(shares, generator)[np.broadcast_to(tested[:, None], (*shape, len(LENGTHS)))]
    metrics = np.stack([middle * (1 + apart), middle * (1 - apart), other, other, error])
    return filled((labels, np.concatenate([metrics.ravel(), accuracy])))


WORLDS = (
    World(
        "everything grows like log d, the rest as far as would not count",
        {
            "concentrates": False, "length": False, "balanced": False, "grow": False, "others": False,
            "others_shrink": False, "stage_attention": False, "twice": False, "symmetric_as_far": False,
        },
        partial(
            _rows, growth=logarithm, diagonal=POWER, imbalance=BALANCED, others=SMALL, others_power=SHRINKING,
            behind=AS_FAR, first=3.0, doubling=1.0, off=EPSILON, twice=0.9,
        ),
    ),
    World(
        "powers at the threshold; other entries grow; stage 1 goes half the way by itself",
        {
            "concentrates": False, "length": False, "others": False, "others_shrink": False, "doubles": False,
            "first_fails": False, "c6_first_fails": False, "stage_attention": False,
        },
        partial(
            _rows, growth=power(POWER), diagonal=0.0, imbalance=0.0, others=SMALL, others_power=0.5, behind=0.0,
            first=5.2 - 2 * (1 - FAILED), doubling=DOUBLING, off=0.1,
        ),
    ),
    World(
        "as the theorems have it",
        {
            "concentrates": True, "length": True, "balanced": True, "grow": True, "others": True,
            "others_shrink": True, "twice": True, "stage_attention": True, "doubles": True, "first_fails": True,
            "symmetric_as_far": True, "c6_first_fails": True,
        },
        partial(
            _rows, growth=power(0.6), diagonal=0.8, imbalance=0.01, others=0.05, others_power=-1.0, behind=0.0,
            first=3.0, doubling=1.0, off=0.005, twice=0.97,
        ),
    ),
)  # fmt: skip
