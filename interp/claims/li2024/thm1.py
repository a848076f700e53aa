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

from interp.claims.li2024._factors import slope
from interp.claims.li2024._runs import MEASURED, generators, seeds_of
from interp.claims.li2024._thm1_parts import parts as parts_of
from interp.claims.li2024._training import GONE, LEARNED, LEVELS, SHORT, SHOWN, bound_updates, length_line, summary
from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.parts import Part
from interp.statistics.interval import Number
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "li2024/thm1"
BASE = {"alpha": 0.4, "n_training": 20, "n_steps": 3, "n_examples": 20, "rows": 20, "eta": 0.9, "by_chance": 0}


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
        for shown in SHOWN:
            changes = {"alpha": alpha, "n_examples": round(shown / alpha), "by_chance": 1}
            found.append((length_line(shown), alpha, round(1.5 * budget), changes))
    return tuple((*setting, tuple({"eta": eta, **changes}.items())) for *setting, changes in found)


LINES = {
    "alpha": (0.1, 0.15, 0.25, 0.4, 0.6), "patterns": (10, 14, 20, 28, 40), "steps": (2, 3, 4, 6),
    "eta": (0.225, 0.45, 0.9, 10.0), "batch": (5, 20, 80), "length": (0.125, 0.25, 0.5),
}  # fmt: skip
FEW = {
    "alpha": (0.2, 0.6), "patterns": (10, 20), "steps": (2, 3), "eta": (8.0, 12.0), "batch": (5, 20),
    "length": (0.25, 0.5),
}  # fmt: skip
PRESETS = {
    "smoke": Thm1(_settings(80, FEW, eta=12.0), seeds=2, points=20),
    "cpu": Thm1(_settings(900, LINES), seeds=12),
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
    by_chance = bool(sizes["by_chance"])
    more = {"d_x": d_x, "n_testing": min(10, sizes["n_training"]), "by_chance": by_chance}
    setup = Setup(**{**sizes, **more}, iterations=p["iterations"])
    space = setup.spaces(generators(p["seeds"], "space"))
    tested = replace(setup, rows=(10 if by_chance else 4) * setup.n_training)  # rare prompts weigh by chance
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
    """The bound on T and what it is proportional to, context examples, the first stage, step size and batch."""
    own = {}
    for line in ("alpha", "steps"):
        chosen = [
            (x, bound_updates({**BASE, **dict(changes)})) for name, x, _, changes in preset.settings if name == line
        ]
        own[line] = slope(*(np.array(column) for column in zip(*chosen)))
    return parts_of(BASE["n_steps"], own)


def _world(growth: Mapping[str, float], log_stage: bool = False) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which T grows with these exponents of 1/x along the lines.

    `levels` is that of 1/epsilon, `first` that of 1/alpha in T_1, `length` what that of 1/alpha in the context
    examples exceeds 1 by. With `log_stage` attention leaves the other steps exponentially, else as a power of time.
    """
    cpu = PRESETS["cpu"]
    units = np.array([str(seed) for seed in range(cpu.seeds)], object)
    reference = {"alpha": 0.4, "patterns": 1 / 20, "steps": 1 / 3, "eta": 0.9, "batch": 20, "base": 1.0}
    lengths = {length_line(shown): shown for shown in SHOWN}
    places = [setting(line=line, x=x, **{**BASE, **dict(changes)}) for line, x, _, changes in cpu.settings]
    grids = [np.unique(np.geomspace(1, n, cpu.points).round()) for _, _, n, _ in cpu.settings]
    sizes = [2 * len(updates) * cpu.seeds for updates in grids]

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        values = []
        for (line, x, _, _), at in zip(cpu.settings, grids):
            ratio, updates = reference.get(line, 0.25) / x, at[:, None]
            spread = np.exp(generator.normal(0, 0.05, (2, cpu.seeds)))
            reach = 150 * ratio ** growth.get(line, 0.0) * spread[0]
            first = 40 * ratio ** (growth["first"] if line == "alpha" else growth.get(line, 0.0)) * spread[1]
            loss = np.minimum(0.4, LEVELS[-1] * (reach / updates) ** (1 / growth["levels"]))
            if line in lengths:  # prompts without an example like the query
                loss = np.maximum(loss, 0.5 * np.exp(-lengths[line] * ratio ** -growth["length"]) * spread[0])
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
    "alpha": 1.0, "patterns": 1.0, "steps": 1.0, "eta": 1.0, "batch": 0.0, "length": 0.0, "levels": 1.0, "first": 1.0,
}  # fmt: skip
TWO_SIDED = (
    "alpha_linear",
    "length_linear",
    "patterns_linear",
    "levels_linear",
    "t1_theorem",
    "t1_log",
    "eta",
    "batch",
)
WORLDS = (
    World(
        "as the theorem has it, linear in 1/alpha",
        {
            **dict.fromkeys((*TWO_SIDED, "within", "grows", "length", "steps_power"), True), "t1_lemma": False,
            "alpha_power": False,
        },
        _world(STATED, log_stage=True),
    ),
    World(
        "half-way to the next power everywhere",
        dict.fromkeys((*TWO_SIDED, "within", "alpha_power", "steps_power", "t1_lemma"), False),
        _world(
            {
                "alpha": 1.5, "patterns": 1.25, "steps": 1.9, "eta": 1.1, "batch": 0.1, "length": 0.55,
                "levels": 1.25, "first": 1.5,
            }
        ),
    ),
    World(
        "M and alpha do not matter at the end, and T_1 is the lemma's",
        {"within": True, "grows": False, "alpha_power": True, "t1_lemma": True, "t1_theorem": False},
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
    chosen = (
        rows["run"].str.startswith(length_line(SHOWN[-1])) & rows["unit"].isin(failed) & (rows["metric"] == "loss")
    )
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
            "With of the order of 1/alpha context examples, T ~ (alpha^-1 K^3 log(K/epsilon) + M K (1/alpha + "
            "1/epsilon)) / eta updates suffice for a loss of epsilon; the context examples and the updates required "
            "are linear in 1/alpha."
        ),
        method=(
            "The theory model is trained by SGD with steps of 0.9 from the paper's sizes, one quantity at a time "
            f"being varied. T is the number of updates after which the loss on fresh prompts stays below "
            f"{LEVELS[-1]:g}, T_1 that after which the attention on other steps stays below {GONE:g}; their growth "
            "is the slope of log T over the log of the quantity, by seed. For the number of context examples each "
            "example shares the query's pattern with probability alpha, so that there may be too few: with 0.5, 1, 2 "
            "and 4 over alpha of them, at three alphas, it is judged whether the loss gets below "
            f"{LEARNED:g} with the most, and how the number with which it ends below {SHORT:g} grows."
        ),
        falls_short=(
            "The powers are of orders without constants, read at one loss; that T is linear in 1/alpha is our "
            "reading of 'linear', a straight line with any intercept."
        ),
        deviations=(
            "The paper has no such experiment. alpha is varied at M = 30, so that it is well above 1/M, the chance "
            "of a label at another step; the theorem's proof needs M of the order of K^4 / alpha. Batches have M "
            "prompts asked at all K steps, in which every pattern and step comes equally often; the theorem asks for "
            "epsilon^-2 log M. The paper has an exact share alpha of examples like the query, of which at least one "
            "is there however short the prompt; only where the number of context examples varies it is a chance of "
            "each example. cpu: 12 seeds. paper: 20 seeds, more patterns, a smaller alpha. The smoke preset is far "
            "smaller still: it tests the code, not the claim."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: 80 updates of size 12, 2 seeds"),
            "cpu": Scale("the paper's own numbers", "around d = 30, M = 20, K = 3, alpha = 0.4; 12 seeds"),
            "paper": Scale("the paper's own numbers", "around d = 30, M = 20, K = 3, alpha = 0.4; 20 seeds"),
        },
        presets=PRESETS,
        loops=MEASURED,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        finding=(
            "The number of updates grows as the power {alpha_power:.2f} of 1/alpha, {patterns_linear:.2f} of M, "
            "{steps_power:.2f} of K, {levels_linear:.2f} of 1/epsilon and {eta:.2f} of 1/eta, where the bound has at "
            "most 1, 1, 3, 1 and 1; the context examples required grow as the power {length_linear:.2f} of 1/alpha; "
            "the time T_1 in which attention leaves the other steps grows as the power "
            "{t1_theorem:.2f} of 1/alpha (Theorem 1: 1, Lemma F.6: 2)."
        ),
        worlds=WORLDS,
        clarity=(
            "The theorem says what suffices; section 3 (P1) makes it what is required. Theorem 1 has alpha^-1 in its "
            "first term and cites a lemma that has alpha^-2. The proof of Lemma F.6 assumes M of the order of K^4 / "
            "alpha, which neither statement has. Which power the bound has depends on which of its terms is the "
            "largest, and its constants are not given: with constants of 1, over these values and at a loss of 0.02, "
            "(18) itself grows as the power 0.18 of 1/alpha and 1.32 of K, because M K / epsilon outweighs the rest. "
            "So `within` allows the largest power of any term, `alpha_power` and `steps_power` are ours, and linear "
            "in 1/alpha (P1) is read as a straight line with any intercept, for the term without alpha."
        ),
        history=(
            "Exponents were known roughly before the parts were declared, from short runs with two or three seeds "
            "below 1000: T_1 growing as 1/(alpha - 1/M), T as M and 1/epsilon, hardly with K. In a first run of this "
            "size the exponent of T in 1/alpha, 0.47, stood for linear in 1/alpha; T has a term without alpha, so "
            "that the straightness of T over 1/alpha does now. alpha was first varied at M = 40, with three times "
            "the budget; M = 30 is a matter of time. Context examples were an exact share of ceil(alpha l), with "
            "1/alpha of them, of which one is always like the query: that they suffice could not fail, and they are "
            "now like the query by chance (two seeds were looked at: with 4/alpha examples the loss is 0.04 and 0.03 "
            "after 900 updates at alpha = 0.125). The powers of 1/alpha and K had to be within half of 1 and of 3, "
            "which the bound itself would fail with constants of 1. The straightness in 1/alpha was 0.41 in one seed "
            "(548, 948 and 1366 updates at alpha = 0.6, 0.25 and 0.1), close to its cut of 0.5: there are now twelve "
            "seeds in place of six, and slopes use all five values. With all this two seeds were looked at (0 and "
            "1): straightness 0.42, exponents 0.48 in 1/alpha and 0.13 in K, context examples 1.18."
        ),
        figures=figures,
    )
)
