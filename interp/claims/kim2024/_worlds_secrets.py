"""What would the rows of kim2024/thm2 look like, were the truth known? Worlds for its judge."""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._parts import HIGH_PROBABILITY, MOST
from interp.claims.kim2024._thm2 import ORACLES
from interp.core.claim import World
from probes.rows import setting, table

if TYPE_CHECKING:
    from interp.claims.kim2024.thm2 import Thm2

SPREAD = 1.0
"""Standard deviation over seeds of the log of a variance."""


def secret_worlds(preset: "Thm2") -> tuple[World, ...]:
    """Bounds that hold on average but not for every seed; a variance that falls with d, but not as |P|; the truth."""
    primary = ("population", "sample", "oracle")
    return (
        World(
            "the bounds hold on average: one seed in ten is beyond them at every size; a coin decides the rest",
            {**dict.fromkeys((*primary, "correlation", "revealed"), False), "tight": False, "whole": False},
            secret_rows(preset, held=HIGH_PROBABILITY, rest=MOST),
        ),
        World(
            "the variance falls as the number of secrets, which nearly all seeds keep to",
            {**dict.fromkeys(primary, True), "decay": False},
            secret_rows(preset, exponent=-1.0),
        ),
        World(
            "as the theorem has it",
            dict.fromkeys((*primary, "correlation", "revealed", "decay", "tight", "whole"), True),
            secret_rows(preset),
        ),
    )


def secret_rows(
    preset: "Thm2", *, held: float = 1.0, rest: float = 1.0, exponent: float = -1.6
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which each seed keeps to each bound at each size with probability `held`, or `rest` beyond the paper.

    Variances at k = d/2 and random weights fall as |P|^exponent from far below the bound. Each draw fills in values:
    the other columns are made once.
    """
    cells = [cell for place in _places(preset) for cell in _spread_cells(preset, *place, rest, exponent)]
    cells += [cell for model, d in preset.told for cell in _told_cells(preset, model, d)]
    cells.append(_Cell("whole", "perceptron", _asked(preset.whole_d, preset.whole_d), 0, "loss", "rest"))
    counts = [cell.seeds or preset.seeds for cell in cells]
    columns = {
        "unit": np.concatenate([np.arange(n).astype(str) for n in counts]),
        **{
            name: np.repeat([getattr(cell, name) for cell in cells], counts)
            for name in ("scope", "condition", "setting", "update", "metric")
        },
    }
    chance = {"rest": rest, "held": held, "always": 1.0}

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        values = [
            cell.typical * np.exp(generator.normal(0, SPREAD, n))
            if cell.by == "spread"
            else np.where(generator.random(n) < chance[cell.by], cell.typical, cell.otherwise)
            for cell, n in zip(cells, counts)
        ]
        return table(**columns, run="simulated", value=np.concatenate(values))

    return rows


@dataclass(frozen=True)
class _Cell:
    """One metric of all seeds of one model and size: `typical` with the probability called `by`, or `otherwise`."""

    scope: str
    condition: str
    setting: str
    update: int
    metric: str
    by: str
    typical: float = 0.1
    otherwise: float = 1.0
    seeds: int = 0


def _places(preset: "Thm2") -> list[tuple[str, int, int, int]]:
    judged = [(model, d, 1, preset.seeds) for model, d in preset.sizes]
    return judged + [(model, d, 0, preset.wide_seeds) for model, d in preset.wide]


def _spread_cells(
    preset: "Thm2", model: str, d: int, judged: int, seeds: int, rest: float, exponent: float
) -> list[_Cell]:
    k, n = d // 2, d ** preset.powers[0]
    everywhere, samples = (setting(d=d, k=k, n=size, judged=judged) for size in (0, n))
    typical = 1e-3 * comb(d, k) ** (exponent + 1)
    first = ("rest", 0.99, 0.5) if model == "one_parity" else ("spread", typical, 0.0)
    cells = [
        (everywhere, 0, "variance", *first),
        (everywhere, 1, "variance", "held", 0.5, 2.0),  # after training
        (samples, 0, "variance", "held", 0.01, 2.0),
        (samples, 0, "correlation", "held", 0.5, 2.0),
        *((place, update, "bound", "always", 1.0, 1.0) for place, update in ((everywhere, 0), (everywhere, 1))),
        (samples, 0, "bound", "always", 1.0, 1.0),
    ]
    return [_Cell("secrets", model, *cell, seeds=seeds) for cell in cells]


def _told_cells(preset: "Thm2", model: str, d: int) -> list[_Cell]:
    values = {
        "revealed": ("held", 0.0, 0.5),
        "revealed_bound": ("always", 0.1, 0.1),
        "loss": ("held", 0.95, 0.3),
        "loss_bound": ("always", 0.6, 0.6),
    }
    return [_Cell("oracle", model, _asked(d, d // 2), 0, metric, *value) for metric, value in values.items()]


def _asked(d: int, k: int) -> str:
    return setting(d=d, k=k, rate=0.03, oracle=next(iter(ORACLES)), queries=20)
