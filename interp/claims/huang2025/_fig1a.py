"""How is huang2025's Figure 1a judged? Both groups at the longest length, and how much farther the curve of C6 goes.

Lengths are compared by the area between the two accuracy curves over log2 of the length (`curve_metrics`), because
the length at which a curve falls below 0.9 is cut off at the shortest and at the longest length tested. Only models
that solve the training length are compared: after as many steps since they left the plateau, and at equal loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from interp.claims.huang2025._parts import BOTH_SOLVE, SOLVING, mean_of, precondition, typical_among
from interp.claims.huang2025._runs import END, LEARNED, LOSSES, LegoRuns, at_loss, curve_metrics, span
from interp.core.judging import share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

CYCLIC, SYMMETRIC = "C6", "S5"
FARTHER = 1.0
"""The fewest octaves that count as far beyond: a factor of two in length."""
ENDED = 0.1
"""The share of the longest sentences up to which an accuracy curve counts as ended, for the median seed."""
APART = 0.25
"""The least difference of accuracies at the longest length that a reader of the figure would call weaker."""
NEARLY_PERFECT, FAILS = 0.9, 0.5
"""Accuracy at the longest length: above the first for the cyclic group, below the second for the symmetric group."""
POINTS = {
    END: "as many steps after the plateau",
    **{at_loss(loss): f"when the loss falls below {loss:g}" for loss in LOSSES if loss < LEARNED},
}
"""Where models are compared."""
BOTH = "at which both groups solve the training length there"

Reading = tuple[str, str, str]
"""A condition, a group and a point of the training."""


@dataclass(frozen=True)
class Lengths:
    """What the parts read of the rows."""

    curves: Mapping[Reading, pd.DataFrame]
    """By seed: what `curve_metrics` tells of the accuracies."""
    span: float
    """Octaves from the shortest to the longest length tested."""
    words: Mapping[str, str]
    """By condition: steps to learn, and median lengths with 0.9 solved at every point."""


def summary(rows: pd.DataFrame) -> Lengths:
    """The tests of every run at every point."""
    found = with_settings(rows)
    accuracy = found[found["metric"] == "accuracy"]
    curves = curve_metrics(accuracy)
    by_cell: dict = {
        key: of_cell.set_index("unit") for key, of_cell in curves.groupby(["condition", "group", "point"])
    }
    times = found[(found["metric"] == "updates") & (found["point"] == at_loss(LEARNED))]
    words = {
        str(condition): _words(curves[curves["condition"] == condition], times[times["condition"] == condition])
        for condition in curves["condition"].unique()
    }
    return Lengths(by_cell, span(accuracy), words)


def _words(curves: pd.DataFrame, times: pd.DataFrame) -> str:
    """Of one condition, by group: the median steps to learn of the runs that do, and the median length reached."""
    told = []
    for group, of_group in curves.groupby("group"):
        learned = times[times["group"] == group]
        if learned.empty:
            told.append(f"{group} not learned")
            continue
        medians = 2 ** of_group[of_group["unit"].isin(learned["unit"])].groupby("point")["reach"].median()
        lengths = ", ".join(f"{length:.0f} at {str(point).replace('_', ' ')}" for point, length in medians.items())
        steps = f"{learned['value'].median():,.0f} steps ({len(learned)} seeds)"
        told.append(f"{group} learned after {steps}, then reaches {lengths}")
    return "; ".join(told)


def parts(preset: LegoRuns) -> list[Part]:
    """For both models what the paper says of C6 and S5 at the end; then the same gap at equal loss."""
    conditions = dict.fromkeys(run.condition for run in preset.runs)
    return [
        part
        for condition in conditions
        for part in (*_preconditions(condition), *_papers(condition), *_ours(condition))
    ]


def _preconditions(condition: str) -> list[Part]:
    return [
        precondition(
            f"{condition}_{group.lower()}_solves",
            f"{condition}: {group} solves its training length",
            f"{SOLVING}, at the end",
            partial(share_solving, condition=condition, group=group),
            partial(_accuracies, condition=condition, group=group),
        )
        for group in (CYCLIC, SYMMETRIC)
    ]


def _papers(condition: str) -> list[Part]:
    accuracy = "share of sentences of the longest length with all steps right, at the end"
    primary = condition == "theory"
    return [
        Part(
            key=f"{condition}_c6_far",
            name=f"{condition}: {CYCLIC} is nearly perfect at the longest length",
            role="paper",
            source="Figure 1a; section 7: near-perfect accuracy at much longer lengths, up to L = 160",
            primary=primary,
            quantity=f"{accuracy}, {CYCLIC}, seeds that solve the training length",
            estimate=partial(accuracy_at_longest, condition=condition, group=CYCLIC),
            direction="above",
            threshold=NEARLY_PERFECT,
            why="near-perfect in the paper's words, which gives no number; one sentence in ten may fail",
            unit="seeds",
            needs=(f"{condition}_c6_solves",),
        ),
        Part(
            key=f"{condition}_apart",
            name=f"{condition}: {SYMMETRIC} is clearly weaker there",
            role="paper",
            source="Figure 1a; section 7: by contrast, on the harder symmetry task the generalization is weaker",
            primary=primary,
            quantity=f"{accuracy}: {CYCLIC} minus {SYMMETRIC}, by seed, seeds {BOTH}",
            estimate=partial(difference_at_longest, condition=condition, point=END),
            direction="above",
            threshold=APART,
            why="the paper gives no number; a quarter of the sentences is what a reader of the figure would see",
            unit="seeds",
            needs=(f"{condition}_c6_solves", f"{condition}_s5_solves"),
            note=partial(accuracies_at_longest, condition=condition, point=END),
        ),
        replace(
            _farther(condition, "farther", "", POINTS[END]),
            role="paper",
            source="Figure 1a; section 7: by contrast weaker on the symmetry task, only constant-factor extensions",
            needs=(f"{condition}_c6_solves", f"{condition}_s5_solves"),
        ),
        Part(
            key=f"{condition}_s5_short",
            name=f"{condition}: {SYMMETRIC} fails at the longest length",
            role="paper",
            source="Figure 1: generalising poorly for symmetry group tasks",
            quantity=f"{accuracy}, {SYMMETRIC}, seeds that solve the training length",
            estimate=partial(accuracy_at_longest, condition=condition, group=SYMMETRIC),
            direction="below",
            threshold=FAILS,
            why="poorly in the paper's words, which gives no number: more sentences fail than not",
            unit="seeds",
            needs=(f"{condition}_s5_solves",),
        ),
    ]


def _ours(condition: str) -> list[Part]:
    """The same gap at equal loss, and at the end over all seeds: whether a seed is solved is an outcome as well."""
    at_loss = [
        _farther(condition, point.replace(".", "_"), f" {words}", f"{words}, seeds {BOTH}", point=point)
        for point, words in POINTS.items()
        if point != END
    ]
    of_all = f"{POINTS[END]}, all seeds, solved or not"
    return [*at_loss, _farther(condition, "all_seeds", ", all seeds", of_all, solving=False)]


def _farther(condition: str, key: str, words: str, where: str, *, point: str = END, solving: bool = True) -> Part:
    """How much farther C6 goes; `words` end the part's name, `where` its quantity."""
    return Part(
        key=f"{condition}_{key}",
        name=f"{condition}: {CYCLIC} goes far beyond {SYMMETRIC}{words}",
        role="ours",
        quantity=f"octaves between the accuracy curves of {CYCLIC} and {SYMMETRIC}, {where}",
        estimate=partial(gap, condition=condition, point=point, solving=solving),
        direction="above",
        threshold=FARTHER,
        why="a factor of two in length, the step of the lengths tested",
        unit="seeds",
        note=partial(_lengths, condition=condition),
    )


