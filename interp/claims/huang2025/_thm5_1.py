"""How are Theorem 5.1 and Corollary 5.1 of huang2025 judged? Stage by stage, for several E_1, and beside C6.

Stage k has length 2^k. The theorem leaves the error degree E_1 open; what it promises is judged at the largest that
is tried, where stages go on the longest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from interp.claims.huang2025._runs import REACHED
from interp.claims.huang2025._theory_reading import last_values, lengths_reached
from interp.core.judging import mean_over, share_of, typical_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

EPSILON = 0.01
"""Theorem 5.1: attention off the two clauses."""
FAILED = 0.5
"""The accuracy below which a length is not solved."""
DILUTED = 1.25
"""The factor by which the symmetric group's attention elsewhere must exceed C6's at the same loss."""
MATTERS = 2.0
"""The factor between the attention elsewhere at the smallest and the largest E_1 that counts as an effect."""
ENOUGH = 0.5
"""The share of seeds whose stages must all end by their loss."""
BY = ["group", "degree", "stage", "unit"]


@dataclass(frozen=True)
class Stages:
    """What the parts read of the rows: by group, E_1 (0 in stage 1, which all share), stage and seed."""

    runs: pd.DataFrame

    def of(self, *, simple: bool, degree: Callable[[pd.Series], float] = max) -> pd.DataFrame:
        """The stages of one group; those after the first by the largest E_1, or the smallest (`min`)."""
        found = self.runs[(self.runs["group"] == "C6") == simple]
        chosen = degree(found[found["stage"] > 1]["degree"])
        return found[(found["stage"] == 1) | (found["degree"] == chosen)]

    @property
    def lengths(self) -> list[int]:
        """The lengths tested; the longest sentences need every variable."""
        return sorted(column for column in self.runs.columns if isinstance(column, int))


def summary(rows: pd.DataFrame) -> Stages:
    """Attention, losses and accuracies after every stage."""
    found = with_settings(rows)
    found = found[found["stage"] > 0].assign(degree=found["degree"].fillna(0.0), stage=found["stage"].astype(int))
    last = last_values(found[found["length"].isna()], BY)
    return Stages(last.join(lengths_reached(found[found["metric"] == "accuracy"], BY)).reset_index())


def ended(found: Stages, level: float) -> Interval | NotMeasurable:
    """The share of seeds whose every stage ended by its loss at the largest E_1, in both groups."""
    later = found.runs[found.runs["stage"] > 1]
    later = later[later["degree"] == later["degree"].max()]
    return share_of(later["ended"].groupby(later["unit"]).min() > 0, level)


def twice(found: Stages, level: float) -> Interval | NotMeasurable:
    """The accuracy of stage k at length 2^(k+1), least of the stages of a seed."""
    runs = found.of(simple=False)
    values = pd.Series([row[2 ** (row["stage"] + 1)] for _, row in runs.iterrows()], dtype=float)
    return typical_of(values.groupby(runs["unit"].to_numpy()).min(), level)


def stage_attention(found: Stages, level: float) -> Interval | NotMeasurable:
    """Attention off the two clauses at the stage's own length, largest over the stages of a seed."""
    runs = found.of(simple=False)
    return typical_of(runs["error"].groupby(runs["unit"]).max(), level)


def every_length(found: Stages, level: float) -> Interval | NotMeasurable:
    """The accuracy of the last stage, least over all lengths, up to the longest that the variables allow."""
    runs = found.of(simple=False)
    return typical_of(runs[runs["stage"] == runs["stage"].max()][found.lengths].min(axis=1), level)


def first_stage(found: Stages, level: float, *, simple: bool) -> Interval | NotMeasurable:
    """The accuracy of stage 1 at the longest sentences."""
    runs = found.of(simple=simple)
    return typical_of(runs[runs["stage"] == 1][found.lengths[-1]], level)


def _later(runs: pd.DataFrame) -> pd.Series:
    """Attention elsewhere after the stages that end by their loss, geometric mean of a seed's, in logs."""
    later = runs[runs["stage"] > 1]
    return np.log(later["error"]).groupby(later["unit"]).mean()


def diluted(found: Stages, level: float) -> Interval | NotMeasurable:
    """Attention elsewhere of the symmetric group over that of C6, largest E_1: no stage ends untrained there."""
    ratios = _later(found.of(simple=False)) - _later(found.of(simple=True))
    return _exponential(mean_over(ratios, level))


def degree_matters(found: Stages, level: float) -> Interval | NotMeasurable:
    """Attention elsewhere at the smallest E_1 over that at the largest, symmetric group."""
    ratios = _later(found.of(simple=False, degree=min)) - _later(found.of(simple=False))
    return _exponential(mean_over(ratios, level))


