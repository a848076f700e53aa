"""Would the judge of huang2025's Figure 1a be fooled? Simulated runs: too short, not learned, late, as published."""

from functools import partial

import numpy as np
import pandas as pd

from interp.claims.huang2025._fig1a import APART, CYCLIC, FARTHER, NEARLY_PERFECT, SYMMETRIC
from interp.claims.huang2025._runs import END, SETTLED_SEEDS, LegoRun, at_loss
from interp.claims.huang2025._worlds import accuracy_labels, filled, measured, ramps, step_labels
from interp.core.claim import World

MODELS = ("theory",)
"""The parts about the standard block have the same estimators."""
POINTS = (at_loss(0.01), at_loss(0.001), END)
_FIRST, _SPREAD = np.log2(10), 0.2
"""log2 of the length that both groups solve at the first point, and its spread over seeds."""


def _rows(
    generator: np.random.Generator,
    *,
    ahead: float = 0.0,
    step: float = 0.3,
    early: float = 0.0,
    learned: bool = True,
    perfect: float | None = None,
    other: float | None = None,
) -> pd.DataFrame:
    """Every point adds `step` octaves; C6 is `ahead` by so many, and by `early` more before the end.

    `perfect` is the mean accuracy of C6 at 160 in the end, `other` that of S5; an S5 that is not `learned` fails at
    the training length.
    """
    ends = _FIRST + step * np.arange(len(POINTS)) + generator.normal(0, _SPREAD, (len(MODELS), 2, SETTLED_SEEDS, 1))
    ends[:, 0] += ahead
    ends[:, 0, :, :-1] += early
    if not learned:
        ends[:, 1] = np.log2(3)
    shares = ramps(ends)
    for group, mean in enumerate((perfect, other)):
        if mean is not None:
            shares[:, group, :, -1] = 1.0
            shares[:, group, :, -1, -1] = generator.uniform(2 * mean - 1, 1, (len(MODELS), SETTLED_SEEDS))
    groups = (CYCLIC, SYMMETRIC)
    spread = generator.normal(0, 0.1, (len(MODELS), 2, SETTLED_SEEDS))
    times = 4000 * np.array([1.0, 4.0])[None, :, None] * np.exp(spread)
    return filled(
        (accuracy_labels(MODELS, groups, POINTS, seeds=SETTLED_SEEDS), measured(shares, generator, LegoRun().n_test)),
        (step_labels(MODELS, groups, seeds=SETTLED_SEEDS), times),
    )


def _truth(**truth: bool) -> dict[str, bool]:
    return {f"theory_{key}": value for key, value in truth.items()}


WORLDS = (
    World(
        "C6 goes twice as far, no more",
        _truth(c6_far=False, apart=False, farther=False, loss_0_01=False, loss_0_001=False),
        partial(_rows, ahead=FARTHER),
    ),
    World(
        "C6 solves nine sentences of ten",
        _truth(c6_far=False, apart=True, farther=True),
        partial(_rows, perfect=NEARLY_PERFECT),
    ),
    World(
        "S5 is behind by what can just be seen",
        _truth(c6_far=True, apart=False, s5_short=False),
        partial(_rows, perfect=0.97, other=0.97 - APART),
    ),
    World(
        "S5 is not learned at the training length",
        _truth(s5_solves=False, apart=False, farther=False, loss_0_01=False, loss_0_001=False),
        partial(_rows, learned=False, perfect=0.97),
    ),
    World(
        "C6 is ahead until S5 has been trained on",
        _truth(apart=False, farther=False, loss_0_01=True, loss_0_001=True),
        partial(_rows, step=0.2, early=2.0),
    ),
    World(
        "as published",
        _truth(c6_far=True, apart=True, farther=True, s5_short=True, c6_solves=True, s5_solves=True),
        partial(_rows, perfect=0.97),
    ),
)
