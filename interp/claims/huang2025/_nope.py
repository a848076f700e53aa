"""How is it judged what positions do to length? Runs with and without them, and the octaves between their curves."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import pandas as pd

from interp.claims.huang2025._fig1a import FAILS, FARTHER, POINTS, Lengths, Reading, ahead, share_solving
from interp.claims.huang2025._fig1a import summary as lengths_of
from interp.claims.huang2025._parts import SOLVING, precondition, typical_among
from interp.claims.huang2025._runs import END, LegoRun
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

if TYPE_CHECKING:
    from toy_models.lego.clause_decoder import ClauseDecoderConfig
    from toy_models.lego.task import Lego

GROUP = "C6"
ZEROED = "zeroed"
"""The end again, with the learned positions that were never trained at zero."""
PERMUTED = "permuted"
"""The share of sentences of the training length that are solved with the predicates in random order."""


@dataclass(frozen=True)
class PlacedRun(LegoRun):
    """A run of the standard block on C6, with positions or without."""

    model: Literal["standard", "theory"] = "standard"
    positions: Literal["none", "learned", "sinusoidal"] = "none"
    n_ctx: int = 321
    """Places with a learned position: the clauses of the longest test sentences."""
    shuffled: bool = False
    """Whether predicates stand in random order, in training and in tests, so that places tell nothing of them."""

    @property
    def task(self) -> "Lego":
        """The task at the training length."""
        return replace(super().task, permuted=self.shuffled)

    @property
    def decoder(self) -> "ClauseDecoderConfig":
        """The variant, with this run's sizes and positions."""
        return replace(super().decoder, positions=self.positions, n_ctx=self.n_ctx)


@dataclass(frozen=True)
class Nope:
    """Every run at every seed."""

    runs: tuple[PlacedRun, ...]
    seeds: int
    first_unit: int = 0


WITHOUT = PlacedRun()
LEARNED = PlacedRun(change="learned positions", positions="learned")
FIXED = PlacedRun(change="sinusoidal positions", positions="sinusoidal")
SHUFFLED = replace(LEARNED, change="learned positions, shuffled", shuffled=True)
RUNS = {"none": WITHOUT, "learned": LEARNED, "sinusoidal": FIXED, "shuffled": SHUFFLED}
"""By the beginning of the keys of their parts."""


@dataclass(frozen=True)
class Found:
    """What the parts read of the rows."""

    lengths: Lengths
    permuted: Mapping[str, pd.Series]
    """By condition and seed: the share of sentences of length 5 solved with the predicates in random order."""


def summary(rows: pd.DataFrame) -> Found:
    """Accuracy curves, and accuracies in random order, by seed."""
    permuted = rows[rows["metric"] == PERMUTED]
    by_condition = {str(name): of_one.set_index("unit")["value"] for name, of_one in permuted.groupby("condition")}
    return Found(lengths_of(rows), by_condition)


SECTION_8 = "section 8: standard positional embeddings often hinder length extrapolation, NoPE has been advantageous"
AT_ZERO = "untrained positions at zero"
BEYOND = f"{GROUP} goes farther without positions than with"


def parts(preset: Nope) -> list[Part]:
    """What the paper says of both kinds of positions; then what it is about them."""
    solving = [
        precondition(
            f"{key}_solves",
            f"{run.condition}: {GROUP} solves its training length",
            f"{SOLVING}, at the end",
            partial(solves, condition=run.condition),
            partial(_words, conditions=(run.condition,)),
        )
        for key, run in RUNS.items()
    ]
    papers = [
        replace(
            _farther(f"{key}_farther", f"{BEYOND} {words}", WITHOUT, run),
            role="paper", primary=True, source=source, needs=("none_solves", f"{key}_solves"),
        )
        for key, run, words, source in (
            ("learned", LEARNED, "learned ones", SECTION_8),
            ("sinusoidal", FIXED, "sinusoidal ones", f"{SECTION_8}; fixed ones tie the computation to the horizon"),
        )
    ]  # fmt: skip
    place = Part(
        key="by_place",
        name="learned positions: the predicates are found by their place",
        role="ours",
        quantity="share of sentences of length 5 that are solved with the predicates in random order, at the end",
        estimate=by_place,
        direction="below",
        threshold=FAILS,
        why="in the order of training nearly all are solved: if more than half fail in another, places decided",
        unit="seeds",
        note=_permuted,
    )
    return [
        *solving,
        *papers,
        _farther("zeroed_farther", f"{BEYOND} learned ones, {AT_ZERO}", WITHOUT, LEARNED, ZEROED),
        place,
        _farther("untrained", f"{BEYOND} learned ones trained in random order", WITHOUT, SHUFFLED),
        _farther("rest", f"{BEYOND} learned ones trained in random order, {AT_ZERO}", WITHOUT, SHUFFLED, ZEROED),
        _farther(
            "content", f"learned positions go farther if trained in random order, {AT_ZERO} in both",
            SHUFFLED, LEARNED, ZEROED, ZEROED,
        ),
    ]  # fmt: skip


def _farther(key: str, name: str, one: PlacedRun, other: PlacedRun, point: str = END, of_one: str = END) -> Part:
    """Ours, unless replaced: whether one run, at its end or `of_one`, goes far beyond the other at `point`."""
    at = f", {AT_ZERO}" if point == ZEROED else ""
    return Part(
        key=key,
        name=name,
        role="ours",
        quantity=f"octaves between the accuracy curves of {one.condition} and {other.condition}{at}, {POINTS[END]}",
        estimate=partial(gap, one=(one.condition, GROUP, of_one), other=(other.condition, GROUP, point)),
        direction="above",
        threshold=FARTHER,
        why="a factor of two in length, as in huang2025/fig1a",
        unit="seeds",
        note=partial(_words, conditions=(one.condition, other.condition)),
    )


def solves(found: Found, level: float, *, condition: str) -> Interval | NotMeasurable:
    """The share of seeds that solve the training length at the end."""
    return share_solving(found.lengths, level, condition=condition, group=GROUP)


def gap(found: Found, level: float, *, one: Reading, other: Reading) -> Interval | NotMeasurable:
    """The octaves by which one cell goes farther than the other, where both solve the training length."""
    return ahead(found.lengths, level, one, other)


def by_place(found: Found, level: float) -> Interval | NotMeasurable:
    """The median share solved in random order, of the seeds that solve the training length in order."""
    cell = (LEARNED.condition, GROUP, END)
    if cell not in found.lengths.curves or LEARNED.condition not in found.permuted:
        return NotMeasurable("no rows of these runs")
    curves = found.lengths.curves[cell]
    solving = curves.index[curves["solves"]]
    return typical_among(found.permuted[LEARNED.condition].reindex(solving).dropna(), level, "solve length 5")


def _words(found: Found, *, conditions: tuple[str, ...]) -> str:
    known = found.lengths.words
    return "; ".join(f"{name}: {known[name]}" for name in dict.fromkeys(conditions) if name in known)


def _permuted(found: Found) -> str:
    return "medians: " + ", ".join(f"{name} {values.median():.3f}" for name, values in found.permuted.items())
