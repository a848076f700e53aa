"""What would the rows of kim2024/lemmas look like, were the truth known? Worlds for its judge."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._lemmas import EPS, STATEMENTS
from interp.claims.kim2024._parts import HIGH_PROBABILITY
from interp.core.claim import World
from probes.rows import setting, table

if TYPE_CHECKING:
    from interp.claims.kim2024.lemmas import Lemmas

SPREAD = 0.2
"""Standard deviation over seeds of the log of what a gradient has beyond its leading term."""


def lemma_worlds(preset: "Lemmas") -> tuple[World, ...]:
    """Bounds that one seed in ten exceeds, with a remainder that falls as the bound; and as the lemmas have it."""
    every = (*STATEMENTS, "lemma8", "leading")
    return (
        World(
            "the bounds hold on average, and one seed in ten exceeds them; the remainder falls exactly as stated",
            dict.fromkeys(every, False),
            lemma_rows(preset, held=HIGH_PROBABILITY, power=-EPS / 8),
        ),
        World(
            "the bounds fail at the largest size only",
            dict.fromkeys(STATEMENTS, False),
            lemma_rows(preset, held=0.999, power=-0.5, largest=0.5),
        ),
        World("as the lemmas have it", dict.fromkeys(every, True), lemma_rows(preset, held=0.999, power=-0.5)),
    )


def lemma_rows(
    preset: "Lemmas", *, held: float, power: float, largest: float | None = None
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which a seed, or a size of Lemma 8, keeps to its bound with probability `held`, or `largest`."""
    sizes = [(d, k) for d in range(16, preset.largest_d + 1, 8) for k in (d // 2, d // 4)]
    cells = [(lemma, d, k) for lemma in STATEMENTS for d, k in preset.sizes]
    units = [str(seed) for seed in range(preset.seeds)]
    columns = {
        "condition": [*np.repeat([c[0] for c in cells], preset.seeds), *["lemma8"] * len(sizes)],
        "setting": [
            *np.repeat([setting(d=d, k=k, at=0) for _, d, k in cells], preset.seeds),
            *(setting(d=d, k=k, at=0) for d, k in sizes),
        ],
        "unit": [*units * len(cells), *(f"{d}:{k}" for d, k in sizes)],
    }
    columns["metric"] = ["over_bound"] * len(columns["unit"])
    ds = np.repeat([d for d, _ in preset.leading], preset.seeds)
    columns["condition"] += ["leading"] * len(ds)
    columns["setting"] += [*np.repeat([setting(d=d, k=k, at=0) for d, k in preset.leading], preset.seeds)]
    columns["unit"] += units * len(preset.leading)
    columns["metric"] += ["beyond_leading"] * len(ds)
    top = max(d for d, _ in preset.sizes)
    chances = [held if largest is None or d < top else largest for _, d, _ in cells]
    share = np.array([*np.repeat(chances, preset.seeds), *[held] * len(sizes)])

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        bounded = np.where(generator.random(len(share)) < share, 0.5, 1.5)
        beyond = 0.5 * ds**power * np.exp(generator.normal(0, SPREAD, len(ds)))
        return table(**columns, run="simulated", value=np.concatenate([bounded, beyond]))

    return rows
