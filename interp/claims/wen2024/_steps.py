"""What is judged of attention from step to step? The parts of wen2024/mechanism-steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from interp.claims.wen2024._pretrained import by_problem, mean_over_problems
from interp.core.parts import NotMeasurable, Part, Role
from interp.core.problem_runs import unit_of
from interp.statistics import Interval

FINAL, STEPS, DISTANCE = "final_log_prob", "step_log_prob", "key_distance"
SMALLEST = {FINAL: 0.1, STEPS: 0.05}
"""The smallest differences of interest, in nats of the whole answer and nats per token."""
OUTCOMES = {FINAL: "final answer", STEPS: "numbers of later steps"}


@dataclass(frozen=True)
class Test:
    """One kind of cut, what its loss is measured on, and what the paper says of it."""

    metric: str
    kind: str
    intact: Role = "ours"
    """The role of the loss against the intact model."""
    over: Role = "control"
    """The role of the loss beyond that of the control."""


TESTS = {
    "answer_steps": Test(FINAL, "answer to steps", intact="paper"),
    "steps_steps": Test(STEPS, "steps to earlier steps", intact="paper"),
    "answer_number": Test(FINAL, "answer to its number in the steps", over="paper"),
    "steps_results": Test(STEPS, "steps to earlier results", over="paper"),
    "steps_numbers": Test(STEPS, "steps to numbers of the question"),
    "final_all_steps": Test(FINAL, "steps and answer to earlier steps"),
    "final_steps_steps": Test(FINAL, "steps to earlier steps"),
    "final_question": Test(FINAL, "continuation to question"),
    "final_answer_question": Test(FINAL, "answer to question"),
    "steps_question": Test(STEPS, "continuation to question"),
}
SOURCE = "section 4.3, observation 1: real-world CoT data also exhibits sparse sequential dependence"
ARMS = {"target": "cut", "control": "control: as many other keys cut"}
INTACT = "intact"


@dataclass(frozen=True)
class Knocked:
    """What the parts read of one test, by problem: log-probabilities and distances, intact and under each arm."""

    log_probs: pd.DataFrame
    distances: pd.DataFrame


def summary(rows: pd.DataFrame) -> dict[str, Knocked]:
    """By test; means over draws, without problems of which nothing was cut.

    A solution of one line has no step before a step, and a line may use no earlier result.
    """
    rows = cut_rows(rows)
    tables = {metric: by_problem(rows, metric) for metric in (*OUTCOMES, DISTANCE)}
    found = {}
    for key, test in TESTS.items():
        log_probs, distances = tables[test.metric], tables[DISTANCE]
        intact = {INTACT: log_probs.get((INTACT, INTACT), _NOTHING)}
        by_arm = {arm: log_probs.get((test.kind, arm), _NOTHING) for arm in ARMS}
        apart = {arm: distances.get((test.kind, arm), _NOTHING) for arm in ARMS}
        found[key] = Knocked(pd.DataFrame(intact | by_arm).dropna(), pd.DataFrame(apart).dropna())
    return found


_NOTHING = pd.Series(dtype=float)


def cut_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the intact model, and of knockouts that cut anything."""
    return rows[(rows["n_tokens"] > 0) | (rows["condition"] == INTACT)]


def parts(data: str) -> list[Part]:
    """Every kind of cut against the intact model, and against its control.

    The paper's are two of each: that the steps are used, and that the few tokens which hold a number count for more
    than others as near.
    """
    found = []
    for key, test in TESTS.items():
        found += [_part(key, test, INTACT, data), _part(key, test, "control", data)]
    return found


def _part(key: str, test: Test, against: str, data: str) -> Part:
    alone, outcome = against == INTACT, OUTCOMES[test.metric]
    role = test.intact if alone else test.over
    smallest, per = SMALLEST[test.metric], "" if test.metric == FINAL else " per token"
    than = "the intact model" if alone else "the control, as many other keys cut,"
    return Part(
        key=key if alone else f"{key}_over",
        name=f"{outcome}: {test.kind}" + ("" if alone else ", beyond as many other keys"),
        role=role,
        source=f"{SOURCE} (here: {'sequential' if alone else 'sparse'})" if role == "paper" else "",
        primary=role == "paper",
        quantity=f"log-probability of the {outcome}, nats{per}: {than} minus {test.kind} cut",
        estimate=partial(lost, key=key, against=against),
        direction="above",
        threshold=smallest,
        why=f"a loss below {smallest:g} nats{per} would not matter: it changes a probability by a factor of "
        f"{np.exp(smallest):.2f}",
        unit=unit_of(data),
        note=partial(_means, key=key),
    )


def lost(found: Mapping[str, Knocked], level: float, *, key: str, against: str) -> Interval | NotMeasurable:
    """The mean log-probability that is lost by a cut, against the intact model or the control."""
    table = found[key].log_probs
    return mean_over_problems(table[against] - table["target"], level)


def _means(found: Mapping[str, Knocked], key: str) -> str:
    mean, apart = found[key].log_probs.mean(), found[key].distances.mean()
    return (
        f"intact {mean[INTACT]:.2f}; cut {mean['target']:.2f}, control {mean['control']:.2f}; mean distance of the "
        f"keys {apart['target']:.0f} and {apart['control']:.0f} tokens; {len(found[key].log_probs)} problems"
    )
