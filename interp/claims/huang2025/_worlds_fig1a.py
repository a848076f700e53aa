"""Would the judge of huang2025's Figure 1a be fooled? Simulated runs: too short, not learned, late, as published."""

from functools import partial

import numpy as np
import pandas as pd

from interp.claims.huang2025._fig1a import CYCLIC, FARTHER, NEARLY_PERFECT, SYMMETRIC
from interp.claims.huang2025._worlds import SEEDS, accuracy_labels, filled, measured, point_labels, ramps
from interp.core.claim import World

MODELS = ("theory",)
"""The parts about the standard block have the same estimators."""
POINTS = 3
"""Evaluations."""
_FIRST, _SPREAD = np.log2(10), 0.2
"""log2 of the length that both groups solve at the first evaluation, and its spread over seeds."""


def _rows(
    generator: np.random.Generator,
    *,
    ahead: float = 0.0,
    step: float = 0.3,
    lag: int = 0,
    learned: bool = True,
    perfect: float | None = None,
) -> pd.DataFrame:
    """Every evaluation adds `step` octaves and halves the loss; C6 is `ahead` octaves, S5 `lag` evaluations late.

    `perfect` is the mean accuracy of C6 at 160 in the end; an S5 that is not `learned` fails at the training length.
    """
    times = np.broadcast_to(np.arange(POINTS, dtype=float), (len(MODELS), 2, SEEDS, POINTS)).copy()
    times[:, 1] -= lag
    ends = _FIRST + step * times + generator.normal(0, _SPREAD, (len(MODELS), 2, SEEDS, 1))
    ends[:, 0] += ahead
    if not learned:
        ends[:, 1] = np.log2(3)
    shares = ramps(ends)
    if perfect is not None:
        shares[:, 0, :, -1] = 1.0
        shares[:, 0, :, -1, -1] = generator.uniform(2 * perfect - 1, 1, (len(MODELS), SEEDS))
    losses = 0.1 * 0.5**times * np.exp(generator.normal(0, 0.05, times.shape))
    groups = (CYCLIC, SYMMETRIC)
    return filled(
        (accuracy_labels(MODELS, groups, POINTS), measured(shares, generator)),
        (point_labels("loss", MODELS, groups, POINTS), losses),
    )


def _truth(**truth: bool) -> dict[str, bool]:
    return {f"theory_{key}": value for key, value in truth.items()}


WORLDS = (
    World(
        "C6 goes twice as far, no more",
        _truth(c6_far=False, farther=False, way=False, loss=False),
        partial(_rows, ahead=FARTHER),
    ),
    World(
        "C6 solves nine sentences of ten",
        _truth(c6_far=False, farther=True),
        partial(_rows, perfect=NEARLY_PERFECT),
    ),
    World(
        "S5 is not learned at the training length",
        _truth(s5_solves=False, farther=False, way=False, loss=False),
        partial(_rows, learned=False, perfect=0.97),
    ),
    World(
        "S5 only learns later",
        _truth(loss=False),
        partial(_rows, step=1.0, lag=1),
    ),
    World(
        "as published",
        _truth(c6_far=True, farther=True, s5_short=True, c6_solves=True, s5_solves=True),
        partial(_rows, perfect=0.97),
    ),
)
