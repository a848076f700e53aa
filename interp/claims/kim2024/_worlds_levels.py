"""What would the rows of kim2024/thm7 look like, were the truth known? Worlds for its judge."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._parts import HIGH_PROBABILITY, MOST
from interp.claims.kim2024._runs import ACCURATE
from interp.core.claim import World
from probes.rows import setting, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from interp.claims.kim2024.thm7 import Thm7

NEVER = 99


def level_worlds(preset: "Thm7") -> tuple[World, ...]:
    """At the thresholds; the root solved but levels two at a time; right signs with a large error; as the theorem."""
    ablations = [
        f"{condition}_d{size.d}" for size in preset.sizes for condition in size.conditions if condition != "complete"
    ]
    return (
        World(
            "one seed in ten fails; half of the seeds need neither filter nor rounding",
            {"root": False, "on_time": False, **dict.fromkeys(ablations, False)},
            level_rows(preset, solved=HIGH_PROBABILITY, without=MOST),
        ),
        World("levels open two at a time", {"root": True, "on_time": False}, level_rows(preset, pairs=True)),
        World("right signs, a large error", {"root": False, "on_time": True}, level_rows(preset, error=0.5)),
        World(
            "as the theorem has it",
            {"root": True, "on_time": True, **dict.fromkeys(ablations, True)},
            level_rows(preset, solved=0.99, without=0.02),
        ),
    )


def level_rows(
    preset: "Thm7", *, solved: float = 1.0, without: float = 0.0, pairs: bool = False, error: float = 0.01
) -> "Callable[[np.random.Generator], pd.DataFrame]":
    """Rows in which a seed has every level on time with probability `solved`, or `without` parts of the recipe.

    A seed that fails never solves its top level. With `pairs`, even levels are solved together with the odd ones
    below them.
    """
    runs = [(size, condition) for size in preset.sizes for condition in size.conditions]
    cells = [
        (place, update, level, size.k.bit_length() - 1)
        for place, (size, _) in enumerate(runs)
        for update in range(size.k.bit_length())
        for level in range(1, size.k.bit_length())
    ]
    places = [{"d": size.d, "k": size.k, "n": size.n, "eta": 1.5} for size, _ in runs]
    last = [size.k.bit_length() - 1 for size, _ in runs]
    settings = [setting(level=level, **places[place]) for place, _, level, _ in cells] + [
        setting(**p) for p in places
    ]
    of_run = np.array([c[0] for c in cells] + list(range(len(runs))))
    columns = {
        "unit": np.tile([str(seed) for seed in range(preset.seeds)], len(settings)),
        "setting": np.repeat(settings, preset.seeds),
        "metric": np.repeat(["level_accuracy"] * len(cells) + ["sup_error"] * len(runs), preset.seeds),
        "update": np.repeat([c[1] for c in cells] + last, preset.seeds),
        "condition": np.repeat(np.array([condition for _, condition in runs])[of_run], preset.seeds),
        "run": np.repeat(np.array([f"{c},d={size.d}" for size, c in runs])[of_run], preset.seeds),
    }
    chance = np.array([[solved if condition == "complete" else without] for _, condition in runs])
    level, update = np.array([[c[2]] for c in cells]), np.array([[c[1]] for c in cells])
    top = level == np.array([[c[3]] for c in cells])
    due = level - (level % 2 == 0) if pairs else level

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        succeeds = generator.random((len(runs), preset.seeds)) < chance
        at = np.where(top & ~succeeds[of_run[: len(cells)]], NEVER, due)
        accuracy = np.where(update >= at, 1.0, ACCURATE - 0.1)
        errors = np.where(succeeds, error, 1.0)
        return table(**columns, scope="test", value=np.concatenate([accuracy.ravel(), errors.ravel()]))

    return rows
