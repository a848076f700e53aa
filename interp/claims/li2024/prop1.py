"""li2024, Proposition 1: does the trained model look at its step's examples of its pattern, and get every step right?

Attention on S_k and the error are measured at each step k, on unseen tasks with errors and noise: with noise as long
as (14) allows, sqrt(2)/2, and with testing patterns that lean out of the span of the training patterns, which (22)
excludes. Along the training the attention that is left elsewhere is compared with the loss: Proposition 1 has the
same epsilon for both, while in the proof of Theorem 1 the loss is the square of what is left, (47) and (51).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from interp.claims.li2024._runs import NOISE, generators, seeds_of
from interp.claims.li2024._steps import (
    along_note,
    by_step_note,
    largest_error,
    least_mass,
    loss_power,
    mean_mass,
    summary,
)
from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.loops import loop, nested
from interp.core.parts import Part
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from toy_models.incontext.errors import Errors
    from toy_models.incontext.exam import Scores
    from toy_models.incontext.space import Space

ID = "li2024/prop1"
EPSILON, LOW = 0.05, 0.02
"""What may be left of the attention; the error that counts as close to zero."""
LONGEST = round(math.sqrt(2) / 2, 6)
NOISES = (0.0, NOISE, 0.5, LONGEST, 1.0)
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the squared length of the testing patterns in the span of the training patterns."""
TAU, RHO = 0.5, 0.8


@dataclass(frozen=True)
class Prop1:
    """One model for each seed."""

    noises: tuple[float, ...]
    shares: tuple[float, ...]
    n_examples: int
    n_queries: int
    seeds: int
    first_unit: int = 0
    alpha: float = 0.8
    """Of the testing prompts, the paper's."""
    alpha_span: float = 0.4
    """Of those whose patterns lean out of the span: with 0.8 the query's pattern has most of the columns anyway."""
    eta: float = 10.0
    iterations: int = 800
    points: int = 20


CHUNK = 500
"""Queries of a seed examined at once: with 20 seeds and 160 examples their noise takes 1 GB."""
PRESETS = {
    "smoke": Prop1((NOISE, LONGEST), (0.0, 1.0), n_examples=20, n_queries=40, seeds=2, iterations=60, points=10),
    "cpu": Prop1(NOISES, SHARES, n_examples=160, n_queries=500, seeds=8),
    "paper": Prop1(NOISES, SHARES, n_examples=160, n_queries=10_000, seeds=20, eta=0.9, iterations=9000),
}


