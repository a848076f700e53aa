"""How are huang2025's Figures 6 and 7 judged? Attention lost with length and with place, target by target."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from interp.claims.huang2025._parts import extreme
from interp.claims.huang2025._runs import SETTLED_SEEDS, LegoRuns, of_solving
from interp.claims.huang2025._worlds import filled, solving, target_labels
from interp.core.claim import World
from interp.core.judging import SHARE, mean_over, typical_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

VISIBLE = 0.02
"""The smallest change of attention that counts."""
RETRIEVES = 0.5
"""The attention on both targets at the shorter length above which a model has learned to retrieve."""
QUARTER = 4
"""Early and late answers are the first and the last quarter of the sentence."""
GROUPS, TARGETS = ("C6", "S5"), ("predicate", "answer")
CHANGE = (-1.0, 1.0)
"""Bounds of a change of attention."""
LOST = {"length": "shorter minus longer test length", "place": "first minus last quarter of the answers, longer one"}
Kind = Literal["length", "place"]


Cell = tuple[str, str, str, str]


@dataclass(frozen=True)
class Dilution:
    """What the parts read of the rows."""

    by_seed: Mapping[Cell, pd.Series]
    """Attention lost with `length` or `place`, and at the `short` and `long` length, by condition, target, group."""
    words: Mapping[str, str]
    """By condition: all means."""


def summary(rows: pd.DataFrame) -> Dilution:
    """The attention on the targets at both lengths, and what is lost with length and place."""
    targets = of_solving(rows)
    targets = targets[targets["metric"].isin(TARGETS)]
    if targets.empty:
        return Dilution({}, {})
    keys = ["condition", "metric", "group"]
    short, long = targets["length"].min(), targets["length"].max()
    by_length = targets.pivot_table(index="unit", columns=["length", *keys], values="value")
    at_long = targets[targets["length"] == long]
    part = (at_long["answer"] * QUARTER // at_long["length"]).astype(int)
    quarters = at_long.assign(part=part).pivot_table(index="unit", columns=["part", *keys], values="value")
    found = {
        "length": by_length[short] - by_length[long],
        "place": quarters[0] - quarters[QUARTER - 1],
        "short": by_length[short],
        "long": by_length[long],
    }
    by_seed: dict = {(what, *cell): of[cell] for what, of in found.items() for cell in of}
    return Dilution(by_seed, {str(name): _words(by_seed, str(name)) for name in targets["condition"].unique()})


def _words(by_seed: Mapping[Cell, pd.Series], condition: str) -> str:
    means = {
        (group, target): [by_seed[what, condition, target, group].mean() for what in ("long", "length", "place")]
        for group in GROUPS
        for target in TARGETS
        if ("long", condition, target, group) in by_seed
    }
    return "; ".join(
        f"{group} {target}: {at:.3f} at the longer length, lost by length {length:.3f}, by place {place:.3f}"
        for (group, target), (at, length, place) in means.items()
    )


def parts(preset: LegoRuns) -> list[Part]:
    """For each model: dilution of both targets; the predicate of S5 and of C6; the answer, C6 against S5."""
    conditions = dict.fromkeys(run.condition for run in preset.runs)
    return [part for condition in conditions for part in (_retrieves(condition), *_of_model(condition))]


def _retrieves(condition: str) -> Part:
    return Part(
        key=f"{condition}_retrieves",
        name=f"{condition} model: attention is on the targets at the shorter length",
        role="precondition",
        quantity="attention on both targets at the shorter test length, mean over answers, lesser of the groups",
        estimate=partial(on_targets, condition=condition),
        direction="above",
        threshold=RETRIEVES,
        why="with less than half of the attention on the targets, retrieval has not been learned",
        unit="seeds",
    )


def _of_model(condition: str) -> list[Part]:
    def part(key: str, name: str, source: str, kind: Kind, estimate: Callable[..., Any], **rest: Any) -> Part:
        rest = {"direction": "above", "threshold": VISIBLE, "why": "a visible drop; the paper has no number"} | rest
        return Part(
            key=f"{condition}_{key}",
            name=f"{condition} model, {name}",
            role="paper",
            source=source,
            primary=rest.pop("main", False) and condition == "theory",
            quantity=f"{rest.pop('of', 'attention on the predicate lost')}: {LOST[kind]}",
            estimate=partial(estimate, condition=condition, kind=kind),
            unit="seeds",
            needs=(f"{condition}_retrieves",),
            note=partial(_all, condition=condition),
            **rest,
        )

    flat = {
        "direction": "within",
        "threshold": 0.0,
        "margin": VISIBLE,
        "why": "less than a visible change, either way",
    }
    more = {"threshold": 0.0, "why": "more sensitive in the paper's words: any difference in that direction"}
    of_s5, of_c6 = partial(lost, group="S5"), partial(lost, group="C6")
    answer = "attention on the answer lost, C6 minus S5"
    return [
        part(
            "dilution", "both targets lose attention with length", "section 7: both decrease from 10 to 20", "length",
            dilution, of="attention lost, mean over the groups, lesser of the targets", main=True,
        ),
        part(
            "s5_place", "S5: attention on the predicate falls with place",
            "section 7: decays with position; Figure 6: a visible drop", "place", of_s5, main=True,
        ),
        part(
            "c6_place", "C6: attention on the predicate is even over places",
            "section 7: no comparable decay, fairly uniform across positions", "place", of_c6, main=True, **flat,
        ),
        part(
            "answer_place", "attention on the answer falls more with place for C6 than for S5",
            "section 7 and Figure 7: the pattern reverses, C6 is more sensitive to location", "place", contrast,
            of=answer, main=True, **more,
        ),
        part(
            "answer_length", "attention on the answer falls more with length for C6 than for S5",
            "section 7 and Figure 7: C6 is more sensitive to length", "length", contrast, of=answer, **more,
        ),
        part(
            "c6_length", "C6: attention on the predicate is even over lengths",
            "section 7: fairly uniform across lengths", "length", of_c6, **flat,
        ),
        part(
            "s5_length", "S5: attention on the predicate falls with length",
            "section 7: length-dependent decay of attention on predicate clauses", "length", of_s5,
        ),
    ]  # fmt: skip


def on_targets(found: Dilution, level: float, *, condition: str) -> Interval | NotMeasurable:
    """The attention on both targets at the shorter length, of the group that has less."""
    predicate, answer = (
        pd.DataFrame({group: of_cell(found, "short", condition, target, group) for group in GROUPS})
        for target in TARGETS
    )
    mass = (predicate + answer).clip(upper=1.0)
    if (mass.notna().sum() < 2).any():
        return NotMeasurable("fewer than two seeds of a group solve the training length")
    return extreme(mass, level, SHARE, of=typical_of)


def of_cell(found: Dilution, what: str, condition: str, target: str, group: str) -> pd.Series:
    """By seed that solves the training length; none may."""
    return found.by_seed.get((what, condition, target, group), pd.Series(dtype=float))


def lost(found: Dilution, level: float, *, condition: str, kind: Kind, group: str) -> Interval | NotMeasurable:
    """The attention on the predicate that a group loses."""
    return mean_over(of_cell(found, kind, condition, "predicate", group).dropna(), level, CHANGE)


def dilution(found: Dilution, level: float, *, condition: str, kind: Kind) -> Interval | NotMeasurable:
    """The attention that the target loses which loses less, mean over the groups."""
    one, other = ({t: of_cell(found, kind, condition, t, group) for t in TARGETS} for group in GROUPS)
    return extreme(pd.DataFrame({t: (one[t] + other[t]) / 2 for t in TARGETS}), level, CHANGE)


def contrast(found: Dilution, level: float, *, condition: str, kind: Kind) -> Interval | NotMeasurable:
    """How much more attention on the answer C6 loses than S5."""
    one, other = (of_cell(found, kind, condition, "answer", group) for group in GROUPS)
    return mean_over((one - other).dropna(), level, (-2.0, 2.0))


def _all(found: Dilution, *, condition: str) -> str:
    return found.words.get(condition, "")


_PLACES = 0.75
"""Places of answers lie in [0, 1): the quarters that are compared are this far apart."""
_CELLS = {(target, group): (i, j) for i, target in enumerate(TARGETS) for j, group in enumerate(GROUPS)}


def _rows(generator: np.random.Generator, *, length: dict, place: dict) -> pd.DataFrame:
    """Theory-like models that lose so much of a target's attention by length and by place."""
    tables = [solving(("theory",), GROUPS, seeds=SETTLED_SEEDS)]
    start = 0.45 + generator.normal(0, 0.02, (2, 1, 2, SETTLED_SEEDS, 1))
    by_length, by_place = (0.01 * generator.normal(0, 1, (2, 1, 2, SETTLED_SEEDS, 1)) for _ in range(2))
    for cell, (i, j) in _CELLS.items():
        by_length[i, 0, j] += length.get(cell, 0.0)
        by_place[i, 0, j] += place.get(cell, 0.0)
    for test, loss in ((10, 0.0 * by_length), (20, by_length)):
        where = np.arange(test) / test
        where = (where - where.mean()) / _PLACES
        values = start - loss - by_place * where
        tables.append((target_labels(("theory",), GROUPS, test, seeds=SETTLED_SEEDS), np.clip(values, 0, 1)))
    return filled(*tables)


