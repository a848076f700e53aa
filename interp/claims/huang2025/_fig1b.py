"""How is huang2025's Figure 1b judged? The curve moves out at every stage, until the longest length is solved.

Only seeds whose model solves length 5 and not yet the longest length before the first stage are judged: the others
have nothing to extend.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from interp.claims.huang2025._parts import extreme, mean_of, precondition, typical_among
from interp.claims.huang2025._runs import REACHED, SEEDS, SOLVES, LegoRun, curve_metrics, span
from interp.claims.huang2025._worlds import accuracy_labels, filled, measured, point_labels, ramps
from interp.core.claim import World
from interp.core.judging import share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

NEARLY_PERFECT, FAILS = 0.9, 0.5
"""Accuracy at the longest length: above the first after the last stage, below the second before the first stage."""
RIGHT = 0.9
"""The share of self-labelled sentences with every label right."""
AS_GOOD = 0.1
"""How much less accuracy at the longest length still matches, one sentence in ten."""
ARMS = {
    "self": "self-labelled, doubled lengths",
    "true": "true labels, doubled lengths",
    "same": "true labels, length 5",
    "cyclic": "C6, true labels, length 5",
}
CONDITIONS = {arm: f"theory, {name}" for arm, name in ARMS.items()}
READY = "solve length 5 and not yet the longest"


@dataclass(frozen=True)
class Stages:
    """What the parts read of the rows, seeds by stages; but for `ready` of the seeds that are."""

    ready: pd.Series
    """By seed: whether the model solves length 5 and not yet the longest length before the first stage."""
    longest: pd.DataFrame
    """Accuracy at the longest length, with self-training."""
    growth: pd.DataFrame
    """Octaves that a stage adds, by stage from 1; missing where it starts with the longest length solved."""
    twice: pd.DataFrame
    """Accuracy at twice the stage's own length, where that was tested."""
    labels: pd.DataFrame
    """Share of self-labelled sentences with every label right, by stage from 1."""
    others: pd.DataFrame
    """Accuracy at the longest length after as many steps of the other arms, in columns."""
    span: float
    """Octaves from the shortest to the longest length tested."""
    words: str
    """Median length with 0.9 solved, by stage."""


def summary(rows: pd.DataFrame) -> Stages:
    """The tests after every stage of all arms."""
    found = with_settings(rows)
    accuracy = found[found["metric"] == "accuracy"]
    tests = curve_metrics(accuracy, ("condition", "unit", "stage"))
    own = tests[tests["condition"] == CONDITIONS["self"]]
    longest, octaves, reach = (
        own.pivot(index="unit", columns="stage", values=n) for n in ("longest", "octaves", "reach")
    )
    before = own[own["stage"] == 0].set_index("unit")
    ready = before["solves"] & (before["longest"] < FAILS)
    start = longest.shift(1, axis=1)
    growth = (octaves - octaves.shift(1, axis=1)).where(start < NEARLY_PERFECT).iloc[:, 1:]
    shortest = accuracy["length"].min()
    of_own = accuracy[(accuracy["condition"] == CONDITIONS["self"]) & (accuracy["stage"] > 0)]
    beyond = of_own[of_own["length"] == shortest * 2 ** (of_own["stage"] + 1)]
    labels = found[(found["metric"] == "label_accuracy") & (found["condition"] == CONDITIONS["self"])]
    labels = labels[labels["stage"] > 0].pivot(index="unit", columns="stage", values="value")
    last = tests[tests["stage"] == tests["stage"].max()].pivot(index="unit", columns="condition", values="longest")
    others = pd.DataFrame({arm: last[name] for arm, name in CONDITIONS.items() if arm != "self" and name in last})
    return Stages(
        ready=ready,
        longest=longest[ready],
        growth=growth[ready],
        twice=beyond.pivot(index="unit", columns="stage", values="value")[ready],
        labels=labels[ready],
        others=others.reindex(ready.index[ready]),
        span=span(accuracy),
        words="median length by stage: " + ", ".join(f"{2**value:.0f}" for value in reach.median()),
    )