def items(preset: Prop1) -> list[Item]:
    """All noises, all shares."""
    common = {
        "n_examples": preset.n_examples, "n_queries": preset.n_queries, "eta": preset.eta,
        "iterations": preset.iterations, "points": preset.points, "seeds": list(seeds_of(preset)),
    }  # fmt: skip
    varied = {"noise": (preset.noises, preset.alpha), "span": (preset.shares, preset.alpha_span)}
    return [
        Item(name, {"varied": name, "values": list(values), "alpha": alpha, **common})
        for name, (values, alpha) in varied.items()
    ]


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Attention on S_k and errors by step, and with varied noise the curves along the training."""
    from toy_models.incontext.errors import Errors
    from toy_models.incontext.exam import Exam, Scores, attention_kinds
    from toy_models.incontext.training import Setup, sgd

    p = item.parameters
    setup = Setup(d_x=40, eta=p["eta"], iterations=p["iterations"])
    space, training = setup.spaces(generators(p["seeds"], "space")), generators(p["seeds"], "train")
    errors = Errors.of(TAU, RHO, setup.n_steps, setup.n_testing, "even")
    keep = sorted({*np.geomspace(20, p["iterations"], p["points"]).round().astype(int).tolist()})
    common = {"run": item.name, "condition": "cot", "unit": [str(seed) for seed in p["seeds"]]}
    tables, initial = [], setup.initial(training)
    weights = initial
    exam = Exam.draw(100, 20, p["alpha"], errors, NOISE, space, generators(p["seeds"], "labels"))
    for update, weights, loss in sgd(setup, space, initial, training, keep):
        mass = attention_kinds(Scores.of(setup, space, weights), exam)[0].mean(-1)
        if p["varied"] == "noise":
            tables += [
                table(metric=metric, value=values.tolist(), update=update, scope="train", n_tokens=100, **common)
                for metric, values in (("mass", mass), ("loss", loss))
            ]
    for x in p["values"]:
        place = space if p["varied"] == "noise" else space.leaning(x)
        noise = x if p["varied"] == "noise" else NOISE
        measured = examined(Scores.of(setup, place, weights), errors, noise, place, p)
        tables += [
            table(
                metric=metric, value=values[:, k].tolist(), scope="test", n_tokens=p["n_queries"],
                setting=setting(varied=p["varied"], x=x, step=k + 1), **common,
            )
            for metric, values in measured.items()
            for k in range(setup.n_steps)
        ]  # fmt: skip
    return concat(tables)


def examined(
    scores: "Scores", errors: "Errors", noise: float, space: "Space", p: Mapping[str, Any]
) -> dict[str, "Tensor"]:
    """By seed and step: the attention on S_k, and the share of wrong outputs."""
    from toy_models.incontext.exam import Exam, attention_kinds, cot_answers

    streams, measured = generators(p["seeds"], "exam"), {}
    for start in range(0, p["n_queries"], CHUNK):
        n = min(CHUNK, p["n_queries"] - start)
        exam = Exam.draw(n, p["n_examples"], p["alpha"], errors, noise, space, streams)
        wrong = (cot_answers(scores, exam, [p["n_examples"]])[0] != exam.prompts.query[..., 1:]).double().mean(1)
        for metric, found in (("mass", attention_kinds(scores, exam)[0]), ("step_error", wrong)):
            measured[metric] = measured.get(metric, 0) + found * (n / p["n_queries"])
    return measured


def parts(preset: Prop1) -> list[Part]:
    """Attention and outputs at every step, with the paper's noise and the longest; the span; one epsilon or two."""
    dominant = "1 - epsilon with epsilon = 0.05, at every step: what counts as vanished in li2024/fig5"
    zero = f"the error is zero: at most {100 * LOW:g} answers in a hundred are wrong, at every step"
    said = "Proposition 1, "
    bound = f"; (14): noise up to sqrt(2)/2 = {LONGEST:.3f}"
    return [
        _mass("mass", "attention is on the query's pattern at every step", f"{said}(10)", NOISE, dominant),
        _error("outputs", "every step is right", f"{said}(11)", NOISE, zero),
        _mass("noise_mass", "so it is with the longest noise", f"{said}(10){bound}", LONGEST, dominant),
        _error("noise_outputs", "every step is right with the longest noise", f"{said}(11){bound}", LONGEST, zero),
        Part(
            key="epsilon",
            name="attention elsewhere is of the order of the loss",
            role="paper",
            source="Proposition 1 (10) with Theorem 1 (19): one epsilon for both",
            quantity="exponent q of 1 - attention ~ loss^q along the later training, mean over seeds",
            estimate=loss_power,
            direction="within",
            threshold=1.0,
            margin=0.25,
            why="1 if both are of order epsilon, 1/2 by (47) and (51): nearer to 1",
            unit="seeds",
        ),
        Part(
            key="outside",
            name="outside the span of the training patterns attention does not find the query's pattern",
            role="ours",
            quantity="attention on S_k, mean over steps, testing patterns orthogonal to the training patterns",
            estimate=partial(mean_mass, condition="span", x=0.0),
            direction="below",
            threshold=0.5,
            why="not dominant: less than on all other columns together, where the query's pattern has 0.4 of the "
            "examples",
            unit="seeds",
            note=partial(along_note, condition="span", what="mass"),
        ),
        Part(
            key="inside",
            name="inside the span attention finds the query's pattern in the same prompts",
            role="control",
            quantity="attention on S_k, mean over steps, testing patterns in the span of the training patterns",
            estimate=partial(mean_mass, condition="span", x=1.0),
            direction="above",
            threshold=0.5,
            why="dominant, with as few examples of the query's pattern (0.4) as outside: what is missing there is "
            "the span",
            unit="seeds",
        ),
    ]


def _mass(key: str, name: str, source: str, noise: float, why: str) -> Part:
    return Part(
        key=key, name=name, role="paper", source=source, primary=True,
        quantity=f"attention on S_k with noise of {noise:.3g}: least of the steps, mean over seeds",
        estimate=partial(least_mass, condition="noise", x=noise), direction="above", threshold=1 - EPSILON, why=why,
        unit="seeds", note=partial(by_step_note, condition="noise", x=noise, what="mass"),
    )  # fmt: skip


def _error(key: str, name: str, source: str, noise: float, why: str) -> Part:
    return Part(
        key=key, name=name, role="paper", source=source, primary=True,
        quantity=f"error of step k with noise of {noise:.3g}: largest of the steps, mean over seeds",
        estimate=partial(largest_error, condition="noise", x=noise), direction="below", threshold=LOW, why=why,
        unit="seeds", note=partial(by_step_note, condition="noise", x=noise, what="error"),
    )  # fmt: skip


