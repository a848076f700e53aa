"""wen2024, the mechanism behind sparsity: does a pretrained model use the attention from step to step in CoT text?

The paper argues from theory and from attention maps that CoT makes every token depend on few earlier ones; it does
not intervene in a pretrained model, so the experiment is ours. Attention is knocked out (weight zero, the rest
renormalised, all layers and heads) while the model reads a worked solution, and the log-probability of the final
answer is compared with that of the intact model; and, for edges to steps, with that under a control: equally many
random other keys at the same queries. The solution ends in "The answer is N.", because a small model does not expect
GSM8K's `#### N`. Key 1 is never cut, because it is the attention sink; no query loses its own token, and neither arm
cuts the four tokens before a query, without which any text falls apart. Where a query has fewer other keys than the
kind has edges, both arms are cut down to that number; the arm that cuts all edges of a kind has no control. The text
is teacher-forced, so the final answer can be copied from the last line; therefore the numbers inside the second and
later reasoning lines are judged too.

The control keys are all other keys: random tokens of the question, where edges to steps are cut. Edges to the
question against their control would be the same comparison with its sign turned, and are judged against the intact
model only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._pretrained import (
    CLUSTERED,
    TINY,
    by_problem,
    change_intervals,
    load,
    mean_over_problems,
    shards,
    some_problems,
    unit_of,
)
from interp.claims.wen2024._worlds_pretrained import built_in, deviations, simulated_log_probs
from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/mechanism-steps"
FINAL, STEPS = "final_log_prob", "step_log_prob"
SMALLEST = {FINAL: 0.1, STEPS: 0.05}
"""The smallest differences of interest, in nats of the whole answer and nats per token."""
OUTCOMES = {FINAL: "final answer", STEPS: "numbers of later steps"}


@dataclass(frozen=True)
class Test:
    """One kind of edges, and what its loss is measured on."""

    metric: str
    kind: str
    primary: bool = False
    mirrored: bool = False
    """Whether its control is what another test cuts."""


TESTS = {
    "answer_steps": Test(FINAL, "answer to steps", primary=True),
    "steps_steps": Test(STEPS, "steps to earlier steps", primary=True),
    "final_all_steps": Test(FINAL, "steps and answer to earlier steps"),
    "final_steps_steps": Test(FINAL, "steps to earlier steps"),
    "final_question": Test(FINAL, "continuation to question", mirrored=True),
    "final_answer_question": Test(FINAL, "answer to question", mirrored=True),
    "steps_question": Test(STEPS, "continuation to question", mirrored=True),
}
ARMS = {
    "full": "all cut",
    "target": "as many distant ones cut as in the control",
    "control": "control: random others cut",
}
INTACT = "intact"


@dataclass(frozen=True)
class Steps:
    """Knockouts in shards of problems; a shard is one item."""

    model: str
    data: str
    limit: int | None
    shard: int
    seed: int = 0
    """Of the random keys."""
    seeds: int = 1
    """Problems, not seeds, are the unit of replication."""
    first_unit: int = 0
    """The first problem."""


PRESETS = {
    "smoke": Steps(TINY + "builtin", "builtin", limit=4, shard=4),
    "cpu": Steps("builtin", "builtin", limit=40, shard=5),
    "paper": Steps("Qwen/Qwen2-7B", "openai/gsm8k", limit=None, shard=100),
}


def items(preset: Steps) -> list[Item]:
    """One item for each shard of problems."""
    return shards(preset, preset.limit or len(some_problems(preset.data, preset.first_unit, None)))


def measure_shard(item: Item, work: Path) -> pd.DataFrame:
    """Every knockout on the item's problems."""
    from hf_analysis.causal.knockout import knockout_rows
    from probes.rows import concat

    p = item.parameters
    past = p["start"] - p["first_unit"]
    problems = some_problems(p["data"], p["first_unit"], p["limit"])[past : past + p["shard"]]
    model = load(p["model"])
    return concat(knockout_rows(model, problem, seed=p["seed"], run=model.name) for problem in problems)