def parts(_preset: object) -> list[Part]:
    """Every stage moves the curve out and the last solves the longest length; and what else could explain it."""
    return [
        precondition(
            "ready",
            "before self-training length 5 is solved and the longest is out of reach",
            f"share of seeds whose model has at least {SOLVES:g} at length 5 and less than {FAILS:g} at the longest",
            share_ready,
            _lengths,
        ),
        *_of_paper(("ready",)),
        *_controls(("ready",)),
    ]


SHARE = "share of sentences of the longest length with all steps right"


def _of_paper(needs: tuple[str, ...]) -> list[Part]:
    return [
        Part(
            key="rightward",
            name="every stage shifts the curve to longer lengths",
            role="paper",
            source="section 1.2: consistently shifts the length-accuracy curve rightward; Figure 1b",
            primary=True,
            quantity="octaves that a stage adds to the accuracy curve, mean over seeds, least of the stages",
            estimate=growth,
            direction="above",
            threshold=0.0,
            why="rightward in the paper's words: any shift",
            unit="seeds",
            needs=needs,
            note=_lengths,
        ),
        Part(
            key="after",
            name="after self-training the longest length is solved",
            role="paper",
            source="section 7: nearly perfect accuracy, up to L = 160",
            primary=True,
            quantity=f"{SHARE}, after the last stage",
            estimate=after,
            direction="above",
            threshold=NEARLY_PERFECT,
            why="nearly perfect in the paper's words, which gives no number; one sentence in ten may fail",
            unit="seeds",
            needs=needs,
            note=_by_stage,
        ),
        Part(
            key="twice",
            name="every stage solves twice its length",
            role="paper",
            source="section 7: at least constant-factor generalization beyond the training length; Theorem 5.1",
            quantity="share of sentences of twice the stage's length with all steps right, least of the stages",
            estimate=twice,
            direction="above",
            threshold=REACHED,
            why="solved, as for every length here: one sentence in ten may fail; the factor two is Theorem 5.1's",
            unit="seeds",
            needs=needs,
        ),
        Part(
            key="matches",
            name="it matches C6 at the longest length",
            role="paper",
            source="section 7: ultimately matching the simply transitive task's performance up to L = 160",
            quantity=f"{SHARE}: after self-training minus that of C6 after as many steps at length 5",
            estimate=partial(beyond, arm="cyclic"),
            direction="above",
            threshold=-AS_GOOD,
            why="matching: at most one sentence in ten fewer; more would match as well",
            unit="seeds",
            needs=needs,
            note=_others,
        ),
    ]


def _controls(needs: tuple[str, ...]) -> list[Part]:
    return [
        Part(
            key="labels",
            name="its own labels are right",
            role="control",
            quantity="share of self-labelled sentences with every label right, least of the stages",
            estimate=labels,
            direction="above",
            threshold=RIGHT,
            why="more wrong labels than these would make it learning from errors; the proof has none (6.2.2)",
            unit="seeds",
            needs=needs,
        ),
        Part(
            key="more_than_training",
            name="it is more than further training",
            role="control",
            quantity=f"{SHARE}: after self-training minus after as many steps at length 5",
            estimate=partial(beyond, arm="same"),
            direction="above",
            threshold=0.0,
            why="further training at length 5 must not do as well",
            unit="seeds",
            needs=needs,
            note=_others,
        ),
        Part(
            key="true_labels",
            name="its own labels serve as well as true ones",
            role="control",
            quantity=f"{SHARE}: after self-training minus after the same stages with true labels",
            estimate=partial(beyond, arm="true"),
            direction="above",
            threshold=-AS_GOOD,
            why="as well: at most one sentence in ten fewer",
            unit="seeds",
            needs=needs,
            note=_others,
        ),
    ]


def share_ready(found: Stages, level: float) -> Interval | NotMeasurable:
    """The share of seeds at which there is something to extend."""
    return share_of(found.ready, level)


def growth(found: Stages, level: float) -> Interval | NotMeasurable:
    """The octaves that the least of the stages adds; stages that start with the longest length solved add none."""
    return extreme(found.growth, level, (-found.span, found.span))


