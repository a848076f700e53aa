"""What do the rows of kim2024/thm5 say? Success by size, samples and step size, and the declared parts."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._parts import (
    HIGH_PROBABILITY,
    MOST,
    WHY_HIGH_PROBABILITY,
    WHY_MOST,
    counted,
    greatest_share,
    grid_exponent,
    least_share,
)
from interp.claims.kim2024._runs import ACCURATE, SUP_ERROR
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

if TYPE_CHECKING:
    from interp.claims.kim2024.thm5 import Thm5

EXPONENT = 2.0
"""n = Omega(d^(2 + eps)) samples suffice for every eps > 0: success starts at no more than about d^2."""


def outcomes(rows: pd.DataFrame) -> pd.DataFrame:
    """By size, n, step size and seed: the metrics as columns, and whether the step succeeded."""
    tested = with_settings(rows[rows["scope"] == "test"])
    index = ["d", "k", "n", "eta", "judged", "enough", "chosen", "unit"]
    found = tested.pivot(index=index, columns="metric", values="value").reset_index()
    return found.assign(success=(found["accuracy"] >= ACCURATE) & (found["sup_error"] < SUP_ERROR))


@dataclass(frozen=True)
class Summary:
    """What the parts read."""

    solved: pd.DataFrame
    """`outcomes` of the judged sizes, at the chosen step and enough samples."""
    few: pd.DataFrame
    """The same at n = d^2."""
    large_step: pd.DataFrame
    """The same at enough samples and the largest step."""
    started: pd.DataFrame
    """`first_success` of every size."""
    ratio: float
    """Of neighbouring numbers of samples."""


def summary(rows: pd.DataFrame) -> Summary:
    """Success by run, and the n at first success."""
    found = outcomes(rows)
    of = found[found["judged"] == 1]
    chosen, enough = of["chosen"] == 1, of["enough"] == 1
    grid = np.sort(found["n"].unique())
    return Summary(
        solved=of[chosen & enough],
        few=of[chosen & (of["n"] == of["d"] ** 2)],
        large_step=of[(of["eta"] == of["eta"].max()) & enough],
        started=first_success(found),
        ratio=float(np.median(grid[1:] / grid[:-1])),
    )


def parts(preset: "Thm5") -> list[Part]:
    """Enough samples succeed, and how many it takes grows no faster than d^2; d^2 samples and large steps fail."""
    solved = Part(
        key="solved",
        name="one step solves it with high probability at every size",
        role="paper",
        source="Theorem 5: with probability 1 - exp(-d^(eps/2)) over random sampling",
        primary=True,
        quantity=f"share of seeds solved by one step of {preset.step:g} d^2 on n={preset.enough}, least over sizes",
        estimate=partial(least_solved, cell="solved"),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why=WHY_HIGH_PROBABILITY,
        unit="seeds",
        note=partial(_note, cell="solved"),
    )
    growth = Part(
        key="growth",
        name="samples needed grow at most as d^2",
        role="paper",
        source="Theorem 5: n = Omega(d^(2+eps)) samples suffice",
        quantity="exponent p of n ~ d^p at first success, over the sizes measured",
        estimate=samples_exponent,
        direction="below",
        threshold=EXPONENT,
        why="d^(2+eps) samples suffice for every eps > 0, so the samples needed grow no faster than d^2",
        unit="runs",
        note=_started,
    )
    fails = [
        Part(
            key=cell,
            name=name,
            role="ours",
            quantity=f"share of seeds solved by one step of {step:g} d^2 on n={samples}, greatest over sizes",
            estimate=partial(greatest_solved, cell=cell),
            direction="below",
            threshold=MOST,
            why=WHY_MOST,
            unit="seeds",
            note=partial(_note, cell=cell),
        )
        for cell, name, step, samples in (
            ("few", "n = d^2 is too few at these sizes", preset.step, "d^2"),
            ("large_step", "a step of order d^2 can be too large", max(preset.steps), str(preset.enough)),
        )
    ]
    return [solved, growth, *fails]


def least_solved(summary: Summary, level: float, *, cell: str) -> Interval | NotMeasurable:
    """The share of seeds solved, at the size where it is smallest."""
    runs = getattr(summary, cell)
    return least_share(runs["success"], runs["d"], level)


def greatest_solved(summary: Summary, level: float, *, cell: str) -> Interval | NotMeasurable:
    """The share of seeds solved, at the size where it is largest."""
    runs = getattr(summary, cell)
    return greatest_share(runs["success"], runs["d"], level)


def samples_exponent(summary: Summary, level: float) -> Interval | NotMeasurable:
    """The exponent of the n at first success; runs that never succeed are censored at the largest n."""
    return grid_exponent(summary.started, "n", summary.ratio, level)


def _note(summary: Summary, cell: str) -> str:
    runs = getattr(summary, cell)
    solved, error = counted(runs["success"], runs["d"]), runs["sup_error"].median()
    note = f"{solved}; largest error of the root {error:.3f} (median)"
    if cell == "few":
        return note
    return (
        f"{note}; attention on the two children at least {runs['child_mass'].min():.4f}, differing by up to "
        f"{runs['imbalance'].max():.2f}"
    )


def _started(summary: Summary) -> str:
    started = summary.started
    medians = ", ".join(f"{n:.0f} at d={d}" for d, n in started.groupby("d")["n"].median().items())
    return (
        f"median n at first success: {medians}; {started['censored'].sum()} of {len(started)} runs never succeeded "
        "(censored)"
    )


def first_success(found: pd.DataFrame) -> pd.DataFrame:
    """By size and seed: the smallest n at which some step size succeeds.

    `censored` where none does at any n, `capped` where the smallest n of the grid is enough.
    """
    runs = found.assign(largest=found["n"], n=found["n"].where(found["success"], np.inf))
    by_seed = runs.groupby(["d", "k", "unit"])
    started = by_seed["n"].min().to_frame().assign(largest=by_seed["largest"].max()).reset_index()
    censored = np.isinf(started["n"])
    n = started["n"].where(~censored, started["largest"])
    return started.assign(censored=censored, n=n, capped=n == found["n"].min())


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """Success everywhere, attention where a note quotes it, and the weights that are drawn."""
    quoted = rows["setting"].str.contains("enough=1", regex=False)
    return rows[rows["metric"].isin(["accuracy", "sup_error", "weight", "dependency"]) | quoted]
