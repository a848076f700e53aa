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

    from interp.claims.kim2024.thm7 import Size, Thm7

COMPLETE = ("complete", "noisy")
SPREAD = 0.3
"""Standard deviation over seeds of the log of the root's largest error."""


def level_worlds(preset: "Thm7") -> tuple[World, ...]:
    """At the thresholds; the root solved but levels two at a time; right signs with a large error; as the theorem."""
    conditions = [(size.d, condition) for size in preset.sizes for condition, _ in size.seeds]
    cascades = [f"cascade_d{d}" for d, condition in conditions if condition == "cascade"]
    ablations = [f"{condition}_d{d}" for d, condition in conditions if condition not in (*COMPLETE, "cascade")]
    recipe = ("root", "on_time", "noisy", "children_equal", "others_zero")
    return (
        World(
            "one seed in ten fails; half of the seeds need neither filter nor rounding, nor does the error fall",
            dict.fromkeys((*recipe, "error_falls", *cascades, *ablations), False),
            level_rows(preset, solved=HIGH_PROBABILITY, without=MOST, cascade=MOST, power=0.0),
        ),
        World("levels open two at a time", {"root": True, "on_time": False}, level_rows(preset, pairs=True)),
        World(
            "the largest size fails half of the time",
            dict.fromkeys(("root", "on_time", "children_equal", "others_zero"), False),
            level_rows(preset, largest=MOST),
        ),
        World("right signs, a large error", {"root": False, "on_time": True}, level_rows(preset, error=0.5)),
        World(
            "as the theorem has it",
            dict.fromkeys((*recipe, "error_falls", *cascades, *ablations), True),
            level_rows(preset, solved=0.995, without=0.02, cascade=0.98),
        ),
    )


def level_rows(
    preset: "Thm7",
    *,
    solved: float = 1.0,
    largest: float | None = None,
    without: float = 0.0,
    cascade: float = 1.0,
    pairs: bool = False,
    error: float = 0.01,
    power: float = -1.0,
) -> "Callable[[np.random.Generator], pd.DataFrame]":
    """Rows in which a seed has every level on time with probability `solved`, or `without` parts of the recipe.

    `largest` is that probability at the largest d. A seed that fails never solves its top level, and its weights are
    not those of the induction. With `pairs`, even levels are solved together with the odd ones below them. Errors
    scale as d^power.
    """
    runs = [(size, condition, seeds) for size in preset.sizes for condition, seeds in size.seeds]
    chances = {"cascade": cascade, **dict.fromkeys(COMPLETE, solved)}
    top_d, at_top = max(size.d for size in preset.sizes), solved if largest is None else largest
    tables = [_run_columns(size, condition, seeds) for size, condition, seeds in runs]
    columns = {name: np.concatenate([one[name] for one in tables]) for name in tables[0]}

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        values = []
        for size, condition, seeds in runs:
            top = size.k.bit_length() - 1
            of_top = condition in COMPLETE and size.d == top_d
            succeeds = generator.random(seeds) < (at_top if of_top else chances.get(condition, without))
            for update in range(top + 1):
                for level in range(1, top + 1):
                    due = level - (level % 2 == 0) if pairs else level
                    reached = succeeds if level == top else np.ones(seeds, bool)
                    values.append(np.where(reached & (update >= due), 1.0, ACCURATE - 0.1))
            typical = error * (size.d / preset.sizes[0].d) ** power * np.exp(generator.normal(0, SPREAD, seeds))
            values += [
                np.where(succeeds | (power == 0), typical, 1.0),
                np.where(succeeds, 1.0, 0.9),
                np.where(succeeds, 0.0, 1.0),
            ]
        return table(**columns, scope="test", value=np.concatenate(values))

    return rows


def _run_columns(size: "Size", condition: str, seeds: int) -> dict[str, np.ndarray]:
    """The columns other than value, of one size and condition, in the order in which values are drawn."""
    top, place = size.k.bit_length() - 1, {"d": size.d, "k": size.k, "n": size.n, "eta": 1.5}
    cells = [
        ("level_accuracy", update, setting(level=level, **place))
        for update in range(top + 1)
        for level in range(1, top + 1)
    ]
    cells += [(metric, top, setting(**place)) for metric in ("sup_error", "others_zero", "children_apart")]
    return {
        "unit": np.tile([str(seed) for seed in range(seeds)], len(cells)),
        "metric": np.repeat([metric for metric, _, _ in cells], seeds),
        "update": np.repeat([update for _, update, _ in cells], seeds),
        "setting": np.repeat([where for _, _, where in cells], seeds),
        "condition": np.repeat(condition, len(cells) * seeds),
        "run": np.repeat(f"{condition},d={size.d}", len(cells) * seeds),
    }
