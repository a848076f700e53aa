"""li2024, Theorem 1: how many updates, context examples and samples does training need?

T of (18) has three terms: T_1 ~ alpha^-1 K^3 log(K/epsilon) for leaving the other steps (Lemma F.6 has alpha^-2
there), T_2 ~ M K alpha^-1 for turning to the query's pattern, and T_3 ~ M K / epsilon for the rest, all over the step
size. One quantity at a time is varied around the paper's sizes, with steps below 1.

What to expect: the pull on the query's step is proportional to alpha - 1/M, because the label appears at other steps
by chance, in 1/M of the columns; so T_1 ~ 1/alpha where alpha is well above 1/M. At the end 1 - p_n falls as
t^(-1/2), whatever alpha is, so that T ~ M / epsilon.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from interp.claims.li2024._runs import generators, seeds_of
from interp.claims.li2024._thm1_parts import parts as parts_of
from interp.claims.li2024._training import GONE, LEVELS, summary
from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.parts import Part
from interp.statistics.interval import Number
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "li2024/thm1"
BASE = {"alpha": 0.4, "n_training": 20, "n_steps": 3, "n_examples": 20, "rows": 20, "eta": 0.9}


@dataclass(frozen=True)
class Thm1:
    """Settings by line: what varies, its value, how many updates, and what differs from BASE."""

    settings: tuple[tuple[str, Number, int, tuple[tuple[str, Number], ...]], ...]
    seeds: int
    first_unit: int = 0
    points: int = 60


def _settings(budget: int, lines: Mapping[str, tuple[Number, ...]], eta: float = 0.9) -> tuple[Any, ...]:
    """Budgets in updates of size `eta`, longer where more are needed."""
    found: list[Any] = [("base", 1.0, budget, {})]
    for alpha in lines["alpha"]:
        longer = min(1.7, 0.9 + 0.08 / alpha)
        found.append(("alpha", alpha, round(longer * budget), {"alpha": alpha, "n_training": 30, "rows": 30}))
    for m in lines["patterns"]:
        found.append(("patterns", round(1 / m, 6), round(budget * max(m / 20, 1)), {"n_training": m, "rows": m}))
    for k in lines["steps"]:
        found.append(("steps", round(1 / k, 6), round(budget * max(k / 3, 1)), {"n_steps": k}))
    for step in lines["eta"]:
        found.append(("eta", step, round(budget * eta / step), {"eta": step}))
    for rows in lines["batch"]:
        found.append(("batch", rows, budget, {"rows": rows}))
    for alpha in lines["length"]:
        found.append(("length", alpha, round(1.5 * budget), {"alpha": alpha, "n_examples": round(1 / alpha)}))
    return tuple((*setting, tuple({"eta": eta, **changes}.items())) for *setting, changes in found)


LINES = {
    "alpha": (0.1, 0.15, 0.25, 0.4, 0.6), "patterns": (10, 14, 20, 28, 40), "steps": (2, 3, 4, 6),
    "eta": (0.225, 0.45, 0.9, 10.0), "batch": (5, 20, 80), "length": (0.1, 0.2, 0.5),
}  # fmt: skip
FEW = {
    "alpha": (0.2, 0.6),
    "patterns": (10, 20),
    "steps": (2, 3),
    "eta": (8.0, 12.0),
    "batch": (5, 20),
    "length": (0.2, 0.5),
}
PRESETS = {
    "smoke": Thm1(_settings(80, FEW, eta=12.0), seeds=2, points=20),
    "cpu": Thm1(_settings(900, LINES), seeds=6),
    "paper": Thm1(
        _settings(10_000, {**LINES, "patterns": (10, 20, 40, 80, 160), "alpha": (0.05, *LINES["alpha"])}),
        seeds=20, points=120,
    ),
}  # fmt: skip


def items(preset: Thm1) -> list[Item]:
    """One setting each, of all seeds."""
    return [
        Item(
            f"{line}={value:g}",
            {
                "line": line, "x": value, "iterations": iterations, "setup": {**BASE, **dict(changes)},
                "seeds": list(seeds_of(preset)), "points": preset.points,
            },
        )
        for line, value, iterations, changes in preset.settings
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The loss on fresh prompts and the attention on other steps, along the training."""
    from dataclasses import replace

    from toy_models.incontext.dynamics import attention_masses
    from toy_models.incontext.training import Setup, loss_and_gradient, sgd, training_prompts

    p = item.parameters
    sizes = p["setup"]
    d_x = max(30, sizes["n_training"] + sizes["n_steps"])
    setup = Setup(**{**sizes, "d_x": d_x, "n_testing": min(10, sizes["n_training"])}, iterations=p["iterations"])
    space = setup.spaces(generators(p["seeds"], "space"))
    tested = replace(setup, rows=4 * setup.n_training)
    prompts = next(training_prompts(tested, generators(p["seeds"], "exam")))
    basis = setup.features(space.training, space)
    training = generators(p["seeds"], "train")
    keep = sorted({*np.geomspace(1, p["iterations"], p["points"]).round().astype(int).tolist()})
    units, tables = [str(seed) for seed in p["seeds"]], []
    place = setting(line=p["line"], x=p["x"], **sizes)
    common = {"run": item.name, "condition": "cot", "unit": units, "scope": "train", "setting": place}
    for update, weights, _ in sgd(setup, space, setup.initial(training), training, keep):
        by_features = basis @ weights @ basis.mT
        loss, _ = loss_and_gradient(by_features, prompts)
        measured = {"loss": loss, "other_step": attention_masses(by_features, prompts)[1].mean((1, 2))}
        tables += [
            table(metric=metric, value=values.tolist(), update=update, n_tokens=tested.rows * setup.n_steps, **common)
            for metric, values in measured.items()
        ]
    return concat(tables)