def share_solving(found: Lengths, level: float, *, condition: str, group: str) -> Interval | NotMeasurable:
    """The share of seeds that solve the training length at the end."""
    runs = found.curves.get((condition, group, END))
    return NotMeasurable("no rows of these runs") if runs is None else share_of(runs["solves"], level)


def accuracy_at_longest(found: Lengths, level: float, *, condition: str, group: str) -> Interval | NotMeasurable:
    """The accuracy at the longest length of the median of the seeds that solve the training length."""
    runs = found.curves[condition, group, END]
    return typical_among(runs[runs["solves"]]["longest"], level, "solve the training length")


def gap(
    found: Lengths, level: float, *, condition: str, point: str, solving: bool = True
) -> Interval | NotMeasurable:
    """The mean number of octaves by which C6 goes farther; `solving`: where both solve the training length."""
    cells = (condition, CYCLIC, point), (condition, SYMMETRIC, point)
    return ahead(found, level, *cells, BOTH if solving else "that both groups have", solving=solving)


def ahead(
    found: Lengths, level: float, one: Reading, other: Reading, which: str = BOTH_SOLVE, *, solving: bool = True
) -> Interval | NotMeasurable:
    """The mean number of octaves by which one goes farther than the other, by seed.

    A lower bound, so that its interval is open above, if the first still solves some of the longest sentences.
    """
    values = differences(found, one, other, solving=solving)
    goes_on = len(values) > 0 and found.curves[one].loc[values.index, "longest"].median() > ENDED
    return mean_of(values, level, (-found.span, found.span), which, open_above=bool(goes_on))


def differences(
    found: Lengths, one: Reading, other: Reading, of: str = "octaves", *, solving: bool = True
) -> pd.Series:
    """One cell minus the other, by seed, in a column of `curve_metrics`; `solving`: where both solve length 5."""
    if one not in found.curves or other not in found.curves:
        return pd.Series(dtype=float)
    cells = (found.curves[cell] for cell in (one, other))
    first, second = (cell.loc[cell["solves"] | (not solving), of] for cell in cells)
    return (first - second).dropna()


def differences_at_longest(found: Lengths, condition: str, point: str) -> pd.Series:
    """C6 minus S5 by seed: accuracies at the longest length, where both solve the training length at that point."""
    return differences(found, (condition, CYCLIC, point), (condition, SYMMETRIC, point), "longest")


def difference_at_longest(found: Lengths, level: float, *, condition: str, point: str) -> Interval | NotMeasurable:
    """The mean over seeds of `differences_at_longest`."""
    return mean_of(differences_at_longest(found, condition, point), level, (-1.0, 1.0), BOTH)


def accuracies_at_longest(found: Lengths, *, condition: str, point: str) -> str:
    """Those of every seed, in words, by group; of seeds that do not solve the training length in brackets."""
    told = []
    for group in (CYCLIC, SYMMETRIC):
        if (condition, group, point) in found.curves:
            curves = found.curves[condition, group, point]
            values = [f"{one.longest:.2f}" if one.solves else f"({one.longest:.2f})" for one in curves.itertuples()]
            told.append(f"{group} {', '.join(values)}")
    return f"{'; '.join(told)} (in brackets: the training length is not solved)"


def _accuracies(found: Lengths, *, condition: str, group: str) -> str:
    values = found.curves[condition, group, END]["training"]
    return f"accuracy at the training length: {', '.join(f'{value:.3f}' for value in values)}"


def _lengths(found: Lengths, *, condition: str) -> str:
    return found.words.get(condition, "")
