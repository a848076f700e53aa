"""Would the judge of huang2025's Theorem 4.1 be fooled? Logarithms that pass for powers, and what just fails."""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pandas as pd
from jaxtyping import Bool

from interp.claims.huang2025._runs import SEEDS
from interp.claims.huang2025._theory_runs import LENGTHS
from interp.claims.huang2025._thm4_1 import (
    BALANCED,
    CLOSED,
    LEAD,
    LONG,
    NOISE,
    POWER,
    SHORT,
    SHRINKING,
    SMALL,
)
from interp.claims.huang2025._worlds import filled, measured, ramps
from interp.core.claim import World
from probes.rows import setting, table

SIZES, CONTROL, LONGEST = (32, 48, 64, 96, 128, 192), 2, 128
"""The cpu preset; the control is run at the third size."""
BLOCKS = ("diagonal_43", "diagonal_44", "largest_other_43", "largest_other_44")
METRICS = (*BLOCKS, "error", "predicate", "answer")
STEPS = (5, 10)
"""One on the way, and the last."""
_D = np.array(SIZES, dtype=float)[:, None]


@cache
def _labels() -> tuple[pd.DataFrame, Bool[np.ndarray, "size length"]]:
    """The rows [metric step size seed], those of the control, Acc at two lengths, accuracies; which are tested."""
    tested = np.array([[length < min(d - 13, LONGEST + 1) for length in LENGTHS] for d in SIZES])
    seeds = range(SEEDS)
    places = [(d, 2, step, metric, 0, s) for metric in METRICS for step in STEPS for d in SIZES for s in seeds]
    places += [(SIZES[CONTROL], 8, 10, metric, 0, s) for metric in BLOCKS for s in seeds]
    places += [(d, 2, 10, "sampled", length, s) for length in (SHORT, LONG) for d in SIZES for s in seeds]
    places += [
        (d, 2, 10, "accuracy", length, s)
        for d, lengths in zip(SIZES, tested)
        for s in seeds
        for length, used in zip(LENGTHS, lengths)
        if used
    ]
    return table(
        run=[f"{d},{per_token},{seed}" for d, per_token, *_, seed in places],
        condition="algorithm_1",
        unit=[str(seed) for *_, seed in places],
        setting=[
            setting(d=d, group="C6", batch=per_token * d, **({"length": length} if length else {}))
            for d, per_token, _, _, length, _ in places
        ],
        update=[step for _, _, step, *_ in places],
        metric=[metric for *_, metric, _, _ in places],
        value=0.0,
    ), tested  # fmt: skip


def power(exponent: float) -> Callable[[np.ndarray], np.ndarray]:
    """d^exponent, 1 at the smallest d."""
    return lambda d: (d / SIZES[0]) ** exponent


def logarithm(d: np.ndarray) -> np.ndarray:
    """log d, 1 at the smallest d."""
    return np.log(d) / np.log(SIZES[0])


def simulated(
    generator: np.random.Generator,
    *,
    growth: Callable[[np.ndarray], np.ndarray],
    diagonal: float,
    imbalance: float,
    others: float,
    others_power: float,
    noise: float,
    lead: float,
    left: float,
) -> pd.DataFrame:
    """Lengths, concentration and Acc that grow with d as `growth`; the diagonals are 2 and a slope against log d.

    `others` and its power are the largest other entry's, which the control has lessened by `noise`; Q_{4,3} leads by
    `lead` / log d on the way, where attention has a gap of which `left` is left.
    """
    shape = (len(SIZES), SEEDS)

    def jitter(scale: float) -> np.ndarray:
        return np.exp(generator.normal(0, scale, shape))

    middle = 2 + diagonal * np.log(_D / SIZES[0]) + generator.normal(0, 0.03, shape)
    apart = imbalance * jitter(0.05) / 2
    other = middle * others * power(others_power)(_D) * jitter(0.05)
    error = 0.14 / growth(_D) * jitter(0.05)
    ahead, gap = lead / np.log(_D) * jitter(0.1), 0.2 * jitter(0.05)
    tilt = gap * left * jitter(0.1)
    before = [0 * middle + ahead, 0 * middle, other / 2, other / 2, 0 * error + 0.5, 0.25 + gap / 2, 0.25 - gap / 2]
    after = [
        middle * (1 - apart), middle * (1 + apart), other, other, error,
        (1 - error + tilt) / 2, (1 - error - tilt) / 2,
    ]  # fmt: skip
    blocks = np.stack([np.stack(pair) for pair in zip(before, after)])  # [metric step size seed]
    lessened = other[CONTROL] / (noise * np.exp(generator.normal(0, 0.05, SEEDS)))
    calm = np.stack([after[0][CONTROL], after[1][CONTROL], lessened, lessened])
    missed = 0.05 / growth(_D) * jitter(0.1)
    labels, tested = _labels()
    shares = ramps(3 + np.log2(growth(_D)) + generator.normal(0, 0.1, shape) - 0.2, LENGTHS)
    accuracy = measured(shares, generator)[np.broadcast_to(tested[:, None], (*shape, len(LENGTHS)))]
    sampled = np.stack([1 - missed, 1 - 2 * missed])
    return filled((labels, np.concatenate([value.ravel() for value in (blocks, calm, sampled, accuracy)])))


PARTS = (
    "concentrates", "length", "sampled", "grow", "balanced", "others", "others_shrink", "noise", "lead", "gap_closes",
)  # fmt: skip
WORLDS = (
    World(
        "everything grows like log d, the rest as far as would not count",
        dict.fromkeys(PARTS, False),
        partial(
            simulated, growth=logarithm, diagonal=POWER, imbalance=BALANCED, others=SMALL, others_power=SHRINKING,
            noise=NOISE, lead=LEAD, left=CLOSED,
        ),
    ),
    World(
        "powers at the threshold; other entries grow and are no noise",
        {"concentrates": False, "length": False, "sampled": False, "others": False, "others_shrink": False,
         "noise": False, "grow": False, "lead": False},
        partial(
            simulated, growth=power(POWER), diagonal=0.0, imbalance=0.0, others=SMALL, others_power=0.5, noise=1.0,
            lead=0.0, left=0.2,
        ),
    ),
    World(
        "as the theorem has it",
        dict.fromkeys(PARTS, True),
        partial(
            simulated, growth=power(0.6), diagonal=0.8, imbalance=0.01, others=0.05, others_power=-1.0, noise=2.0,
            lead=1.5, left=0.1,
        ),
    ),
)  # fmt: skip