def parts(preset: Thm1) -> list[Part]:
    """The bound on T and what it is proportional to, the first stage, context examples, step size and batch."""
    return parts_of(BASE["n_steps"])


def _world(growth: Mapping[str, float], log_stage: bool = False) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which T grows with these exponents of 1/x along the lines; `levels` is that of 1/epsilon, `first` that
    of alpha in T_1. With `log_stage` attention leaves the other steps exponentially, else as a power of time."""
    cpu = PRESETS["cpu"]
    units = np.array([str(seed) for seed in range(cpu.seeds)], object)
    reference = {
        "alpha": 0.4,
        "patterns": 1 / 20,
        "steps": 1 / 3,
        "eta": 0.9,
        "batch": 20,
        "length": 0.2,
        "base": 1.0,
    }
    places = [setting(line=line, x=x, **{**BASE, **dict(changes)}) for line, x, _, changes in cpu.settings]
    grids = [np.unique(np.geomspace(1, n, cpu.points).round()) for _, _, n, _ in cpu.settings]
    sizes = [2 * len(updates) * cpu.seeds for updates in grids]

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        values = []
        for (line, x, _, _), at in zip(cpu.settings, grids):
            ratio, updates = reference[line] / x, at[:, None]
            spread = np.exp(generator.normal(0, 0.05, (2, cpu.seeds)))
            reach = 150 * ratio ** growth.get(line, 0.0) * spread[0]
            first = 40 * ratio ** (growth["first"] if line == "alpha" else growth.get(line, 0.0)) * spread[1]
            loss = np.minimum(0.4, LEVELS[-1] * (reach / updates) ** (1 / growth["levels"]))
            tail = 3 * (GONE / 3) ** (updates / first) if log_stage else GONE * first / updates
            values += [loss.ravel(), np.minimum(0.67, tail).ravel()]
        return table(
            run=np.repeat(np.array([f"{line}={x:g}" for line, x, _, _ in cpu.settings], object), sizes),
            condition="cot", scope="train", setting=np.repeat(np.array(places, object), sizes),
            metric=np.concatenate([np.repeat(["loss", "other_step"], n // 2) for n in sizes]).astype(object),
            unit=np.tile(units, sum(sizes) // cpu.seeds), value=np.concatenate(values), n_tokens=240,
            update=np.concatenate([np.tile(np.repeat(updates, cpu.seeds), 2) for updates in grids]),
        )  # fmt: skip

    return rows


STATED = {
    "alpha": 1.0,
    "patterns": 1.0,
    "steps": 2.0,
    "eta": 1.0,
    "batch": 0.0,
    "length": 0.0,
    "levels": 1.0,
    "first": 1.0,
}
WORLDS = (
    World(
        "as the theorem has it, linear in 1/alpha",
        {
            "within": True, "grows": True, "alpha_linear": True, "alpha_power": True, "length": True,
            "patterns_linear": True,
            "levels_linear": True, "t1_theorem": True, "t1_lemma": False, "t1_log": True, "eta": True, "batch": True,
        },
        _world(STATED, log_stage=True),
    ),
    World(
        "half-way to the next power everywhere",
        {
            "within": False, "alpha_linear": False, "alpha_power": False, "patterns_linear": False,
            "levels_linear": False,
            "t1_theorem": False, "t1_lemma": False, "t1_log": False, "eta": False, "batch": False,
        },
        _world({**STATED, "alpha": 1.5, "patterns": 1.25, "eta": 1.1, "batch": 0.1, "levels": 1.25, "first": 1.5}),
    ),
    World(
        "M and alpha do not matter at the end, and T_1 is the lemma's",
        {"within": True, "grows": False, "alpha_power": False, "t1_lemma": True, "t1_theorem": False},
        _world({**STATED, "alpha": 0.0, "patterns": 0.0, "first": 2.0}),
    ),
    World(
        "too few examples in half of the models",
        {"length": False},
        lambda generator: _half_fail(_world(STATED)(generator), generator),
    ),
)  # fmt: skip


def _half_fail(rows: pd.DataFrame, generator: np.random.Generator) -> pd.DataFrame:
    failed = [str(seed) for seed in range(PRESETS["cpu"].seeds) if generator.random() < 0.5]
    chosen = rows["run"].str.startswith("length") & rows["unit"].isin(failed) & (rows["metric"] == "loss")
    return rows.assign(value=rows["value"].where(~chosen, 0.3))


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """T against each quantity, and the loss and the attention on other steps along the training by alpha."""
    from interp.claims.li2024._training_figures import curves_by_alpha, times

    found = summary(rows)
    return {"times": times(found), "curves": curves_by_alpha(found)}


register(
    Claim(
        id=ID,
        sentence=(
            "With at least 1/alpha context examples, T ~ (alpha^-1 K^3 log(K/epsilon) + M K (1/alpha + 1/epsilon)) / "
            "eta updates suffice for a loss of epsilon; context examples, samples and updates required are linear in "
            "1/alpha."
        ),
        method=(
            "The theory model is trained by SGD with steps of 0.9 from the paper's sizes, one quantity at a time "
            f"being varied. T is the number of updates after which the loss on fresh prompts stays below "
            f"{LEVELS[-1]:g}, T_1 that after which the attention on other steps stays below {GONE:g}; their growth "
            "is the slope of log T over the log of the quantity, by seed. Whether 1/alpha context examples suffice "
            "is judged by whether the loss gets there."
        ),
        deviations=(
            "The paper has no such experiment. alpha is varied at M = 30, so that it is well above 1/M, the chance "
            "of a label at another step; the theorem's proof needs M of the order of K^4 / alpha. Batches have M "
            "prompts asked at all K steps, in which every pattern and step comes equally often; the theorem asks for "
            "epsilon^-2 log M. A number of context examples below 1/alpha cannot be made: at least one shares the "
            "query's pattern. cpu: 6 seeds. paper: 20 seeds, more patterns, a smaller alpha. The smoke preset is far "
            "smaller still: it tests the code, not the claim."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: 80 updates of size 12, 2 seeds"),
            "cpu": Scale("the paper's own numbers", "around d = 30, M = 20, K = 3, alpha = 0.4; 6 seeds"),
            "paper": Scale("the paper's own numbers", "around d = 30, M = 20, K = 3, alpha = 0.4; 20 seeds"),
        },
        presets=PRESETS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        finding=(
            "The number of updates grows as the power {alpha_power:.2f} of 1/alpha, {patterns_linear:.2f} of M, "
            "{steps_power:.2f} of K, {levels_linear:.2f} of 1/epsilon and {eta:.2f} of 1/eta, where the bound has 1, "
            "1, 3, 1 and 1; the time T_1 in which attention leaves the other steps grows as the power "
            "{t1_theorem:.2f} of 1/alpha (Theorem 1: 1, Lemma F.6: 2)."
        ),
        worlds=WORLDS,
        clarity=(
            "The theorem says what suffices; section 3 (P1) makes it what is required. Theorem 1 has alpha^-1 in its "
            "first term and cites a lemma that has alpha^-2. The proof of Lemma F.6 assumes M of the order of K^4 / "
            "alpha, which neither statement has."
        ),
        history=(
            "Exponents were known roughly before the parts were declared, from short runs with two or three seeds "
            "below 1000: T_1 growing as 1/(alpha - 1/M), T as M and 1/epsilon, hardly with K. In a first run of "
            "this size the exponent of T in 1/alpha, 0.47, stood for linear in 1/alpha; T has a term without alpha, "
            "so that the straightness of T over 1/alpha does now. alpha was first varied at M = 40, with three "
            "times the budget; M = 30 is a matter of time."
        ),
        figures=figures,
    )
)
