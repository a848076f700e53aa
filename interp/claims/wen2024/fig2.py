"""wen2024, Figures 1a and 2: how many samples does parity take, with and without chain of thought?

One model is trained for each condition, k, architecture, learning rate and seed, until its first perfect validation.
Exponential, linear and power-law growth of the sample complexity in k are compared by censored maximum likelihood: a
run that reaches its budget is a right-censored observation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun, train_parity
from interp.core.claim import Claim, Item, register
from interp.core.verdict import Verdict, judged
from interp.statistics import Interval, bootstrap_mean, growth_comparison
from probes.rows import concat, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig2"
EXPONENTIAL_NATS = 2.0
"""Exponential growth must beat linear growth by this log-likelihood (an AIC difference of 4)."""
LINEAR_EXPONENT = 1.5
"""Growth as k^p with p below this counts as about linear."""
ADVANTAGE = 2.0
"""CoT must save at least this factor at the largest k."""


@dataclass(frozen=True)
class Fig2:
    """One training run for each condition, k, (layers, heads), learning rate and seed."""

    n: int
    ks: tuple[int, ...]
    layers_heads: tuple[tuple[int, int], ...]
    d_model: int
    d_mlp: int
    lrs: tuple[float, ...]
    budget: int
    eval_every: int
    n_held_out: int
    seeds: int


PRESETS = {
    "smoke": Fig2(
        n=8, ks=(1, 2), layers_heads=((1, 1),), d_model=32, d_mlp=128, lrs=(3e-3,),
        budget=24_576, eval_every=1024, n_held_out=32, seeds=2,
    ),
    "cpu": Fig2(
        n=30, ks=(1, 2, 3, 4), layers_heads=((1, 1),), d_model=128, d_mlp=512, lrs=(1e-4,),
        budget=1_000_000, eval_every=2048, n_held_out=2048, seeds=5,
    ),
    "paper": Fig2(
        n=30, ks=(1, 2, 3, 4), layers_heads=tuple((layers, heads) for layers in range(1, 5) for heads in range(1, 5)),
        d_model=720, d_mlp=3072, lrs=(6e-5, 8e-5, 1e-4),
        budget=10_000_000, eval_every=2048, n_held_out=2048, seeds=5,
    ),
}  # fmt: skip


def items(preset: Fig2) -> list[Item]:
    """One training run each; the long ones, without CoT at large k, come first."""
    grid = product(
        (False, True), sorted(preset.ks, reverse=True), preset.layers_heads, preset.lrs, range(preset.seeds)
    )
    return [
        ParityRun(
            cot=cot, n=preset.n, k=k, seed=seed, layers=layers, heads=heads, d_model=preset.d_model,
            d_mlp=preset.d_mlp, lr=lr, budget=preset.budget, eval_every=preset.eval_every,
            n_held_out=preset.n_held_out,
        ).item
        for cot, k, (layers, heads), lr, seed in grid
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one model until it is perfect or out of budget."""
    from toy_models.engine.run_rows import outcome_rows, training_rows

    run = ParityRun(**item.parameters)
    _, result = train_parity(run, work)
    return concat([outcome_rows(result, **run.labels), training_rows(result.history, **run.labels)])


def complexities(rows: pd.DataFrame) -> pd.DataFrame:
    """Sample complexity by condition, layers, heads, k and seed: the best learning rate of each.

    `censored` marks runs whose budget ran out under every learning rate; their value is the budget.
    """
    runs = with_settings(rows[rows["metric"].isin(["sample_complexity", "censored_at"])])
    runs = runs.assign(censored=runs["metric"] == "censored_at").sort_values(["censored", "value"])
    return runs.groupby(["condition", "layers", "heads", "k", "unit"], as_index=False).first()


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """Growth laws by censored likelihood, with intervals over seeds."""
    runs = complexities(rows)
    verdicts = []
    for (layers, heads), model in runs.groupby(["layers", "heads"]):
        of = "" if runs.groupby(["layers", "heads"]).ngroups == 1 else f" {layers}L{heads}H"
        without, with_cot = (_growth(model[model["condition"] == c]) for c in ("no_cot", "cot"))
        verdicts.append(
            judged(
                without.exponential_over_linear,
                claim=ID,
                part=f"without CoT: exponential rather than linear{of}",
                quantity="log-likelihood of exponential over linear growth in k (nats)",
                threshold=EXPONENTIAL_NATS,
                direction="above",
                refuted_at=-EXPONENTIAL_NATS,
                unit="runs",
                note=without.note,
            )
        )
        verdicts.append(
            judged(
                with_cot.power_exponent,
                claim=ID,
                part=f"with CoT: at most about linear{of}",
                quantity="exponent p of samples ~ k^p",
                threshold=LINEAR_EXPONENT,
                direction="below",
                unit="runs",
                note=with_cot.note,
            )
        )
        verdicts.append(_advantage(model, of))
    return verdicts


@dataclass(frozen=True)
class _Growth:
    """What the judge needs of a growth comparison."""

    exponential_over_linear: Interval
    power_exponent: Interval
    note: str


