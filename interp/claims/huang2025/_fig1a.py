"""How is huang2025's Figure 1a judged? C6 at the longest length, and how much farther its curve goes than that of S5.

Lengths are compared by the area between the two accuracy curves over log2 of the length (`curve_metrics`), because
the length at which a curve falls below 0.9 is cut off at the shortest and at the longest length tested.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from interp.claims.huang2025._parts import SOLVING, mean_of, precondition, typical_among
from interp.claims.huang2025._runs import KEYS, LegoRuns, curve_metrics, span
from interp.core.judging import share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

CYCLIC, SYMMETRIC = "C6", "S5"
FARTHER = 1.0
"""The fewest octaves that count as far beyond: a factor of two in length."""
NEARLY_PERFECT, FAILS = 0.9, 0.5
"""Accuracy at the longest length: above the first for the cyclic group, below the second for the symmetric group."""
GRID = 20
"""Losses at which the two groups are compared, evenly spaced in log loss over the range that both have covered."""
BOTH = "at which both groups solve the training length"
WAYS = {
    "end": "after the last step",
    "way": "mean over the evaluations",
    "loss": "mean over losses that both pass through",
}


@dataclass(frozen=True)
class Lengths:
    """What the parts read of the rows."""

    runs: Mapping[tuple[str, str], pd.DataFrame]
    """Of a condition and group, by seed: accuracy at the training length and at the longest, whether it solves."""
    gaps: Mapping[str, pd.DataFrame]
    """Of a condition, as `compared` says."""
    span: float
    """Octaves from the shortest to the longest length tested."""
    reached: Mapping[str, str]
    """By condition, in words: the median length with 0.9 solved, at each evaluation."""


def summary(rows: pd.DataFrame) -> Lengths:
    """The tests after the last step, the gaps between the groups, and the lengths reached along the training."""
    accuracy, curves = _curves(rows)
    last = curves.drop_duplicates(["condition", "group", "unit"], keep="last")
    medians = 2 ** curves.groupby(["condition", "group", "update"])["reach"].median()
    words = {
        str(condition): "; ".join(
            f"{group} reaches " + ", ".join(f"{length:.0f}" for length in of_group)
            for group, of_group in of_condition.groupby("group")
        )
        for condition, of_condition in medians.groupby("condition")
    }
    runs: dict = dict(list(last.groupby(["condition", "group"])))
    gaps: dict = dict(list(_gaps(curves).groupby("condition")))
    return Lengths(runs, gaps, span(accuracy), words)


def _curves(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Accuracy with its settings; and the tests of every evaluation with its loss, ordered by the keys."""
    found = with_settings(rows)
    accuracy, losses = found[found["metric"] == "accuracy"], found[found["metric"] == "loss"]
    loss = losses.set_index(list(KEYS))["value"].rename("loss")
    return accuracy, curve_metrics(accuracy).join(loss, on=list(KEYS)).sort_values(list(KEYS))


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """By condition and seed: the octaves by which C6 goes farther, at the end, on the way, and at equal losses.

    `end`: after the last step. `way`: mean over all evaluations. `loss`: mean over losses that both groups have
    covered, with octaves interpolated in log loss; missing if there is none. `both`: whether both solve the training
    length after the last step.
    """
    return _gaps(_curves(rows)[1])


def _gaps(curves: pd.DataFrame) -> pd.DataFrame:
    places = curves.groupby(["condition", "unit", "group"]).indices
    octaves, loss = curves["octaves"].to_numpy(float), np.log(curves["loss"].to_numpy(float))
    solves = curves["solves"].to_numpy(bool)
    found = []
    for condition, unit, group in places:
        if group != CYCLIC or (condition, unit, SYMMETRIC) not in places:
            continue
        one, other = places[condition, unit, CYCLIC], places[condition, unit, SYMMETRIC]
        gaps = octaves[one] - octaves[other]
        found.append(
            {
                "condition": condition,
                "unit": unit,
                "end": gaps[-1],
                "way": gaps.mean(),
                "loss": _at_equal_loss(loss[one], octaves[one], loss[other], octaves[other]),
                "both": solves[one[-1]] and solves[other[-1]],
            }
        )
    return pd.DataFrame(found)


def _at_equal_loss(loss: np.ndarray, one: np.ndarray, other_loss: np.ndarray, other: np.ndarray) -> float:
    low, high = max(loss.min(), other_loss.min()), min(loss.max(), other_loss.max())
    if not low < high:
        return np.nan
    grid = np.linspace(low, high, GRID)
    first, second = (
        np.interp(grid, losses[order], octaves[order])
        for losses, octaves, order in ((loss, one, np.argsort(loss)), (other_loss, other, np.argsort(other_loss)))
    )
    return float((first - second).mean())


