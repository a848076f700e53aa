"""Would the judge of Figure 1a at the paper's rate be fooled? Gaps that last, that close, that never were."""

from functools import partial

import numpy as np
import pandas as pd

from interp.claims.huang2025._fig1a import CYCLIC, NEARLY_PERFECT, SYMMETRIC
from interp.claims.huang2025._fig1a_rate import APART, READS, RUN
from interp.claims.huang2025._runs import END, SEEDS, after, at_loss
from interp.claims.huang2025._worlds import accuracy_labels, filled, measured, ramps, step_labels
from interp.core.claim import World

_SEEN = (at_loss(0.01), at_loss(0.001), *(after(steps) for steps in READS), END)


def _rows(
    generator: np.random.Generator, *, cyclic: float, symmetric: float, first: float = 0.5, learned: bool = True
) -> pd.DataFrame:
    """Groups with these accuracies at 160 in the end; before it S5 is behind, at first by 2 * `first` octaves."""
    last = np.log2(160) - 2 * (1 - np.array([cyclic, symmetric]))  # where a ramp must end for that accuracy
    behind = np.array([2 * first] * 3 + [first])
    ends = np.log2([40, 80, 120, 140])[None, :] - behind * np.array([0, 1])[:, None]
    ends = np.concatenate([ends, last[:, None]], axis=1)[None, :, None, :]
    ends = ends + generator.normal(0, 0.1, (1, 2, SEEDS, len(_SEEN)))
    if not learned:
        ends[:, 1] = np.log2(3)
    shares = measured(ramps(ends), generator, RUN.n_test)
    times = np.broadcast_to(np.array([1700.0, 3100.0])[None, :, None], (1, 2, SEEDS))
    groups, conditions = (CYCLIC, SYMMETRIC), (RUN.condition,)
    return filled((accuracy_labels(conditions, groups, _SEEN), shares), (step_labels(conditions, groups), times))


_AHEAD = {f"farther_{at_loss(loss).replace('.', '_')}": True for loss in (0.01, 0.001)}
WORLDS = (
    World(
        "at both thresholds: C6 solves nine sentences of ten, S5 a quarter of them fewer",
        {"c6_far": False, "apart": False},
        partial(_rows, cyclic=NEARLY_PERFECT, symmetric=NEARLY_PERFECT - APART),
    ),
    World(
        "S5 catches up",
        {"c6_far": True, "apart": False, "s5_short": False, "apart_after_12000": True, "closes": True} | _AHEAD,
        partial(_rows, cyclic=1.0, symmetric=1.0),
    ),
    World(
        "the gap stays as it is",
        {"c6_far": True, "apart": True, "closes": False},
        partial(_rows, cyclic=1.0, symmetric=0.5),
    ),
    World(
        "S5 is not learned at the training length",
        {"s5_solves": False, "apart": False},
        partial(_rows, cyclic=1.0, symmetric=0.0, learned=False),
    ),
    World(
        "as published",
        {"c6_solves": True, "s5_solves": True, "c6_far": True, "apart": True, "s5_short": True, "farther_end": True},
        partial(_rows, cyclic=1.0, symmetric=0.2),
    ),
)
