"""li2024, Lemmas F.5 and F.7: is the gradient where the proof of Theorem 1 has it, in either stage of training?

The lemmas bound p'^T G p for columns p and p' that share pattern and step, one of them, or neither, by expressions in
p_n(t), the attention on the query's pattern and step. Here G is the gradient on fresh prompts along the training, and
p_n(t) is measured on the same prompts, so that both sides of every inequality are numbers. Lemma F.5 holds up to the
order of T_1 and Lemma F.7 from T_1 on; training goes on to twice T_1 at K = 3.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.li2024._gradients import EPSILON, KINDS, NUMBERS, first_time, share_bounded, summary, worst_note
from interp.claims.li2024._runs import MEASURED, generators, seeds_of
from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.parts import Part
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "li2024/lemmas"
MOST = 0.5
"""The share of seeds in which an inequality has to hold."""
NAMES = {
    "same": "the same pattern and step", "other_step": "the same pattern and another step",
    "other_pattern": "another pattern and the same step", "other_both": "another pattern and step",
}  # fmt: skip
PAPER = 3
"""K of the paper's experiments; K = 2 beside it, where 1/(2M) of (36) and 1/(KM) of (30) agree."""


@dataclass(frozen=True)
class Lemmas:
    """One model for each seed and number of steps."""

    steps: tuple[int, ...]
    iterations: int
    eta: float
    seeds: int
    first_unit: int = 0
    rows: int = 200
    """Prompts on which the gradient is measured."""
    points: int = 30


PRESETS = {
    "smoke": Lemmas((2, 3), iterations=80, eta=8.0, seeds=2, rows=40, points=12),
    "cpu": Lemmas((2, 3), iterations=1300, eta=0.9, seeds=10, points=40),
    "paper": Lemmas((2, 3), iterations=12_000, eta=0.5, seeds=50, rows=2000, points=60),
}