def _each(loss: float) -> dict[tuple[str, str], float]:
    return dict.fromkeys(_CELLS, loss)


def _truth(**truth: bool) -> dict[str, bool]:
    return {f"theory_{key}": value for key, value in truth.items()}


WORLDS = (
    World(
        "all dilute alike, by what would not count",
        _truth(
            dilution=False, s5_place=False, c6_place=False, answer_place=False, answer_length=False, c6_length=False,
            s5_length=False,
        ),
        partial(_rows, length=_each(VISIBLE), place=_each(VISIBLE)),
    ),
    World(
        "all dilute alike, and much",
        _truth(dilution=True, s5_place=True, c6_place=False, answer_place=False, answer_length=False),
        partial(_rows, length=_each(0.1), place=_each(0.1)),
    ),
    World(
        "only the answer dilutes, more for S5",
        _truth(
            dilution=False, s5_place=False, c6_place=True, answer_place=False, answer_length=False, c6_length=True
        ),
        partial(
            _rows,
            length={("answer", "C6"): 0.05, ("answer", "S5"): 0.1},
            place={("answer", "C6"): 0.05, ("answer", "S5"): 0.1},
        ),
    ),
    World(
        "as published",
        _truth(
            retrieves=True, dilution=True, s5_place=True, c6_place=True, answer_place=True, answer_length=True,
            c6_length=True, s5_length=True,
        ),
        partial(
            _rows,
            length={("predicate", "S5"): 0.12, ("answer", "C6"): 0.12},
            place={("predicate", "S5"): 0.12, ("answer", "C6"): 0.12},
        ),
    ),
)  # fmt: skip
