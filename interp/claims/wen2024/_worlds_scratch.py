"""What would models trained from scratch show, were the truth known? The worlds of wen2024/fig6-scratch."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd

from interp.claims.wen2024._pretrained import SMALLEST
from interp.claims.wen2024._scratch import ARMS, COT, DIRECT, PLACES
from interp.claims.wen2024._worlds_pretrained import deviations
from interp.core.claim import World
from probes.rows import setting, table

SEEDS, N_PROBLEMS = 3, 100
"""As in the cpu preset."""
UNITS = [f"family-{i:03d}" for i in range(N_PROBLEMS)]
_CELLS = tuple(dict.fromkeys([place for place, *_ in PLACES.values()] + [("min", "final", DIRECT)]))


def _world(
    shift: float, direct: float = 0.0, solved: float = 0.98, of_runs: float = 0.004
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Models trained with CoT lie by `shift` lower on text with CoT, and by `direct` on text without."""

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        of_problems = dict(zip(_CELLS, deviations(generator, UNITS, (len(_CELLS),), 0.01, 0.005)))
        columns: dict[str, list] = {name: [] for name in ("run", "setting", "metric", "scope", "condition", "value")}
        for arm, seed in product(ARMS, range(SEEDS)):
            place = (f"{arm}-seed={seed}", setting(training=arm, seed=seed, tokens=100))
            for metric, scope, text in _CELLS:
                mean = 0.4 + (arm == COT) * (shift if text == COT else direct)
                moved = generator.normal(0, of_runs) + (arm == COT) * of_problems[metric, scope, text]
                value = mean + moved + generator.normal(0, 0.005, N_PROBLEMS)
                _add(columns, *place, metric, scope, text, value)
            right = (generator.random(N_PROBLEMS) < solved).astype(float)
            _add(columns, *place, "solved", "all", "generated", right)
        whole = {name: np.concatenate(parts) for name, parts in columns.items()}
        return table(unit=UNITS * (len(whole["value"]) // N_PROBLEMS), **whole)

    return rows


def _add(columns: dict[str, list], *values) -> None:
    for column, value in zip(columns.values(), values, strict=True):
        column.append(np.broadcast_to(value, N_PROBLEMS))


_ON_COT = [key for key, (place, *_) in PLACES.items() if place[2] == COT]
_ON_DIRECT = [key for key, (place, *_) in PLACES.items() if place[2] == DIRECT]
WORLDS = (
    World("training data make no difference", dict.fromkeys((*PLACES, "own_text"), False), _world(0.0)),
    World(
        "a difference at the margin, and runs that differ",
        dict.fromkeys(PLACES, False),
        _world(-SMALLEST, -SMALLEST, of_runs=0.01),
    ),
    World(
        "each model is sparser on the text that it knows",
        dict.fromkeys((*_ON_COT, "own_text"), True) | dict.fromkeys(_ON_DIRECT, False),
        _world(-0.05, 0.05),
    ),
    World(
        "training on CoT makes attention sparser",
        dict.fromkeys((*PLACES, "own_text", "cot_solves", "direct_solves"), True),
        _world(-0.05, -0.05),
    ),
    World(
        "attention differs, but nothing was learned",
        {"cot_solves": False, "direct_solves": False},
        _world(-0.05, -0.05, solved=0.5),
    ),
)
