"""Would the judge of positions be fooled? Positions that disturb, that replace contents, that are not learned."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from interp.claims.huang2025._fig1a import FAILS
from interp.claims.huang2025._nope import GROUP, PERMUTED, RUNS, ZEROED
from interp.claims.huang2025._runs import END, SEEDS, LegoRun
from interp.claims.huang2025._worlds import accuracy_labels, filled, measured, point_labels, ramps, step_labels
from interp.core.claim import World


def _rows(
    generator: np.random.Generator, *, lengths: Mapping[tuple[str, str], float], place: float, unlearned: str = ""
) -> pd.DataFrame:
    """Runs that solve these lengths, by arm and point; `place`: solved in random order with learned positions."""
    tables = []
    for (key, point), length in lengths.items():
        ends = np.log2(2 if key == unlearned else length) + generator.normal(0, 0.25, (1, 1, SEEDS, 1))
        cell = (RUNS[key].condition,), (GROUP,)
        tables.append((accuracy_labels(*cell, (point,)), measured(ramps(ends), generator, LegoRun().n_test)))
        if point == END:
            tables.append((step_labels(*cell), 400 * np.exp(generator.normal(0, 0.1, (1, 1, SEEDS)))))
            share = np.full((1, 1, SEEDS, 1), place if key == "learned" else 1.0)
            tables.append((point_labels(PERMUTED, *cell, (END,)), measured(share, generator, LegoRun().n_test)))
    return filled(*tables)


def _cells(none: float, learned: float, zeroed: float, shuffled: float, content: float) -> dict:
    """The lengths of a world, with sinusoidal positions as with learned ones."""
    return {
        ("none", END): none, ("learned", END): learned, ("learned", ZEROED): zeroed, ("sinusoidal", END): learned,
        ("shuffled", END): shuffled, ("shuffled", ZEROED): content,
    }  # fmt: skip


_ALL = dict.fromkeys(("learned_farther", "sinusoidal_farther", "zeroed_farther", "untrained", "rest"), True)
WORLDS = (
    World(
        "without positions it goes twice as far, no more",
        dict.fromkeys((*_ALL, "by_place", "content"), False),
        partial(_rows, lengths=_cells(20, 10, 10, 10, 10), place=FAILS),
    ),
    World(
        "positions that were never trained disturb, and nothing else",
        {**_ALL, "zeroed_farther": False, "rest": False, "by_place": False, "content": False},
        partial(_rows, lengths=_cells(40, 8, 40, 8, 40), place=0.95),
    ),
    World(
        "positions do no harm",
        dict.fromkeys((*_ALL, "by_place", "content"), False),
        partial(_rows, lengths=_cells(40, 40, 40, 40, 40), place=0.95),
    ),
    World(
        "the arm with learned positions is not learned",
        {"learned_solves": False, "learned_farther": False, "by_place": False, "sinusoidal_farther": False},
        partial(_rows, lengths=_cells(20, 20, 20, 20, 20), place=0.0, unlearned="learned"),
    ),
    World(
        "as the paper has it: places are learned instead of contents",
        {**_ALL, "by_place": True, "content": True, **{f"{key}_solves": True for key in RUNS}},
        partial(_rows, lengths=_cells(60, 8, 8, 8, 20), place=0.05),
    ),
)