def items(preset: Lemmas) -> list[Item]:
    """One number of steps each, of all seeds."""
    return [
        Item(
            f"steps={k}",
            {
                "k": k, "iterations": preset.iterations, "eta": preset.eta, "rows": preset.rows,
                "points": preset.points, "seeds": list(seeds_of(preset)),
            },
        )
        for k in preset.steps
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Gradients by kind of pair, the lemmas' bounds and the attention on other steps, along the training."""
    from dataclasses import replace

    from toy_models.incontext.dynamics import attention_masses, lemma_bounds, pair_gradients
    from toy_models.incontext.training import Setup, loss_and_gradient, sgd, training_prompts

    p = item.parameters
    setup = Setup(n_steps=p["k"], eta=p["eta"], iterations=p["iterations"])
    space = setup.spaces(generators(p["seeds"], "space"))
    prompts = next(training_prompts(replace(setup, rows=p["rows"]), generators(p["seeds"], "exam")))
    basis, training = setup.features(space.training, space), generators(p["seeds"], "train")
    t1 = first_time(p["k"], setup.eta, setup.alpha)
    keep = sorted(measured_at(p["iterations"], p["points"], t1))
    common = {"run": item.name, "condition": "cot", "unit": [str(seed) for seed in p["seeds"]], "scope": "train"}
    tables = []
    for update, weights, _ in sgd(setup, space, setup.initial(training), training, keep):
        by_features = basis @ weights @ basis.mT
        _, gradient = loss_and_gradient(by_features, prompts)
        same, others = attention_masses(by_features, prompts)
        measured = {f"gradient_{kind}": value for kind, value in pair_gradients(gradient, p["k"]).items()}
        measured |= lemma_bounds(same, setup.alpha, setup.n_training)
        measured |= {"other_step_mass": others.mean((1, 2)), "same_mass": same.mean((1, 2))}
        tables += [
            table(
                metric=metric, value=values.tolist(), update=update, n_tokens=p["rows"] * p["k"],
                setting=setting(k=p["k"], t1=round(t1, 3)), **common,
            )
            for metric, values in measured.items()
        ]  # fmt: skip
    return concat(tables)


def measured_at(iterations: int, points: int, t1: float) -> set[int]:
    """The updates at which gradients are measured: evenly in log time, and on either side of T_1."""
    found = {*np.geomspace(1, iterations, points).round().astype(int).tolist()}
    return found | {n for n in (math.floor(t1), math.ceil(t1)) if 1 <= n <= iterations}


def parts(preset: Lemmas) -> list[Part]:
    """The inequalities of Lemma F.5 up to T_1 and those of Lemma F.7 from T_1 on; then split by attention."""
    second = {"f7_same": ("same", "(36)"), "f7_other_pattern": ("other_pattern", "(38)")}
    two = "whether the 1/2 of (36) was meant for K = 2, where it is the 1/K of (30)"
    return [
        *(_bounded(f"f5_{k}", f"({NUMBERS[k]}) up to T_1", "Lemma F.5", k, "first", primary=True) for k in KINDS),
        *(
            _bounded(key, f"{number} from T_1 on", "Lemma F.7", kind, "second", key, primary=key == "f7_same")
            for key, (kind, number) in second.items()
        ),
        _bounded("f7_two_steps", "(36) from T_1 on, K = 2", "", "same", "second", "f7_same", k=2, why=two),
        _bounded(
            "f7_repaired", "(36) from T_1 on with 1/(KM) for 1/(2M)", "", "same", "second", "f7_same_k",
            why="(30), from which (36) is made, has 1/(KM)",
        ),
        *(_by_attention(f"early_{k}", f"({NUMBERS[k]})", k, "first", "") for k in KINDS),
        *(
            _by_attention(key.replace("f7", "late"), number, kind, "second", key)
            for key, (kind, number) in second.items()
        ),
    ]  # fmt: skip


def _by_attention(key: str, number: str, kind: str, stage: str, bound: str) -> Part:
    when = f"{'until' if stage == 'first' else 'once'} other steps have less than {EPSILON:g} of the attention"
    why = "the stages as Lemma F.6 describes them, whatever the constant of T_1 is"
    return _bounded(key, f"{number} {when}", "", kind, stage, bound, split="attention", why=why)


def _bounded(
    key: str,
    name: str,
    source: str,
    kind: str,
    stage: str,
    bound: str = "",
    *,
    primary: bool = False,
    k: int = PAPER,
    split: str = "time",
    why: str = "stated of every update of the stage; with a high probability: in most models",
) -> Part:
    chosen = {"kind": kind, "k": k, "stage": stage, "split": split, "bound": bound}
    return Part(
        key=key,
        name=f"the gradient between columns of {NAMES[kind]} obeys {name}",
        role="paper" if source else "ours",
        source=source,
        primary=primary,
        quantity="share of seeds in which the inequality holds at every measured update of the stage",
        estimate=partial(share_bounded, **chosen),
        direction="above",
        threshold=MOST,
        why=why,
        unit="seeds",
        note=partial(worst_note, **chosen),
    )


def _world(chance: float, where: Callable[[int, np.ndarray], np.ndarray]) -> Callable[..., pd.DataFrame]:
    """Rows in which, with this chance, a seed's gradients are outside all bounds, at the updates `where` says for K.

    Attention leaves the other steps after some 100 updates.
    """
    cpu = PRESETS["cpu"]
    units = [str(seed) for seed in range(cpu.seeds)]

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        tables = []
        for k in cpu.steps:
            t1 = first_time(k, cpu.eta, 0.4)
            updates = np.array(sorted(measured_at(cpu.iterations, cpu.points, t1)), float)
            mass = np.clip(0.67 * np.exp(-updates / 50), 0.004, None)[:, None].repeat(cpu.seeds, 1)
            outside = (generator.random(cpu.seeds) < chance) * where(k, updates)[:, None]
            size = 0.01 * (1 + 0.1 * generator.normal(size=mass.shape))
            values = {"other_step_mass": mass, "same_mass": 1 - mass, "gradient_same": -size + outside}
            values |= {n: np.full_like(mass, -0.005) for n in ("f5_same", "f7_same", "f7_same_k")}
            values |= {f"f5_{n}_low": np.full_like(mass, -0.02) for n in KINDS[1:]}
            values |= {f"f5_{n}_high": np.full_like(mass, 0.02) for n in KINDS[1:]}
            values |= {"f7_other_pattern": np.full_like(mass, 0.02)}
            values |= {f"gradient_{n}": size + outside for n in KINDS[1:]}
            tables += [
                table(
                    run=f"steps={k}", condition="cot", scope="train", metric=name, value=value.ravel(),
                    unit=np.tile(units, len(updates)), update=np.repeat(updates, cpu.seeds),
                    setting=setting(k=k, t1=round(t1, 3)),
                )
                for name, value in values.items()
            ]  # fmt: skip
        return concat(tables)

    return rows


def _once_in_either(k: int, updates: np.ndarray) -> np.ndarray:
    return np.isin(np.arange(len(updates)), (5, len(updates) - 2)).astype(float)


def _between(k: int, updates: np.ndarray) -> np.ndarray:
    """After attention has left the other steps and before T_1, which at K = 2 is too close to it."""
    return ((updates > 150) & (updates < 600) & (k == PAPER)).astype(float)


BY_TIME = (*(f"f5_{kind}" for kind in KINDS), "f7_same", "f7_other_pattern", "f7_two_steps", "f7_repaired")
EARLY, LATE = tuple(f"early_{kind}" for kind in KINDS), ("late_same", "late_other_pattern")
WORLDS = (
    World("the inequalities hold", dict.fromkeys((*BY_TIME, *EARLY, *LATE), True), _world(0.0, _once_in_either)),
    World(
        "a coin decides in each model whether they fail at one update of either stage",
        dict.fromkeys((*BY_TIME, *EARLY, *LATE), False),
        _world(0.5, _once_in_either),
    ),
    World(
        "they fail between the time at which attention has left the other steps and T_1",
        {
            **dict.fromkeys(BY_TIME, True), **{f"f5_{kind}": False for kind in KINDS}, **dict.fromkeys(EARLY, True),
            **dict.fromkeys(LATE, False),
        },
        _world(1.0, _between),
    ),
)  # fmt: skip


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Gradients and bounds along the training, one panel for each kind of pair."""
    from interp.claims.li2024._training_figures import gradients

    return {"gradients": gradients(rows, PAPER)}


register(
    Claim(
        id=ID,
        sentence=(
            "Up to the order of T_1 = eta^-1 alpha^-2 K^3 log(K/epsilon) updates the gradient between columns is "
            "bounded as in (30) to (33), so that attention leaves the other steps; from T_1 on as in (36) and (38), "
            "so that it turns to the query's pattern."
        ),
        method=(
            "Theory models are trained by SGD with steps of 0.9. Along the training the gradient on 200 fresh "
            "prompts is projected on pairs of columns that share pattern and step, one of them, or neither, "
            "averaged over such pairs; the lemmas' bounds are computed from the attention of the same queries. The "
            f"stages meet at T_1 with a constant of 1 and epsilon = {EPSILON:g} (638 updates at K = 3, 166 at K = "
            "2). An inequality holds in a model if it does at every measured update of its stage. As readings of "
            "ours the inequalities are judged too with stages that meet where the attention on other steps falls "
            f"below {EPSILON:g}, which Lemma F.6 says of T_1."
        ),
        falls_short=(
            "Orders without constants are judged with a constant of 1, and 'up to the order of T_1' as up to T_1: of "
            "what fails, (31) and (33) would hold up to a fifth of it."
        ),
        deviations=(
            "The paper has no such experiment. The lemmas are about any column of a prompt; here it is the mean over "
            "columns of a kind, outputs being averaged over since tasks change from prompt to prompt. (37) and (39) "
            "are not judged: with the attention on other steps for their epsilon, as in (35), the gradient is less "
            "than a fifth of it at every update of either second stage, so that they could not fail. M = 20 where "
            "the proofs want M of the order of K^4 / alpha. cpu: 10 seeds, 1300 updates. paper: 50 seeds, 2000 "
            "prompts, 12,000 updates. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: 80 updates of size 8, 2 seeds"),
            "cpu": Scale("the paper's own numbers", "d = 30, M = 20, K = 3, alpha = 0.4; 10 seeds"),
            "paper": Scale("the paper's own numbers", "d = 30, M = 20, K = 3, alpha = 0.4; 50 seeds"),
        },
        presets=PRESETS,
        loops=MEASURED,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        finding=(
            "Up to T_1, with a constant of 1, (30) to (33) hold in {f5_same:.0%}, {f5_other_step:.0%}, "
            "{f5_other_pattern:.0%} and {f5_other_both:.0%} of {f5_same.n} models, and until attention has left the "
            "other steps in {early_same:.0%}, {early_other_step:.0%}, {early_other_pattern:.0%} and "
            "{early_other_both:.0%}; from T_1 on (36) holds in {f7_same:.0%} as printed and in {f7_repaired:.0%} "
            "with 1/(KM) in place of 1/(2M), (38) in {f7_other_pattern:.0%}."
        ),
        worlds=WORLDS,
        clarity=(
            "Lemma F.5 holds up to O(T_1), an order without a constant, and epsilon is free. In ten exploratory "
            "models with K = 3 (31), (33) and (38) depend on the constant: (31) holds to 277 updates and fails from "
            "353 on, (33) holds to 133 and fails from 170 on, (38) fails to 353 and holds from 451 on, where T_1 is "
            "638 with a constant of 1 and attention leaves the other steps at 104. (30), (32) and (36) do not: the "
            "first two held at every update, and (36) fails from 170 updates on to the end of training. A constant "
            "of 0.2 would save (31) and (33) and lose (38), which is asked for from T_1 on. (36) and (38) have a "
            "factor 1/(2M) where (30) and (32), from which they are made, have 1/(KM). The statement (30) and its "
            "proof (109) differ in a power of K in one term; the statement is tested. The proofs of Lemma F.7 have "
            "orders where its statement has inequalities. Theorem 1 needs orders alone, so a constant that is wrong "
            "does not touch it."
        ),
        history=(
            "Two seeds below 1000 were looked at before parts were declared, then ten seeds (0 to 9) at K = 2 and 3 "
            "were run and published as exploratory, with stages that met where the attention on other steps fell "
            "below 0.1, a boundary of our own: (30) to (33) held in ten of ten, (36) and (38) in none, at K = 2 (36) "
            "in none, with 1/(KM) in ten of ten; (37) and (39) held in all. A review noted that this boundary, at "
            "some 100 updates, decided verdicts where the paper has T_1, 638: stages now meet at T_1, and the "
            "old boundary is ours. On the same ten seeds the new parts come out as clarity says, so their verdicts "
            "were foreseen. (37) and (39) were dropped because they could not fail. Training was 1200 updates and is "
            "now 1300, twice T_1. (38) was primary until at most five parts were."
        ),
        figures=figures,
    )
)