def _growth(runs: pd.DataFrame) -> _Growth:
    censored = runs["censored"].to_numpy(bool)
    if censored.all():  # nothing was learned about growth
        unknown = Interval(0.0, -np.inf, np.inf, 0.95, len(runs))
        return _Growth(unknown, unknown, "every run ran out of budget (censored)")
    found = growth_comparison(
        runs["k"].to_numpy(float), runs["value"].to_numpy(float), censored,
        resolution=float(runs["eval_every"].max()), rng=0,
    )  # fmt: skip
    over_power = found.exponential.log_likelihood - found.power.log_likelihood
    note = (
        f"{found.n_censored} of {len(runs)} runs ran out of budget (censored); "
        f"log-likelihood of exponential over power-law growth {over_power:+.1f} nats"
    )
    return _Growth(found.exponential_over_linear, found.power_exponent, note)


def _advantage(model: pd.DataFrame, of: str) -> Verdict:
    """How many times fewer samples CoT takes at the largest k, paired by seed.

    A censored run without CoT enters with its budget, a lower bound: the estimate is conservative.
    """
    hardest = model[model["k"] == model["k"].max()]
    paired = hardest.pivot(index="unit", columns="condition", values="value")
    logs = bootstrap_mean(np.log10(paired["no_cot"] / paired["cot"]).to_numpy(), rng=0)
    censored = hardest.groupby("condition")["censored"].any()
    return judged(
        logs.opened(up=bool(censored["no_cot"]), down=bool(censored["cot"])),
        claim=ID, part=f"CoT needs fewer samples{of}",
        quantity=f"log10 of samples without / with CoT at k={hardest['k'].iloc[0]}",
        threshold=float(np.log10(ADVANTAGE)), direction="above", unit="seeds",
        note="runs without CoT that ran out of budget count as solved at the budget: a lower bound",
    )  # fmt: skip


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Sample complexity against k, one panel for each model."""
    from interp.figures.style import CONDITION_STYLE, new_figure, styled

    runs = complexities(rows)
    models = list(runs.groupby(["layers", "heads"]))
    with styled():
        columns = min(4, len(models))
        n_rows = -(-len(models) // columns)
        figure = new_figure(max(5.5, 3.2 * columns), 3.8 * n_rows)
        panels = np.atleast_1d(figure.subplots(n_rows, columns, sharex=True, sharey=True)).flatten()
        for axes, ((layers, heads), model) in zip(panels, models):
            for shift, (condition, group) in zip((-0.05, 0.05), model.groupby("condition")):
                style = CONDITION_STYLE[str(condition)]
                solved, cut = group[~group["censored"]], group[group["censored"]]
                median = group.groupby("k")["value"].median()
                axes.plot(median.index + shift, median, **{**style, "marker": ""})
                points = {"color": style["color"], "alpha": 0.75, "linestyle": ""}
                axes.plot(solved["k"] + shift, solved["value"], marker=style["marker"], **points)
                axes.plot(cut["k"] + shift, cut["value"], marker="^", mfc="none", ms=8, **points)
            axes.plot([], [], marker="^", mfc="none", color="0.4", linestyle="", label="budget ran out")
            axes.set(
                yscale="log",
                title=f"{layers} layer, {heads} head" if len(models) == 1 else f"{layers}L{heads}H",
            )
            axes.set_xticks(sorted(runs["k"].unique()))
        panels[0].legend(loc="upper left")
        panels[0].set_ylabel("samples until perfect validation accuracy")
        for axes in panels[-columns:]:
            axes.set_xlabel("k, number of secret bits")
    return {"sample_complexity": figure}


register(
    Claim(
        id=ID,
        sentence=(
            "Without CoT the sample complexity of learning parity grows exponentially with k; with CoT it "
            "grows about linearly."
        ),
        test=(
            "Samples to the first perfect validation are fitted by censored maximum likelihood (lognormal) with "
            "exponential, linear and power-law growth in k, bootstrapped over seeds within k. Without CoT: "
            f"exponential beats linear by more than {EXPONENTIAL_NATS:g} nats (refuted if it loses by as much; the "
            "power law is reported beside it). With CoT: the power-law exponent "
            f"is below {LINEAR_EXPONENT:g}. And at the largest k CoT takes less than 1/{ADVANTAGE:g} of the samples, "
            "paired by seed. 95% intervals; a test is supported or refuted only if its whole interval is on one side."
        ),
        deviations=(
            "cpu: d_model 128 instead of 720, one layer and one head instead of one to four of each, one learning "
            "rate instead of the best of three, a budget of 10^6 samples instead of 10^7, five seeds instead of an "
            "unstated number. A smaller model needs more samples in both conditions; the claim is about growth with "
            "k, which is compared within one model. The budget censors the slow condition. The learning rate decays "
            "over the budget, as in the paper, so a run censored at 10^6 is not the beginning of a run of 10^7. "
            "paper: the paper's grid with five seeds. The smoke preset is far smaller still: it tests the code, not "
            "the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