def after(found: Stages, level: float) -> Interval | NotMeasurable:
    """The accuracy at the longest length after the last stage."""
    return typical_among(found.longest.iloc[:, -1], level, READY)


def twice(found: Stages, level: float) -> Interval | NotMeasurable:
    """The least accuracy of a seed's stages at twice their length."""
    return typical_among(found.twice.min(axis=1), level, READY)


def labels(found: Stages, level: float) -> Interval | NotMeasurable:
    """The least share of right sentences among those that a seed labels itself."""
    return typical_among(found.labels.min(axis=1), level, READY)


def beyond(found: Stages, level: float, *, arm: str) -> Interval | NotMeasurable:
    """How much better than another arm after as many steps, paired by seed."""
    if arm not in found.others:
        return NotMeasurable(f"no rows of {CONDITIONS[arm]!r}")
    return mean_of((found.longest.iloc[:, -1] - found.others[arm]).dropna(), level, (-1.0, 1.0), READY)


def _lengths(found: Stages) -> str:
    return found.words


def _others(found: Stages) -> str:
    return "mean at the longest: " + ", ".join(f"{ARMS[arm]} {v:.2f}" for arm, v in found.others.mean().items())


def _by_stage(found: Stages) -> str:
    return "mean by stage: " + ", ".join(f"{value:.2f}" for value in found.longest.mean())


def _rows(
    generator: np.random.Generator,
    *,
    ends: tuple[int, ...] = (20, 40, 80, 160),
    longest: float | None = None,
    others: Mapping[str, float | None] | None = None,
    right: float = 0.99,
) -> pd.DataFrame:
    """Stages that solve up to `ends`, and in the end the longest with the share `longest`; labels right as given.

    The other arms end with the shares `others` of the longest; those without one stay where self-training began.
    """
    others = others or {}
    logs = np.log2(ends) + generator.normal(0, 0.25, (len(ARMS), SEEDS, 1))
    shares = ramps(logs)
    for place, arm in enumerate(ARMS):
        share = longest if arm == "self" else others.get(arm)
        if arm != "self":
            shares[place] = ramps(logs[place, :, :1])
        if share is not None:
            shares[place, :, -1] = 1.0
            shares[place, :, -1, -1] = generator.uniform(max(2 * share - 1, 0), min(2 * share, 1), SEEDS)
    stages, conditions = tuple(range(len(ends))), tuple(CONDITIONS.values())
    correct = generator.uniform(2 * right - 1, 1, (SEEDS, 1)) * np.ones((1, 1, 1, len(ends)))
    n = LegoRun().n_test
    return filled(
        (accuracy_labels(conditions, ("S5",), stages, name="stage"), measured(shares, generator, n)),
        (point_labels("label_accuracy", (CONDITIONS["self"],), ("S5",), stages, name="stage"), correct),
    )


WORLDS = (
    World(
        "the last stage adds nothing",
        {"rightward": False, "after": False, "twice": False},
        partial(_rows, ends=(10, 20, 40, 40)),
    ),
    World(
        "it ends at nine sentences of ten, as further training does, with labels as good",
        {"rightward": True, "after": False, "labels": False, "more_than_training": False},
        partial(_rows, longest=NEARLY_PERFECT, others={"same": NEARLY_PERFECT}, right=RIGHT),
    ),
    World(
        "C6 and true labels are better by what does not match",
        {"after": False, "matches": False, "true_labels": False},
        partial(_rows, longest=0.85, others={"cyclic": 0.85 + AS_GOOD, "true": 0.85 + AS_GOOD}),
    ),
    World(
        "it was there before",
        {"ready": False, "rightward": False, "more_than_training": False},
        partial(_rows, ends=(160, 160, 160, 160), others={"same": 0.9}),
    ),
    World(
        "as published",
        {
            "ready": True, "rightward": True, "after": True, "twice": True, "matches": True, "labels": True,
            "more_than_training": True, "true_labels": True,
        },
        partial(_rows, longest=0.97, others={"cyclic": 0.97, "true": 0.97}),
    ),
)  # fmt: skip
