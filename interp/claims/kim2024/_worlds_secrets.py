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
    from interp.claims.kim2024.thm2 import Asked, Thm2

SPREAD = 1.0
"""Standard deviation over seeds of the log of a variance."""


def secret_worlds(preset: "Thm2") -> tuple[World, ...]:
    """Bounds that hold on average but not for every seed; a variance that falls with d, but not as |P|; the truth."""
    primary = ("population", "sample", "oracle")
    return (
        World(
            "the bounds hold on average: one seed in ten is beyond them at every size; a coin decides the rest",
            dict.fromkeys((*primary, "correlation", "revealed", "tight", "whole", "small", "exact"), False),
            secret_rows(preset, held=HIGH_PROBABILITY, rest=MOST),
        ),
        World(
            "the variance of one model falls as the number of secrets, which nearly all seeds keep to",
            {**dict.fromkeys(primary, True), "decay": False},
            secret_rows(preset, slowest=-1.0),
        ),
        World(
            "the bounds fail at the largest size only",
            dict.fromkeys(("population", "sample", "correlation"), False),
            secret_rows(preset, largest=MOST),
        ),
        World(
            "as the theorem has it",
            dict.fromkeys((*primary, "correlation", "revealed", "decay", "tight", "whole", "small", "exact"), True),
            secret_rows(preset),
        ),
    )


def secret_rows(
    preset: "Thm2",
    *,
    held: float = 1.0,
    rest: float = 1.0,
    largest: float | None = None,
    exponent: float = -1.6,
    slowest: float | None = None,
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which each seed keeps to each bound at each size with probability `held`, or `rest` beyond the paper.

    `largest` is that probability at the first model and size with the largest d. Variances at k = d/2 and random
    weights fall as |P|^exponent from far below the bound, those of the first model as |P|^slowest. Each draw fills in
    values: the other columns are made once.
    """
    first, worst = preset.sizes[0][0], max(preset.sizes, key=lambda place: place[1])
    cells = [
        cell
        for model, d, judged, seeds in _places(preset)
        for cell in _spread_cells(
            preset, model, d, judged, seeds,
            by="largest" if judged and (model, d) == worst else "held",
            exponent=exponent if slowest is None or model != first else slowest,
        )
    ]  # fmt: skip
    cells += [cell for asked in preset.told for cell in _told_cells(asked)]
    cells.append(_Cell("whole", preset.whole.model, _asked(preset.whole), 0, "loss", "rest"))
    counts = [cell.seeds or preset.seeds for cell in cells]
    columns = {
        "unit": np.concatenate([np.arange(n).astype(str) for n in counts]),
        **{
            name: np.repeat([getattr(cell, name) for cell in cells], counts)
            for name in ("scope", "condition", "setting", "update", "metric")
        },
    }
    chance = {"rest": rest, "held": held, "largest": held if largest is None else largest, "always": 1.0}

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
    preset: "Thm2", model: str, d: int, judged: int, seeds: int, *, by: str, exponent: float
) -> list[_Cell]:
    k, n = d // 2, d ** preset.powers[0]
    everywhere, samples = (setting(d=d, k=k, n=size, judged=judged) for size in (0, n))
    typical = 1e-3 * comb(d, k) ** (exponent + 1)
    first = ("rest", 0.99, 0.5) if model == "one_parity" else ("spread", typical, 0.0)
    cells = [
        (everywhere, 0, "variance", *first),
        (everywhere, 1, "variance", by, 0.5, 2.0),  # after training
        *((everywhere, update, "bound", "always", 1.0, 1.0) for update in (0, 1)),
    ]
    on_samples = [
        (samples, 0, "variance", by, 0.01, 2.0),
        (samples, 0, "correlation", by, 0.5, 2.0),
        (samples, 0, "bound", "always", 1.0, 1.0),
        (samples, 0, "of_largest", "always", 0.4, 0.4),
    ]
    cells += on_samples if judged else []
    return [_Cell("secrets", model, *cell, seeds=seeds) for cell in cells]


def _told_cells(asked: "Asked") -> list[_Cell]:
    values = {
        "revealed": ("held", 0.0, 0.5),
        "revealed_bound": ("always", 0.1, 0.1),
        "loss": ("held", 0.95, 0.3),
        "loss_bound": ("always", 0.6, 0.6),
        "error_of_gradient": ("rest", 0.2, 2.0),
        "exact": ("rest", 0.1, 1.0),
    }
    return [_Cell("oracle", asked.model, _asked(asked), 0, metric, *value) for metric, value in values.items()]


def _asked(asked: "Asked") -> str:
    return setting(d=asked.d, k=asked.k, rate=asked.rates[0], oracle=ORACLES[0], queries=asked.n_queries)
