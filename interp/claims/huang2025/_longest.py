"""What do octaves not see? Lengths end with the test: how much is solved there, and the most that a gap could be.

The area between two accuracy curves ends with the lengths. If the second group solves nearly all of them, no first
group can be far ahead in octaves, however many more of the longest sentences it solves; so these are compared too.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from interp.claims.huang2025._fig1a import FAILS, NEARLY_PERFECT, Lengths, differences
from interp.claims.huang2025._parts import BOTH_SOLVE, mean_of
from interp.claims.huang2025._runs import END
from interp.claims.huang2025._what_matters import Cell, Found
from interp.core.judging import DIFFERENCE, SHARE
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

AT_LONGEST = "share of sentences of the longest length with all steps right, at the end"
WHICH = "solve the training length"


def accuracy(found: Found, level: float, *, cell: Cell) -> Interval | NotMeasurable:
    """The accuracy at the longest length, mean over the seeds that solve the training length.

    Not the median of huang2025/fig1a: that of five seeds has no interval at 95%.
    """
    runs = found.lengths.curves.get((*cell, END))
    if runs is None:
        return NotMeasurable("no rows of these runs")
    return mean_of(runs[runs["solves"]]["longest"], level, SHARE, f"that {WHICH}")


def difference(found: Found, level: float, *, one: Cell, other: Cell) -> Interval | NotMeasurable:
    """How much more of the longest sentences one cell solves, mean over seeds at which both solve the shortest."""
    values = differences(found.lengths, (*one, END), (*other, END), "longest")
    return mean_of(values, level, DIFFERENCE, BOTH_SOLVE)


def most(found: Lengths, *, one: Cell, other: Cell, point: str = END) -> str:
    """What the octaves between two cells would have been, had the first solved every length tested."""
    seeds = differences(found, (*one, point), (*other, point)).index
    if not len(seeds):
        return ""
    left = found.span - found.curves[*other, point].loc[seeds, "octaves"].mean()
    return f"the most that it could be, had {one[1]} solved every length tested: {left:.3f}"


def with_most(part: Part, lengths: Callable[[Any], Lengths], **cells: Any) -> Part:
    """The part of a gap, the most that it could have been added to its note."""
    before = part.note

    def note(found: Any) -> str:
        told = [] if before is None else [before(found)]
        return "; ".join(filter(None, [*told, most(lengths(found), **cells)]))

    return replace(part, note=note)


def at_longest(key: str, condition: str, groups: tuple[str, str]) -> list[Part]:
    """Added after the data: what both groups solve of the longest sentences, and the difference."""
    first, second = ((condition, group) for group in groups)
    ours: dict[str, Any] = {"role": "ours", "unit": "seeds", "added_later": True}
    seeds = f"mean over seeds that {WHICH}"
    return [
        Part(
            key=f"{key}_{groups[0].lower()}_longest",
            name=f"{condition}: {groups[0]} is nearly perfect at the longest length",
            quantity=f"{AT_LONGEST}, {groups[0]}, {seeds}",
            estimate=partial(accuracy, cell=first),
            direction="above",
            threshold=NEARLY_PERFECT,
            why="as in huang2025/fig1a: one sentence in ten may fail",
            **ours,
        ),
        Part(
            key=f"{key}_{groups[1].lower()}_longest",
            name=f"{condition}: {groups[1]} fails at the longest length",
            quantity=f"{AT_LONGEST}, {groups[1]}, {seeds}",
            estimate=partial(accuracy, cell=second),
            direction="below",
            threshold=FAILS,
            why="as in huang2025/fig1a: more sentences fail than not",
            **ours,
        ),
        Part(
            key=f"{key}_longest",
            name=f"{condition}: {groups[0]} solves more of the longest sentences than {groups[1]}",
            quantity=f"{AT_LONGEST}, {groups[0]} minus {groups[1]}, mean over seeds {BOTH_SOLVE}",
            estimate=partial(difference, one=first, other=second),
            direction="above",
            threshold=0.0,
            why="any difference: the part was written with the rows at hand, so no size was set beforehand",
            **ours,
        ),
    ]
