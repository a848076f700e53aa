"""What happens to attention along the training of li2024's model? Masses by kind of column, their order and ends."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from interp.core.judging import DIFFERENCE, mean_over, share_of
from interp.core.parts import NotMeasurable
from interp.statistics import Interval

VANISHED = 0.05
"""The attention below which a kind of columns no longer counts."""
LATER = 2.0
"""How many times later, at least, the second stage should end."""


def masses(rows: pd.DataFrame) -> pd.DataFrame:
    """By seed and update: the mass of each kind, and two more.

    `other_step`: that of both kinds of another step; `within_step`: the share of the query's pattern in the mass
    of the query's step.
    """
    wide = rows.pivot(index=["unit", "update"], columns="metric", values="value").reset_index()
    other = wide["same_pattern_other_step"] + wide["other_pattern_other_step"]
    same = wide["same_pattern_same_step"]
    within = same / (same + wide["other_pattern_same_step"])
    return wide.assign(other_step=other, within_step=within).sort_values(["unit", "update"], ignore_index=True)


def crossings(found: pd.DataFrame) -> pd.DataFrame:
    """By seed: the updates after which other steps, and other patterns of the same step, stay below VANISHED.

    Infinite if that never happens.
    """
    results = {}
    for seed, curve in found.groupby("unit"):
        for mass in ("other_step", "other_pattern_same_step"):
            above = np.flatnonzero(curve[mass].to_numpy() >= VANISHED)
            after = int(above[-1]) + 1 if len(above) else 0
            gone = after < len(curve)
            results.setdefault(seed, {})[mass] = float(curve["update"].iloc[after]) if gone else np.inf
    return pd.DataFrame.from_dict(results, orient="index").rename_axis("unit").reset_index()


@dataclass(frozen=True)
class Stages:
    """One row for each seed."""

    first: pd.DataFrame
    """Masses at the first update."""
    turn: pd.DataFrame
    """Masses when the other steps have vanished; seeds in which they do not are missing."""
    last: pd.DataFrame
    """Masses at the last update."""
    crossed: pd.DataFrame
    """See `crossings`."""


def summary(rows: pd.DataFrame) -> Stages:
    """The masses at the start, at the end of the first stage, and at the end."""
    found = masses(rows)
    crossed = crossings(found)
    by_seed = found.groupby("unit")
    at = found.merge(crossed[["unit", "other_step"]].rename(columns={"other_step": "crossing"}), on="unit")
    turn = at[at["update"] == at["crossing"]].reset_index(drop=True)
    return Stages(by_seed.first().reset_index(), turn, by_seed.last().reset_index(), crossed)


def share_ending(found: Stages, level: float) -> Interval | NotMeasurable:
    """The share of seeds whose attention ends on the query's pattern and step."""
    return share_of(found.last["same_pattern_same_step"] > 1 - VANISHED, level)


def share_in_order(found: Stages, level: float) -> Interval | NotMeasurable:
    """The share of seeds in which other steps vanish, and other patterns much later or never."""
    steps, patterns = found.crossed["other_step"], found.crossed["other_pattern_same_step"]
    return share_of(np.isfinite(steps) & (patterns >= LATER * steps), level)


def later_rise(found: Stages, level: float) -> Interval | NotMeasurable:
    """How much the attention on the query's pattern and step rises after other steps have vanished, by seed."""
    if problem := _no_second_stage(found):
        return problem
    turn, end = (table["same_pattern_same_step"].to_numpy(float) for table in (found.turn, found.last))
    return mean_over(end - turn, level, DIFFERENCE)


def later_share(found: Stages, level: float, *, mass: str) -> Interval | NotMeasurable:
    """(end - turn) / (end - start) of a mass, the mean over seeds."""
    if problem := _no_second_stage(found):
        return problem
    start, turn, end = (table[mass].to_numpy(float) for table in (found.first, found.turn, found.last))
    if (end <= start).any():
        return NotMeasurable(f"no rise in {int((end <= start).sum())} seeds")
    return mean_over((end - turn) / (end - start), level)


def _no_second_stage(found: Stages) -> NotMeasurable | None:
    missing = len(found.last) - len(found.turn)
    return NotMeasurable(f"other steps never vanish in {missing} seeds: no second stage") if missing else None


def end_note(found: Stages) -> str:
    means = found.last.mean(numeric_only=True)
    return (
        f"mean {means['same_pattern_same_step']:.3f}; on the same step and other patterns "
        f"{means['other_pattern_same_step']:.4f}, on other steps {means['other_step']:.4f}; training loss "
        f"{means['loss']:.4f}"
    )


def times_note(found: Stages) -> str:
    steps, patterns = found.crossed["other_step"].median(), found.crossed["other_pattern_same_step"].median()
    return f"below {VANISHED:g} after {steps:.0f} and {patterns:.0f} updates (medians)"


def heights_note(found: Stages, mass: str) -> str:
    start, turn, end = (table[mass].mean() for table in (found.first, found.turn, found.last))
    return f"from {start:.3f} to {turn:.3f} in the first stage, to {end:.3f} at the end"
