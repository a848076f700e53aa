"""How is it judged what decides how far a chain goes? Steps to learn and lengths reached, one by one."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd

from interp.claims.huang2025._attention import target_rows
from interp.claims.huang2025._fig1a import FARTHER, POINTS, Lengths, ahead, differences, share_solving
from interp.claims.huang2025._fig1a import summary as lengths_of
from interp.claims.huang2025._parts import BOTH_SOLVE, SOLVING, mean_of, precondition
from interp.claims.huang2025._runs import END, LEARNED, LegoRun, at_loss, curve_metrics, run_rows
from interp.core.claim import Item
from interp.core.judging import UNBOUNDED, mean_over
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import concat, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MATTERS = 0.5
"""The fewest octaves that count: a factor of 1.4 in length."""
TWICE = 1.0
"""log2 of the smallest ratio that counts, of steps to learn and of attention off the targets: a factor of two."""
NOTHING = 1e-6
"""Attention off the targets is taken to be at least this, before its logarithm."""
CHANGES = {
    "theory, length 1 first": "length1",
    "theory, attention x10": "attention",
    "standard, 5000 sentences": "finite",
}
"""What is changed in the training of C6 and S5, and the beginning of the keys of its parts."""
Cell = tuple[str, str]
"""A condition and a group."""


class WithRuns(Protocol):
    """A preset with runs of every cell."""

    @property
    def runs(self) -> tuple[LegoRun, ...]: ...


@dataclass(frozen=True)
class Found:
    """What the parts read of the rows."""

    lengths: Lengths
    times: Mapping[Cell, pd.Series]
    """By seed: log2 of the steps until the loss falls below `LEARNED`; of those that the run had, if it never did."""
    late: Mapping[Cell, pd.Series]
    """By seed: whether it never did."""
    off: Mapping[Cell, pd.Series]
    """By seed: log2 of the attention off both targets at the training length, at the end."""


@cache
def properties(group: str) -> dict[str, int | bool]:
    """Facts |G||Y| and points |Y|, and whether the action is simply transitive."""
    from toy_models.lego.groups import group_action

    action = group_action(group)
    return {
        "facts": action.n_elements * action.n_points,
        "points": action.n_points,
        "simple": action.is_simply_transitive,
    }


def summary(rows: pd.DataFrame) -> Found:
    """Lengths, steps to learn and attention of every cell, by seed."""
    found = with_settings(rows)
    keys = ["condition", "group"]
    steps = found[found["metric"] == "updates"].pivot(index=[*keys, "unit"], columns="point", values="value")
    learned = steps.get(at_loss(LEARNED), pd.Series(np.nan, index=steps.index))
    ends = steps.get(END, learned)
    times, late = np.log2(learned.fillna(ends)), learned.isna()
    targets = found[found["metric"].isin(["predicate", "answer"])]
    mass = targets.groupby([*keys, "unit", "metric"])["value"].mean().groupby([*keys, "unit"]).sum()
    off = np.log2((1 - mass).clip(lower=NOTHING))
    return Found(lengths_of(rows), *(_by_cell(values) for values in (times, late, off)))


def _by_cell(values: pd.Series) -> dict[Cell, pd.Series]:
    found: dict = {cell: of_cell.droplevel([0, 1]) for cell, of_cell in values.groupby(level=[0, 1])}
    return found


def parts(preset: WithRuns) -> list[Part]:
    """What the paper says of structure and concentration; time to learn; the block; the training and its changes."""
    changes = [part for condition, key in CHANGES.items() for part in changed(condition, key)]
    cells = dict.fromkeys((run.condition, run.group) for run in preset.runs if not run.change)
    return [*(learned(*cell, key=cell[0]) for cell in cells), *_papers(), *_times(), *_lengths(), *changes]


def _papers() -> list[Part]:
    return [
        Part(
            key="same_points",
            name="at as many points, simply transitive C5 goes farther than S5",
            role="paper",
            source="Theorem 1.2: the algebraic structure dictates how far the reasoning length generalises",
            primary=True,
            quantity=f"octaves between the accuracy curves of C5 and S5, theory-like, {POINTS[END]}",
            estimate=partial(farther, one=("theory", "C5"), other=("theory", "S5")),
            direction="above",
            threshold=MATTERS,
            why="the paper has a power of d against a constant factor; a factor of 1.4 is the least that this can be",
            unit="seeds",
            needs=("theory_c5_solves", "theory_s5_solves"),
            note=_theory,
        ),
        Part(
            key="sharper",
            name="simply transitive C6 concentrates attention more sharply than S5",
            role="paper",
            source="section 1.1: simply transitive actions enable sharp concentration, symmetry actions dilute it",
            primary=True,
            quantity="log2 of the ratio of attention off the targets at length 5, S5 to C6, theory-like, at the end",
            estimate=partial(concentration, one=("theory", "C6"), other=("theory", "S5")),
            direction="above",
            threshold=TWICE,
            why="sharp against diluted in the paper's words: a factor of two at least",
            unit="seeds",
            needs=("theory_c6_solves", "theory_s5_solves"),
            note=_off,
        ),
    ]  # fmt: skip


def _times() -> list[Part]:
    """How much later S5 learns: in both blocks, and than a group of as many points."""
    return [
        Part(
            key=key,
            name=f"{condition}: S5 takes longer to learn length 5 than {group}",
            role="ours",
            quantity=f"log2 of the ratio of steps until the loss falls below {LEARNED:g}, S5 to {group}",
            estimate=partial(later, one=(condition, group), other=(condition, "S5")),
            direction="above",
            threshold=TWICE,
            why="twice the steps: what a second seed does not change",
            unit="seeds",
            note=partial(_time, cells=((condition, group), (condition, "S5"))),
        )
        for key, condition, group in (
            ("time_theory", "theory", "C6"), ("time_standard", "standard", "C6"), ("time_points", "theory", "C5"),
        )
    ]  # fmt: skip


def _lengths() -> list[Part]:
    """Whether the block, or further training, moves the length of a group."""
    block = [
        Part(
            key=f"block_{group.lower()}",
            name=f"{group} goes farther in the theory-like block than in the standard one",
            role="ours",
            quantity=f"octaves between the accuracy curves, theory-like minus standard, {POINTS[END]}",
            estimate=partial(farther, one=("theory", group), other=("standard", group)),
            direction="above",
            threshold=MATTERS,
            why="a factor of 1.4 in length, as for the structure of the group",
            unit="seeds",
            note=partial(_words, conditions=("theory", "standard")),
        )
        for group in ("C6", "S5")
    ]
    training = [
        Part(
            key=f"training_{group.lower()}",
            name=f"{group} goes farther with training after its loss is small",
            role="ours",
            quantity="octaves between the accuracy curves at the end and when the loss falls below 0.01, theory-like",
            estimate=partial(further, cell=("theory", group)),
            direction="above",
            threshold=MATTERS,
            why="a factor of 1.4 in length, as for the structure of the group",
            unit="seeds",
            note=_theory,
        )
        for group in ("C6", "S5")
    ]
    return [*block, *training]


def changed(condition: str, key: str, groups: tuple[str, str] = ("C6", "S5")) -> list[Part]:
    """Whether the second group is later than the first, and the first goes far beyond it, under this condition."""
    first, second = ((condition, group) for group in groups)
    return [
        Part(
            key=f"{key}_time",
            name=f"{condition}: {groups[1]} takes longer to learn length 5 than {groups[0]}",
            role="ours",
            quantity=f"log2 of the ratio of steps until the loss falls below {LEARNED:g}, {groups[1]} to {groups[0]}",
            estimate=partial(later, one=first, other=second),
            direction="above",
            threshold=TWICE,
            why="twice the steps, as without the change",
            unit="seeds",
            note=partial(_time, cells=(first, second)),
        ),
        Part(
            key=f"{key}_farther",
            name=f"{condition}: {groups[0]} goes far beyond {groups[1]}",
            role="ours",
            quantity=f"octaves between the accuracy curves of {groups[0]} and {groups[1]}, {POINTS[END]}",
            estimate=partial(farther, one=first, other=second),
            direction="above",
            threshold=FARTHER,
            why="a factor of two in length, as in huang2025/fig1a",
            unit="seeds",
            note=partial(_words, conditions=(condition,)),
        ),
    ]


def learned(condition: str, group: str, key: str) -> Part:
    """The precondition that the group is learned under this condition."""
    return precondition(
        f"{key}_{group.lower()}_solves",
        f"{condition}: {group} solves its training length",
        f"{SOLVING}, at the end",
        partial(cell_solves, condition=condition, group=group),
        partial(_time, cells=((condition, group),)),
    )


def cell_solves(found: Found, level: float, *, condition: str, group: str) -> Interval | NotMeasurable:
    """The share of seeds that solve the training length at the end."""
    return share_solving(found.lengths, level, condition=condition, group=group)


def farther(found: Found, level: float, *, one: Cell, other: Cell, point: str = END) -> Interval | NotMeasurable:
    """The octaves by which one cell goes farther than the other, where both solve the training length."""
    return ahead(found.lengths, level, (*one, point), (*other, point))


def further(found: Found, level: float, *, cell: Cell) -> Interval | NotMeasurable:
    """The octaves that a cell gains from a loss of 0.01 to the end, where it solves the training length at both."""
    span = found.lengths.span
    values = differences(found.lengths, (*cell, END), (*cell, at_loss(0.01)))
    return mean_of(values, level, (-span, span), "that solve the training length at both")


def later(found: Found, level: float, *, one: Cell, other: Cell) -> Interval | NotMeasurable:
    """log2 of the ratio of steps to learn, other to one; open above if some of the other never learned in its steps.

    Seeds at which the first never learned are left out: nothing bounds their ratio from below.
    """
    if one not in found.times or other not in found.times:
        return NotMeasurable("no rows of these runs")
    ratios = (found.times[other] - found.times[one])[~found.late[one]].dropna()
    if len(ratios) < 2:
        return NotMeasurable(f"{len(ratios)} seeds at which {one[1]} learns; a mean with an interval needs two")
    return mean_over(ratios, level, UNBOUNDED, open_above=bool(found.late[other].reindex(ratios.index).any()))


def concentration(found: Found, level: float, *, one: Cell, other: Cell) -> Interval | NotMeasurable:
    """log2 of the ratio of attention off the targets, other to one, where both solve the training length."""
    if one not in found.off or other not in found.off:
        return NotMeasurable("no rows of these runs")
    solving = differences(found.lengths, (*one, END), (*other, END)).index
    values = (found.off[other] - found.off[one]).reindex(solving).dropna()
    return mean_of(values, level, UNBOUNDED, BOTH_SOLVE)


def _time(found: Found, *, cells: tuple[Cell, ...]) -> str:
    told = []
    for cell in cells:
        times, late = 2 ** found.times[cell], found.late[cell]
        steps = ", ".join(f"{'over ' if late[unit] else ''}{step:,.0f}" for unit, step in times.items())
        told.append(f"{cell[1]} learns after {steps} steps")
    return "; ".join(told)


def _words(found: Found, *, conditions: tuple[str, ...]) -> str:
    return "; ".join(f"{name}: {found.lengths.words[name]}" for name in conditions if name in found.lengths.words)


def _theory(found: Found) -> str:
    return _words(found, conditions=("theory",))


def _off(found: Found) -> str:
    off = {
        group: 2 ** found.off["theory", group].mean()
        for group in ("C5", "C6", "S5")
        if ("theory", group) in found.off
    }
    return "attention off the targets: " + ", ".join(f"{group} {value:.4f}" for group, value in off.items())


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Steps, accuracies and loss of one run at all its points, and its attention at the end."""
    from interp.claims.huang2025._training import taught

    run = LegoRun(**item.parameters)
    found = taught(run)
    return concat([run_rows(run, found), target_rows(run, found.model(), run.length, point=END)])


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Steps to learn, length reached and attention off the targets, cell by cell."""
    from interp.claims.huang2025._figures import draw_cells

    found = with_settings(rows)
    accuracy = found[(found["metric"] == "accuracy") & (found["point"] == END)]
    steps = found[found["metric"] == "updates"]
    return {"cells": draw_cells(curve_metrics(accuracy), steps, found[found["metric"].isin(["predicate", "answer"])])}