def _world(
    last: float, error: float, outside: float, power: float, inside: float
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows with this attention and error at the last step (better before), and attention outside the span and in."""
    cpu = PRESETS["cpu"]
    units = [str(seed) for seed in range(cpu.seeds)]

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        tables = []
        for varied, values in (("noise", cpu.noises), ("span", cpu.shares)):
            for x in values:
                for step in (1, 2, 3):
                    of_noise = last if step == 3 else (1 + last) / 2
                    centre = (1 - x) * outside + x * inside if varied == "span" else of_noise
                    mass = np.clip(generator.normal(centre, 0.003, cpu.seeds), 0, 1)
                    wrong = generator.binomial(cpu.n_queries, error if step == 3 else error / 2, cpu.seeds)
                    place = setting(varied=varied, x=x, step=step)
                    common = {"run": varied, "condition": "cot", "scope": "test", "unit": units, "setting": place}
                    tables += [
                        table(metric="mass", value=mass, n_tokens=cpu.n_queries, **common),
                        table(metric="step_error", value=wrong / cpu.n_queries, n_tokens=cpu.n_queries, **common),
                    ]
        for update in np.geomspace(20, cpu.iterations, cpu.points).round():
            loss = 0.5 / update * np.exp(generator.normal(0, 0.05, cpu.seeds))
            common = {"run": "noise", "condition": "cot", "scope": "train", "unit": units, "update": update}
            left = np.clip(loss**power * np.exp(generator.normal(0, 0.05, cpu.seeds)), 0, 1)
            tables += [table(metric="loss", value=loss, **common), table(metric="mass", value=1 - left, **common)]
        return concat(tables)

    return rows


WORLDS = (
    World(
        "as the proposition has it",
        dict.fromkeys(("mass", "outputs", "noise_mass", "noise_outputs", "epsilon", "outside", "inside"), True),
        _world(0.98, 0.001, 0.35, 1.0, inside=0.94),
    ),
    World(
        "the last step is as bad as the thresholds, the others are good",
        dict.fromkeys(("mass", "outputs", "noise_mass", "noise_outputs", "epsilon", "outside", "inside"), False),
        _world(1 - EPSILON, LOW, 0.5, 0.75, inside=0.5),
    ),
)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Attention on S_k by step against noise and span, and what is left of it against the loss."""
    from interp.claims.li2024._training_figures import step_attention

    return {"steps": step_attention(summary(rows), EPSILON, LONGEST)}


register(
    Claim(
        id=ID,
        sentence=(
            "At every step k the trained model has at least 1 - epsilon of its attention on the examples' columns of "
            "step k that share the query's pattern, and its output is right, for testing patterns in the span of the "
            "training patterns and noise up to sqrt(2)/2."
        ),
        method=(
            "A theory model is trained for each seed and examined on unseen tasks with 160 examples, errors in every "
            f"step (tau = {TAU:g}, rho = {RHO:g}) and noise of several lengths. Attention on S_k and the error of "
            "step k are taken at each step, and the worst step is judged. Testing patterns that lean out of the "
            "span of the training patterns are tried too. Along the training, attention elsewhere is compared with "
            "the loss."
        ),
        falls_short=(
            "One epsilon for attention and loss, as Proposition 1 and Theorem 1 have it, is refuted, and does not "
            "decide (see below); what decides is attention and output at the end of training."
        ),
        deviations=(
            "The paper gives no numbers for Proposition 1. d = 40 instead of 30, so that patterns outside the span "
            "fit; for these alpha' = 0.4, as in training. The model is trained with steps of 10 for 800 updates; "
            "li2024/thm1 compares steps of 10 with steps below 1. Prompts have 20 examples in training and 160 in "
            "testing. cpu: 8 seeds of 500 queries. paper: 20 seeds of 10,000, steps of 0.9. The smoke preset is far "
            "smaller still: it tests the code, not the claim."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: 60 updates, 2 seeds of 40 queries"),
            "cpu": Scale(
                "smaller",
                "the paper's M, M', K, alpha, errors and noise, but d = 40, steps of 10 where the theorem asks for "
                "less than 1, and 160 examples in a prompt after 20 in training; 8 seeds of 500 queries",
            ),
            "paper": Scale(
                "smaller",
                "the paper's M, M', K, alpha, errors and noise, but d = 40, and 160 examples in a prompt after 20 in "
                "training; steps of 0.9, 20 seeds of 10,000 queries",
            ),
        },
        presets=PRESETS,
        loops=(
            loop("iterations", "iterations", least=40),
            loop("points", "measurements", least=3, alone=False),
            nested("values", "n_queries", "queries of all exams", least=CHUNK),
        ),
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        finding=(
            "At the step where it is least, attention on the query's pattern and step is {mass} with the paper's "
            "noise and {noise_mass} with the longest; with alpha' = 0.4 it is {outside} outside the span of the "
            "training patterns and {inside} inside. Along the training the attention elsewhere falls as the power "
            "{epsilon:.2f} of the loss."
        ),
        worlds=WORLDS,
        clarity=(
            "Proposition 1 does not say that its epsilon is Theorem 1's, but refers to a model trained by its "
            "conditions; the proof of Theorem 1 makes (1 - p)^2 small, not 1 - p. (22) is a condition that suffices: "
            "what happens outside the span is our question."
        ),
        history=(
            "A first run of this size had alpha' = 0.4 throughout: attention was 0.956, 0.942 and 0.926 at the three "
            "steps. How much is left depends on how long a model is trained, for which the proposition has an "
            "epsilon and no constant; alpha' = 0.8 is the paper's. In a published exploratory run with it (seeds 0 "
            "to 7) the least attention was 0.972 and the power of the loss 0.48; outside the span it was 0.331, "
            "inside 0.941. Then a review asked for the attention inside the span at the same alpha' as a control."
        ),
        figures=figures,
    )
)