def key_of(condition: str) -> str:
    """The condition as the beginning of part keys: theory_half_the_learning_rate."""
    return re.sub(r"[^a-z0-9]+", "_", condition.lower())


def parts(preset: LegoRuns) -> list[Part]:
    """For both models what the paper says of C6 and S5; for these and the changed ones, the gap in other ways."""
    found: list[Part] = []
    for run in preset.runs:
        said = [] if run.change else [*_preconditions(run.condition), *_papers(run.condition)]
        found += [*said, *_ours(run.condition)]
    return found


def _preconditions(condition: str) -> list[Part]:
    return [
        precondition(
            f"{key_of(condition)}_{group.lower()}_solves",
            f"{condition}: {group} solves its training length",
            f"{SOLVING}, after the last step",
            partial(share_solving, condition=condition, group=group),
            partial(_accuracies, condition=condition, group=group),
        )
        for group in (CYCLIC, SYMMETRIC)
    ]


def _papers(condition: str) -> list[Part]:
    key, accuracy = key_of(condition), "share of sentences of the longest length with all steps right"
    primary = condition == "theory"
    return [
        Part(
            key=f"{key}_c6_far",
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
            needs=(f"{key}_c6_solves",),
        ),
        Part(
            key=f"{key}_farther",
            name=f"{condition}: {CYCLIC} goes far beyond {SYMMETRIC}",
            role="paper",
            source="Figure 1a; section 7: by contrast weaker on the symmetry task, only constant-factor extensions",
            primary=primary,
            quantity=f"octaves between the accuracy curves of {CYCLIC} and {SYMMETRIC}, {WAYS['end']}",
            estimate=partial(gap, condition=condition, way="end"),
            direction="above",
            threshold=FARTHER,
            why="a factor of two in length, the step of the lengths tested: less would not be seen in the figure",
            unit="seeds",
            needs=(f"{key}_c6_solves", f"{key}_s5_solves"),
            note=partial(_reached, condition=condition),
        ),
        Part(
            key=f"{key}_s5_short",
            name=f"{condition}: {SYMMETRIC} fails at the longest length",
            role="paper",
            source="Figure 1: generalising poorly for symmetry group tasks",
            quantity=f"{accuracy}, {SYMMETRIC}, seeds that solve the training length",
            estimate=partial(accuracy_at_longest, condition=condition, group=SYMMETRIC),
            direction="below",
            threshold=FAILS,
            why="poorly in the paper's words, which gives no number: more sentences fail than not",
            unit="seeds",
            needs=(f"{key}_s5_solves",),
        ),
    ]


def _ours(condition: str) -> list[Part]:
    """The gap along the training and at equal loss; changed conditions are judged on the seeds that solve."""
    key = key_of(condition)
    needs = () if "," in condition else (f"{key}_c6_solves", f"{key}_s5_solves")
    return [
        Part(
            key=f"{key}_{way}",
            name=f"{condition}: {CYCLIC} goes far beyond {SYMMETRIC} {words}",
            role="ours",
            quantity=f"octaves between the accuracy curves of {CYCLIC} and {SYMMETRIC}, {WAYS[way]}, seeds {BOTH}",
            estimate=partial(gap, condition=condition, way=way),
            direction="above",
            threshold=FARTHER,
            why="a factor of two in length, as after the last step",
            unit="seeds",
            needs=needs,
            note=partial(_reached, condition=condition),
        )
        for way, words in (("way", "at equal steps, on the way"), ("loss", "at equal loss"))
    ]


def share_solving(found: Lengths, level: float, *, condition: str, group: str) -> Interval | NotMeasurable:
    """The share of seeds that solve the training length."""
    runs = found.runs.get((condition, group))
    return NotMeasurable("no rows of these runs") if runs is None else share_of(runs["solves"], level)


def accuracy_at_longest(found: Lengths, level: float, *, condition: str, group: str) -> Interval | NotMeasurable:
    """The accuracy at the longest length of the median of the seeds that solve the training length."""
    runs = found.runs[condition, group]
    return typical_among(runs[runs["solves"]]["longest"], level, "solve the training length")


def gap(found: Lengths, level: float, *, condition: str, way: str) -> Interval | NotMeasurable:
    """The mean number of octaves by which C6 goes farther, over the seeds at which both solve the training length."""
    if condition not in found.gaps:
        return NotMeasurable(f"no rows of the condition {condition!r}")
    gaps = found.gaps[condition]
    which = BOTH + (" and pass through a common loss" if way == "loss" else "")
    return mean_of(gaps[gaps["both"]][way].dropna(), level, (-found.span, found.span), which)


def _accuracies(found: Lengths, *, condition: str, group: str) -> str:
    values = found.runs[condition, group]["training"]
    return f"accuracy at the training length: {', '.join(f'{value:.3f}' for value in values)}"


def _reached(found: Lengths, *, condition: str) -> str:
    return found.reached.get(condition, "")
