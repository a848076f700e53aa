"""How is the mechanism of huang2025 judged? What is left of the answers when an attention link is cut."""

import itertools
from functools import cache, partial

import numpy as np
import pandas as pd

from interp.claims.huang2025._parts import extreme, precondition, typical_among
from interp.claims.huang2025._runs import SETTLED_SEEDS, LegoRuns
from interp.claims.huang2025._worlds import filled
from interp.core.claim import World
from interp.core.judging import SHARE, share_of, typical_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import setting, table, with_settings

SOLVED = 0.95
"""Accuracy of the answers without a knockout at which a model is judged."""
DESTROYED = 0.4
"""Accuracy below which the answers are destroyed; chance level is 1/6 for C6 and 1/5 for S5."""
INTACT = 0.9
"""Accuracy above which they are intact."""
KNOCKOUTS = {
    "clean": "nothing hidden",
    "predicate": "predicate l+1 hidden",
    "answer": "answer l hidden",
    "random": "a random other clause hidden",
}
LINKS = {"predicate": "the predicate is necessary", "answer": "the previous answer is necessary"}
GROUPS = ("C6", "S5")
DESTRUCTION = "twice the chance level of S5, 1/5"


def summary(rows: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    """Of a condition and group: accuracy by seed (rows) and knockout (columns)."""
    wide = with_settings(rows).pivot_table(index=["condition", "group", "unit"], columns="metric", values="value")
    wide.columns = [name.removeprefix("accuracy_") for name in wide.columns]
    found: dict = {key: of_run.droplevel([0, 1]) for key, of_run in wide.groupby(["condition", "group"])}
    return found


def parts(preset: LegoRuns) -> list[Part]:
    """Both links are needed in the theory-like block; then, for both blocks, each link, and a random clause."""
    conditions = dict.fromkeys(run.condition for run in preset.runs)
    return [part for condition in conditions for group in GROUPS for part in _of_run(condition, group)]


def _of_run(condition: str, group: str) -> list[Part]:
    key, run = f"{condition}_{group.lower()}", {"condition": condition, "group": group}
    solves = precondition(
        f"{key}_solves",
        f"{condition} model, {group}: the task is learned",
        f"share of seeds whose model has at least {SOLVED:g} of the answers right, {KNOCKOUTS['clean']}",
        partial(share_solved, **run),
        partial(_clean, **run),
    )
    both = Part(
        key=f"{key}_both",
        name=f"{condition} model, {group}: both retrievals are required",
        role="paper",
        source="section 6.1.3: predicting the fifth token requires two retrievals; section 4, mechanism of CoT",
        primary=True,
        quantity="accuracy of the answers' states with one of the two clauses hidden, the larger of the two",
        estimate=partial(without_either, **run),
        direction="below",
        threshold=DESTROYED,
        why=DESTRUCTION,
        unit="seeds",
        needs=(solves.key,),
    )
    links = [
        Part(
            key=f"{key}_{name}",
            name=f"{condition} model, {group}: {words}",
            role="ours",
            quantity=f"accuracy of the answers' states, {KNOCKOUTS[name]}",
            estimate=partial(without, knockout=name, **run),
            direction="below",
            threshold=DESTROYED,
            why=DESTRUCTION,
            unit="seeds",
            needs=(solves.key,),
        )
        for name, words in LINKS.items()
    ]
    random = Part(
        key=f"{key}_random",
        name=f"{condition} model, {group}: a random clause is not",
        role="control",
        quantity=f"accuracy of the answers' states, {KNOCKOUTS['random']}",
        estimate=partial(without, knockout="random", **run),
        direction="above",
        threshold=INTACT,
        why="what a knockout itself breaks must be little: one answer in ten",
        unit="seeds",
        needs=(solves.key,),
    )
    return [solves, *([both] if condition == "theory" else []), *links, random]


def share_solved(found: dict, level: float, *, condition: str, group: str) -> Interval | NotMeasurable:
    """The share of seeds whose model has learned the task."""
    if (condition, group) not in found:
        return NotMeasurable("no rows of these runs")
    return share_of(found[condition, group]["clean"] >= SOLVED, level)


def without(found: dict, level: float, *, condition: str, group: str, knockout: str) -> Interval | NotMeasurable:
    """The accuracy under a knockout, over the models that have learned the task."""
    return typical_among(_learned(found, condition, group)[knockout], level, "have learned the task")


def without_either(found: dict, level: float, *, condition: str, group: str) -> Interval | NotMeasurable:
    """The accuracy without the clause that matters less, over the models that have learned the task."""
    learned = _learned(found, condition, group)[list(LINKS)]
    return extreme(learned, level, SHARE, of=typical_of, which="largest")


def _learned(found: dict, condition: str, group: str) -> pd.DataFrame:
    of_run = found[condition, group]
    return of_run[of_run["clean"] >= SOLVED]


def _clean(found: dict, *, condition: str, group: str) -> str:
    clean = ", ".join(f"{value:.3f}" for value in found[condition, group]["clean"])
    return f"accuracy {KNOCKOUTS['clean']}: {clean}; those below {SOLVED:g} are left out"


@cache
def _labels() -> pd.DataFrame:
    places = list(itertools.product(KNOCKOUTS, GROUPS, range(SETTLED_SEEDS)))
    return table(
        run=[f"theory,{group},{seed}" for _, group, seed in places],
        condition="theory",
        unit=[str(seed) for *_, seed in places],
        setting=[setting(group=group) for _, group, _ in places],
        metric=[f"accuracy_{name}" for name, *_ in places],
        value=0.0,
    )


def _rows(
    generator: np.random.Generator, *, clean: float = 0.99, predicate: float, answer: float, random: float
) -> pd.DataFrame:
    """Theory-like models with these accuracies under the knockouts, a spread over seeds, and 320 answers each."""
    means = np.array([clean, predicate, answer, random]).reshape(4, 1, 1)
    spread = generator.normal(0, 1, (4, len(GROUPS), SETTLED_SEEDS)) * np.minimum(0.04, (1 - means) / 3)
    return filled((_labels(), generator.binomial(320, np.clip(means + spread, 0, 1)) / 320))


def _truth(**truth: bool) -> dict[str, bool]:
    return {f"theory_{group.lower()}_{key}": value for group in GROUPS for key, value in truth.items()}


WORLDS = (
    World(
        "as much left as would not count, of either link, and of a random clause",
        _truth(both=False, predicate=False, answer=False, random=False),
        partial(_rows, predicate=DESTROYED, answer=DESTROYED, random=INTACT),
    ),
    World(
        "the answer's own clause is not needed",
        _truth(both=False, predicate=True, answer=False, random=True),
        partial(_rows, predicate=0.2, answer=0.6, random=0.98),
    ),
    World(
        "the task is not learned, so that little is left of anything",
        _truth(solves=False, both=False, predicate=False, answer=False),
        partial(_rows, clean=0.5, predicate=0.2, answer=0.2, random=0.5),
    ),
    World(
        "both are required",
        _truth(solves=True, both=True, predicate=True, answer=True, random=True),
        partial(_rows, predicate=0.2, answer=0.3, random=0.98),
    ),
)