def _exponential(found: Interval | NotMeasurable) -> Interval | NotMeasurable:
    if isinstance(found, NotMeasurable):
        return found
    value, low, high = (float(np.exp(x)) for x in (found.value, found.low, found.high))
    return Interval(value, low, high, found.level, found.n, found.method)


def by_stage(found: Stages) -> str:
    """Lengths, attention and steps, stage by stage."""
    runs = found.of(simple=False).groupby("stage")
    lengths = ", ".join(f"{2**value:.0f}" for value in runs["reach"].mean())
    off = ", ".join(f"{value:.3f}" for value in runs["error"].median())
    steps = ", ".join(f"{value:.0f}" for value in runs["steps"].mean())
    labels = found.of(simple=False)["labels_right"].min()
    return (
        f"by stage: lengths (geometric means over seeds) {lengths}; attention elsewhere (medians) {off}; steps "
        f"{steps}; self-labels right: at least {labels:.3f}"
    )


def by_degree(found: Stages) -> str:
    """Attention elsewhere after the last stage for every E_1, both groups."""
    last = found.runs[found.runs["stage"] == found.runs["stage"].max()]
    means = last.groupby(["group", "degree"])["error"].median()
    return "after the last stage: " + ", ".join(f"{g} E_1 = {e:g}: {value:.3f}" for (g, e), value in means.items())


def parts(_preset: object) -> list[Part]:
    """The theorem's promises, what a first stage cannot, and what E_1 and the group do to attention."""
    return [*_promises(), *_comparisons()]


def _promises() -> list[Part]:
    paper: dict[str, Any] = {"role": "paper", "unit": "seeds", "primary": True}
    return [
        Part(
            key="ended", name="the stages end by their loss", estimate=ended, role="precondition", unit="seeds",
            quantity="share of seeds with no stage cut at the largest number of steps, largest E_1",
            direction="above", threshold=ENOUGH, why="a stage that was cut has not reached its E_1; half may",
        ),
        Part(
            key="twice", name="every stage of self-training solves twice its length", estimate=twice,
            quantity="accuracy of stage k at length 2^(k+1), least of the stages", direction="above",
            threshold=REACHED, why="1 - 1/poly(d) in the theorem; one sentence in ten may fail at this d",
            source="Theorem 5.1 (1)", note=by_stage, needs=("ended",), **paper,
        ),
        Part(
            key="stage_attention", name="every stage's attention is on the two clauses", estimate=stage_attention,
            quantity="attention elsewhere at the stage's own length, largest of the stages", direction="below",
            threshold=EPSILON, why="the theorem's own number: a constant smaller than 0.01",
            source="Theorem 5.1 (2)", note=by_degree, needs=("ended",), **paper,
        ),
        Part(
            key="every_length", name="after the last stage every length is solved", estimate=every_length,
            quantity="accuracy, least over lengths, up to the longest that the variables allow", direction="above",
            threshold=REACHED, why="1 - 1/poly(d) for any L < |X|; one sentence in ten may fail at this d",
            source="Corollary 5.1", needs=("ended",), **paper,
        ),
    ]  # fmt: skip


def _comparisons() -> list[Part]:
    paper: dict[str, Any] = {"role": "paper", "unit": "seeds"}
    fails: dict[str, Any] = {"direction": "below", "threshold": FAILED, "unit": "seeds"}
    return [
        Part(
            key="first_fails", name="the first stage alone does not get there",
            estimate=partial(first_stage, simple=False), role="paper",
            quantity="accuracy of stage 1 at the longest sentences", why="not solved: more sentences fail than not",
            source="Theorem 1.2 and section 5: only a constant factor, insufficient for much longer contexts",
            **fails,
        ),
        Part(
            key="diluted", name="at the same loss the symmetric group attends elsewhere more", estimate=diluted,
            quantity="attention elsewhere over that of C6 after the later stages, largest E_1, geometric mean",
            direction="above", threshold=DILUTED, why="a quarter more is the least that counts as insufficient",
            source="section 5: distractors answer right, so training may converge with insufficient concentration",
            needs=("ended",), **paper,
        ),
        Part(
            key="degree_matters", name="E_1 decides how attention concentrates", estimate=degree_matters, role="ours",
            quantity="attention elsewhere after the later stages at the smallest E_1 over that at the largest",
            direction="above", threshold=MATTERS, unit="seeds", why="twice: a constant left open that decides",
            note=by_degree,
        ),
        Part(
            key="c6_first_fails", name="the first stage alone fails for C6 too",
            estimate=partial(first_stage, simple=True), role="ours",
            quantity="accuracy of stage 1 at the longest sentences, group C6",
            why="not solved, as for the symmetric group", **fails,
        ),
    ]  # fmt: skip
