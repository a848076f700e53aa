"""Would the judge of what decides be fooled? Time to learn, length and attention that follow different things."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from interp.claims.huang2025._fig1a import FARTHER
from interp.claims.huang2025._runs import END, LegoRun, at_loss
from interp.claims.huang2025._what_matters import CHANGES, MATTERS, TWICE, Cell
from interp.claims.huang2025._worlds import (
    SEEDS,
    accuracy_labels,
    filled,
    measured,
    ramps,
    step_labels,
    target_labels,
)
from interp.core.claim import World

FEW = 3
"""Seeds of everything but C6 and S5 in the two blocks."""
POINTS = (at_loss(0.01), END)
CELLS: dict[Cell, int] = {
    ("theory", "C6"): SEEDS, ("theory", "S5"): SEEDS, ("theory", "C5"): SEEDS, ("standard", "C6"): SEEDS,
    ("standard", "S5"): SEEDS,
} | {(condition, group): FEW for condition in CHANGES for group in ("C6", "S5")}  # fmt: skip


def cell_rows(
    generator: np.random.Generator,
    *,
    cells: Mapping[Cell, int] = CELLS,
    length: Mapping[Cell, float],
    time: Mapping[Cell, float],
    off: float = 0.0,
    gain: float = 0.0,
    unlearned: str = "",
    spread: float = 0.2,
) -> pd.DataFrame:
    """Cells that go so many octaves farther and take 2^time as many steps; S5 has 2^off times the attention off.

    `cells` are how many seeds each has; `gain` is what the end adds to the length; a group may be unlearned;
    `spread` is the standard deviation of a length between seeds, in octaves.
    """
    tables = []
    for (condition, group), seeds in cells.items():
        cell = (condition, group)
        ends = (
            np.log2(10) + length.get(cell, 0.0) + gain * np.arange(2) + generator.normal(0, spread, (1, 1, seeds, 1))
        )
        if group == unlearned:
            ends = np.full_like(ends, np.log2(3))
        shares = measured(ramps(ends), generator, LegoRun().n_test)
        times = 4000 * 2.0 ** (time.get(cell, 0.0) + generator.normal(0, 0.15, (1, 1, seeds)))
        tables += [
            (accuracy_labels((condition,), (group,), POINTS, seeds=seeds), shares),
            (step_labels((condition,), (group,), seeds=seeds), times),
        ]
        if seeds == SEEDS:
            elsewhere = 0.02 * 2.0 ** (off * (group == "S5") + generator.normal(0, 0.2, (1, 1, 1, seeds, 1)))
            attention = np.broadcast_to((1 - elsewhere) / 2, (2, 1, 1, seeds, 5))
            tables.append((target_labels((condition,), (group,), 5, END), attention))
    return filled(*tables)


def _of(groups: tuple[str, ...], value: float, conditions: tuple[str, ...] = ()) -> dict[Cell, float]:
    """The same for these groups in every condition, or in `conditions` alone."""
    return {cell: value for cell in CELLS if cell[1] in groups and (not conditions or cell[0] in conditions)}


_SEPARATE = {f"{key}_farther": True for key in CHANGES.values()}
_LATER = {f"{key}_time": True for key in CHANGES.values()} | {"time_theory": True, "time_standard": True}


def _not(truth: Mapping[str, bool]) -> dict[str, bool]:
    return dict.fromkeys(truth, False)


WORLDS = (
    World(
        "S5 is worse in everything, by what would not count",
        {
            "same_points": False, "sharper": False, "time_points": False, "training_c6": False, "training_s5": False,
            **_not(_LATER),
        },
        partial(cell_rows, length=_of(("C5", "C6"), MATTERS), time=_of(("S5",), TWICE), off=TWICE, gain=MATTERS),
    ),
    World(
        "S5 only learns later",
        {"same_points": False, "sharper": False, "time_points": True, "block_c6": False, **_LATER, **_not(_SEPARATE)},
        partial(cell_rows, length={}, time=_of(("S5",), 2.0)),
    ),
    World(
        "the block decides, and twice as far is not far beyond",
        {"block_c6": True, "block_s5": True, "same_points": False, **_not(_SEPARATE), **_not(_LATER)},
        partial(
            cell_rows,
            length=_of(("C6", "S5", "C5"), 1.5, ("theory",)) | _of(("C6",), FARTHER, tuple(CHANGES)),
            time={},
        ),
    ),
    World(
        "S5 is not learned",
        {"theory_s5_solves": False, "same_points": False, "sharper": False, "block_s5": False},
        partial(cell_rows, length={}, time={}, unlearned="S5", off=3.0),
    ),
    World(
        "the structure decides, as the paper has it, and training lengthens",
        {
            "theory_c5_solves": True, "theory_c6_solves": True, "theory_s5_solves": True, "same_points": True,
            "sharper": True, "training_c6": True, "training_s5": True, **_SEPARATE,
        },
        partial(cell_rows, length=_of(("C5", "C6"), 1.5), time={}, off=2.5, gain=1.0),
    ),
)  # fmt: skip
