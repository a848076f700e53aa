"""wen2024, Figure 9: is there a parity that repeated data cannot teach without CoT, and CoT teaches at once?

Without CoT a failure is claimed, so the share of seeds at which every run stays near chance level is estimated. With
CoT the samples to the first perfect validation are compared with the published numbers, on repeated and on fresh
data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun, ParityRuns, measure_run, outcomes
from interp.core.claim import Claim, register
from interp.core.verdict import Verdict, judged
from interp.statistics import Interval, binomial_interval, bootstrap_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig9"
FAILS = 0.6
"""Test accuracy below which a run has not learned the task; chance level is 0.5."""
MOST = 0.5
"""The share of seeds at which every run without CoT must fail."""
PUBLISHED = {"repeated": 60_000, "fresh": 60_000}
"""Samples seen with CoT in the paper: 6 epochs of 10,000, or about 60,000 fresh ones."""
ABOUT = 3.0
"""A number of samples within this factor of the published one agrees with it, at another width."""

_SMOKE = ParityRun(
    cot=False, n=10, k=5, d_model=32, d_mlp=128, lr=3e-3, dataset_size=128, budget=8_192, eval_every=1024,
    n_held_out=32,
)  # fmt: skip
_CPU = ParityRun(cot=False, n=20, k=12, lr=3e-4, dataset_size=10_000)
_PAPER = replace(_CPU, d_model=720, d_mlp=3072, lr=1e-4, budget=10_000_000, eval_every=10_240)
PRESETS = {
    "smoke": ParityRuns((_SMOKE, replace(_SMOKE, cot=True), replace(_SMOKE, cot=True, dataset_size=0)), seeds=2),
    "cpu": ParityRuns(
        (
            *(replace(_CPU, heads=heads) for heads in (1, 4)),
            replace(_CPU, heads=4, dataset_size=0),
            replace(_CPU, cot=True),
            replace(_CPU, cot=True, dataset_size=0),
        ),
        seeds=6,
    ),
    "paper": ParityRuns(
        (
            *(
                replace(_PAPER, layers=layers, heads=heads, lr=lr, dataset_size=size)
                for layers in (1, 2, 3, 4, 6, 8)
                for heads in (1, 2, 3, 4, 6, 8)
                for lr in (6e-5, 8e-5, 1e-4)
                for size in (10_000, 100_000, 1_000_000)
            ),
            replace(_PAPER, cot=True, eval_every=2048),
            replace(_PAPER, cot=True, eval_every=2048, dataset_size=0),
        ),
        seeds=5,
    ),
}


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """How many runs fail without CoT, and how many samples CoT takes on repeated and on fresh data."""
    runs = outcomes(rows)
    without, with_cot = runs[runs["condition"] == "no_cot"], runs[runs["condition"] == "cot"]
    fails = (without["test_accuracy"] < FAILS).groupby(without["unit"]).all()
    verdicts = [
        judged(
            binomial_interval(int(fails.sum()), len(fails)),
            claim=ID,
            part="without CoT it fails",
            quantity=f"share of seeds at which every run without CoT has a test accuracy below {FAILS:g}",
            threshold=MOST,
            direction="above",
            unit="seeds",
            note="test accuracy between {:.2f} and {:.2f}".format(*without["test_accuracy"].agg(["min", "max"])),
        )
    ]
    for name, published in PUBLISHED.items():
        of = with_cot[(with_cot["dataset_size"] > 0) == (name == "repeated")]
        verdicts.append(
            judged(
                _log_ratio(of, published),
                claim=ID,
                part=f"with CoT it succeeds on {name} samples",
                quantity=f"log10 of samples seen with CoT / {published}",
                threshold=float(np.log10(ABOUT)),
                direction="below",
                unit="seeds",
                note=f"samples seen: {', '.join(f'{samples:.0f}' for samples in of.sort_values('unit')['samples'])}",
            )
        )
    return verdicts


def _log_ratio(runs: pd.DataFrame, published: int) -> Interval:
    mean = bootstrap_mean(np.log10(runs["samples"].to_numpy(float) / published), rng=0)
    return mean.opened(up=bool(runs["censored"].any()))


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Every run's validation accuracy against the samples it has seen."""
    from interp.figures.style import CONDITION_STYLE, new_figure, styled

    accuracy = rows[rows["metric"] == "accuracy"]
    first = outcomes(rows).iloc[0]
    with styled():
        figure = new_figure(6.5, 4.2)
        axes = figure.subplots()
        labelled: set[str] = set()
        for _, curve in accuracy.groupby("run"):
            condition = curve["condition"].iloc[0]
            style = CONDITION_STYLE[condition]
            label = None if condition in labelled else style["label"]
            labelled.add(condition)
            axes.plot(
                curve["samples"].clip(lower=1000),
                curve["value"],
                **{**style, "marker": "", "label": label, "alpha": 0.7},
            )
        axes.set(xscale="log", xlabel="training samples seen", ylabel="validation accuracy", ylim=(-0.03, 1.05))
        axes.set_title(f"n={first['n']}, k={first['k']}: every run")
        axes.legend(loc="upper left")
    return {"accuracy": figure}


register(
    Claim(
        id=ID,
        sentence=(
            "At n=20, k=12 training without CoT fails for every number of layers and heads, learning rate and "
            "dataset size; with CoT it succeeds in about 6 epochs of 10,000 samples or about 60,000 fresh samples."
        ),
        test=(
            f"The share of seeds at which every run without CoT has a test accuracy below {FAILS:g} exceeds {MOST:g} "
            f"(exact interval). With CoT the samples seen until perfect are below {ABOUT:g} times the published "
            "number, geometric mean over seeds, on repeated and on fresh data. 95% intervals."
        ),
        deviations=(
            "The problem is the paper's n=20, k=12 with 10,000 samples. cpu: d_model 128 instead of 720, three "
            "configurations without CoT instead of 36, one learning rate (3e-4) instead of three, 10^6 samples seen "
            "instead of 10^7 (C.2: 1,000, 100 and 10 epochs of 10^4, 10^5 and 10^6 samples); of the larger training "
            "sets only the limit, fresh samples; six seeds. Without CoT a larger budget could overturn the failure: "
            "the verdict is about 100 epochs, where CoT takes few. paper: all 36 configurations, three learning "
            "rates and three dataset sizes at 10^7 samples. C.2 prints the learning rates as 6e-6, 8e-8 and 1e-4; we "
            "read the first two as 6e-5 and 8e-5, as in section 4.1. The smoke preset is far smaller still: it tests "
            "the code, not the claim."
        ),
        presets=PRESETS,
        items=lambda preset: preset.items,
        measure=measure_run,
        judge=judge,
        figures=figures,
    )
)