def summary(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By part, log-probabilities by problem: intact and under every arm of the kind's knockout.

    Without knockouts that cut nothing: a solution of one line has no step before a step.
    """
    rows = _with_edges(rows)
    tables = {metric: by_problem(rows, metric) for metric in OUTCOMES}
    found = {}
    for key, test in TESTS.items():
        table = tables[test.metric]
        columns = {arm: table.get((test.kind, arm), pd.Series(dtype=float)) for arm in ARMS}
        found[key] = pd.DataFrame({INTACT: table[INTACT, INTACT], **columns}).dropna()
    return found


def _with_edges(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["n_tokens"] > 0) | (rows["condition"] == INTACT)]


def parts(preset: Steps) -> list[Part]:
    """Every kind against the intact model; kinds whose control is no other test's cut also against that."""
    found = []
    for key, test in TESTS.items():
        against = [(key, INTACT), *([] if test.mirrored else [(f"{key}_over", "control")])]
        found += [_part(name, key, test, arm, preset) for name, arm in against]
    return found


def _part(name: str, key: str, test: Test, against: str, preset: Steps) -> Part:
    primary, outcome = test.primary and against == INTACT, OUTCOMES[test.metric]
    smallest, per = SMALLEST[test.metric], "" if test.metric == FINAL else " per token"
    than = "the intact model" if against == INTACT else "random other keys cut"
    return Part(
        key=name,
        name=f"{outcome}: {test.kind}" + ("" if against == INTACT else ", beyond random other keys"),
        role="paper" if primary else "control" if against != INTACT else "ours",
        source="section 4.3, observation 1: real-world CoT data also exhibits sparse sequential dependence"
        if primary
        else "",
        primary=primary,
        quantity=f"log-probability of the {outcome}, nats{per}: {than} minus distant edges {test.kind} cut",
        estimate=partial(lost, key=key, against=against),
        direction="above",
        threshold=smallest,
        why=f"a loss below {smallest:g} nats{per} would not matter: it changes a probability by a factor of "
        f"{np.exp(smallest):.2f}",
        unit=unit_of(preset.data),
        note=partial(_means, key=key),
    )


def lost(found: Mapping[str, pd.DataFrame], level: float, *, key: str, against: str) -> Interval | NotMeasurable:
    """The mean log-probability that is lost by cutting the kind's edges, against the intact model or the control."""
    table = found[key]
    return mean_over_problems(table[against] - table["target"], level)


def _means(found: Mapping[str, pd.DataFrame], key: str) -> str:
    mean = found[key].mean()
    return (
        f"intact {mean[INTACT]:.2f}; cut {mean['target']:.2f}, control {mean['control']:.2f}, all edges of the kind "
        f"cut {mean['full']:.2f}; {len(found[key])} problems"
    )


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """The intact model, and the kinds and outcomes that are judged."""
    read = [(test.metric, test.kind) for test in TESTS.values()] + [(metric, INTACT) for metric in OUTCOMES]
    return rows[pd.MultiIndex.from_frame(rows[["metric", "condition"]]).isin(read)]


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The change from the intact model by every kind of knockout."""
    from interp.figures.interventions import change_forest

    rows = _with_edges(rows)
    panels = {}
    for metric, outcome in OUTCOMES.items():
        kinds = [test.kind for test in TESTS.values() if test.metric == metric]
        unit = "" if metric == FINAL else ", per token"
        panels[f"{outcome}{unit}"] = change_intervals(by_problem(rows, metric), kinds, ARMS, INTACT)
    return {"knockouts": change_forest(panels)}


def _world(
    target: Mapping[str, float], control: Mapping[str, float]
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which a test's edges cost `target` nats and their controls `control`, more in some templates."""
    limit = PRESETS["cpu"].limit
    assert limit is not None
    units = built_in(limit)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        spread = np.exp(deviations(generator, units, (len(TESTS), 2), 0.5, 0.3))
        spread /= np.exp((0.5**2 + 0.3**2) / 2)  # of mean 1
        values = {metric: {(INTACT, INTACT, 0): np.full(len(units), -1.0)} for metric in OUTCOMES}
        for (key, test), (of_target, of_control) in zip(TESTS.items(), spread):
            of = values[test.metric]
            own = generator.normal(0, 0.02, len(units))
            of[test.kind, "target", 0] = own - 1.0 - target[key] * of_target
            of[test.kind, "control", 0] = -1.0 - control[key] * of_control
            of[test.kind, "full", 0] = of[test.kind, "target", 0] - 0.5
        return simulated_log_probs(units, values)

    return rows


_MARGIN = {key: SMALLEST[test.metric] for key, test in TESTS.items()}
_LARGE = {key: 10 * margin for key, margin in _MARGIN.items()}
_NONE = dict.fromkeys(TESTS, 0.0)
_OVER = [f"{key}_over" for key, test in TESTS.items() if not test.mirrored]
WORLDS = (
    World("a loss at the margin", dict.fromkeys((*TESTS, *_OVER), False), _world(_MARGIN, _NONE)),
    World(
        "any distant keys matter as much",
        dict.fromkeys(TESTS, True) | dict.fromkeys(_OVER, False),
        _world(_LARGE, _LARGE),
    ),
    World(
        "only the other keys matter, so that tests against a control mirror them",
        dict.fromkeys((*TESTS, *_OVER), False),
        _world(_NONE, _LARGE),
    ),
    World("steps and answer use what they look at", dict.fromkeys((*TESTS, *_OVER), True), _world(_LARGE, _NONE)),
)


register(
    Claim(
        id=ID,
        sentence=(
            "CoT introduces sparse sequential dependencies. Beyond the paper: each step is computed from the steps "
            "before it and from the question, and the model attends there because it uses them."
        ),
        method=(
            "While the model reads a worked solution, attention from the answer or the steps to earlier steps, or to "
            "the question, is cut in all layers and heads, except to the four tokens before a query and to the first "
            "token. The loss of log-probability of the final answer, and of the numbers in later steps, is measured "
            "against the intact model and against random other keys cut at the same queries, paired by problem. "
            f"{CLUSTERED}"
        ),
        scale={
            "smoke": Scale("another model", "a test of the code: a tiny model with fresh weights, 4 problems"),
            "cpu": Scale("another model", "SmolLM2-135M-Instruct for Qwen2-7B, 40 GSM-symbolic problems for GSM8K"),
            "paper": Scale("the paper's own numbers", "its model and data; the experiment is ours"),
        },
        finding=(
            "On this model, cutting the answer's attention to the steps costs {answer_steps} nats of the final "
            "answer; cutting the steps from earlier ones costs {steps_steps} nats per token of later steps' numbers, "
            "and {steps_steps_over} more than cutting random other keys does."
        ),
        deviations=(
            "The paper has no such experiment; it measures Qwen2-7B on GSM8K, which is the paper preset's model and "
            "data. cpu: the built-in SmolLM2-135M-Instruct on GSM-symbolic problems. smoke: a tiny model with fresh "
            "weights, which tests the code, not the claim. The claim is about CoT text in general, so it should show "
            "in a small model too, if that model uses CoT text at all. Control keys are drawn from all other keys, "
            "not from spans like those that are cut."
        ),
        clarity=(
            "The paper infers sequential dependence from attention entropy and calls it hard to measure directly; it "
            "does not say which tokens a step depends on. That the answer uses the steps, and steps earlier ones, is "
            "the least that it can mean; this test of it is ours. The given text restates every result, so that "
            "little loss can also mean that the model copies it from nearby."
        ),
        history=(
            "Before the parts were declared, every kind was judged against its control alone, at a level corrected "
            "for seven tests: edges to the question mirrored edges to the steps, of which each was the other's "
            "control, so that one effect counted twice. Problems of one template were taken as independent. That the "
            "small model does not expect GSM8K's `#### N` was seen on intact text, before any knockout but one "
            "problem's. On 40 problems of GSM8K's test set the comparisons with controls had the same outcomes, "
            "except that of the numbers inside the steps, which was inconclusive."
        ),
        presets=PRESETS,
        items=items,
        measure=measure_shard,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        published=published,
        figures=figures,
    )
)
