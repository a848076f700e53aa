"""wen2024, Figure 3a: with CoT, how many samples does a larger secret set take?

The exponent p of samples ~ k^p is fitted by censored maximum likelihood and tested from both sides, since "about
linear" excludes slower growth as well as faster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun, ParityRuns, measure_run, outcomes
from interp.core.claim import Claim, register
from interp.core.verdict import Verdict, judged
from interp.statistics import GrowthComparison, Interval, growth_comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig3a"
AT_MOST, AT_LEAST = 1.5, 0.5
"""Growth as k^p with p between these counts as about linear."""

_CPU = ParityRun(cot=True, n=30, k=6, lr=3e-4, budget=300_000)
_PAPER = ParityRun(cot=True, n=100, k=20, d_model=720, d_mlp=3072, budget=10_000_000)
_SMOKE = ParityRun(
    cot=True, n=8, k=1, d_model=32, d_mlp=128, lr=3e-3, budget=16_384, eval_every=1024, n_held_out=32
)  # fmt: skip
PRESETS = {
    "smoke": ParityRuns((replace(_SMOKE, k=2), _SMOKE), seeds=2),
    "cpu": ParityRuns(tuple(replace(_CPU, k=k) for k in (30, 18, 12, 6)), seeds=5),
    "paper": ParityRuns(tuple(replace(_PAPER, k=k) for k in range(100, 10, -10)), seeds=5),
}


def _growth(runs: pd.DataFrame) -> GrowthComparison | None:
    """The fitted growth laws; None if nothing was solved."""
    if runs["censored"].all():
        return None
    return growth_comparison(
        runs["k"].to_numpy(float), runs["samples"].to_numpy(float), runs["censored"].to_numpy(bool),
        resolution=float(runs["eval_every"].max()), rng=0,
    )  # fmt: skip


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The exponent of growth, from both sides."""
    runs = outcomes(rows)
    found = _growth(runs)
    exponent = Interval(1.0, -np.inf, np.inf, 0.95, 0) if found is None else found.power_exponent
    note = f"{runs['censored'].sum()} of {len(runs)} runs ran out of budget (censored)"
    if found is not None:
        gap = found.exponential.log_likelihood - found.linear.log_likelihood
        note += f"; log-likelihood of exponential over linear growth {gap:+.1f} nats"
    quantity = "exponent p of samples ~ k^p"
    return [
        judged(
            exponent, claim=ID, part="not faster than about linear", quantity=quantity, threshold=AT_MOST,
            direction="below", unit="runs", note=note,
        ),
        judged(
            exponent, claim=ID, part="not slower than about linear", quantity=quantity, threshold=AT_LEAST,
            direction="above", unit="runs", note=note,
        ),
    ]  # fmt: skip


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Samples against k with the fitted power."""
    from matplotlib.ticker import EngFormatter

    from interp.figures.style import BLUE, ORANGE, new_figure, styled

    runs = outcomes(rows)
    found = _growth(runs)
    with styled():
        figure = new_figure(6.0, 4.2)
        axes = figure.subplots()
        solved, cut = runs[~runs["censored"]], runs[runs["censored"]]
        axes.plot(solved["k"], solved["samples"], "o", color=BLUE, alpha=0.75, label="one run")
        if len(cut):
            axes.plot(cut["k"], cut["samples"], "^", mfc="none", ms=8, color="0.4", label="budget ran out")
        if found is not None and np.isfinite(list(found.power.parameters.values())).all():
            k = np.linspace(runs["k"].min(), runs["k"].max(), 50)
            label = f"fit: samples ~ k^{found.power.parameters['p']:.2f}"
            axes.plot(k, found.power.median(k), color=ORANGE, linestyle="--", label=label)
        axes.set(xlabel="k, number of secret bits", ylabel="samples until perfect validation accuracy")
        axes.set(title=f"Parity with CoT, n={runs['n'].iloc[0]}, one layer, one head", ylim=(0, None))
        axes.set_xticks(sorted(runs["k"].unique()))
        axes.yaxis.set_major_formatter(EngFormatter())
        axes.legend()
    return {"sample_complexity": figure}


register(
    Claim(
        id=ID,
        sentence="With n fixed, the sample complexity of learning parity with CoT grows about linearly with k.",
        test=(
            "Samples to the first perfect validation, fitted by censored maximum likelihood (lognormal) with a power "
            f"of k, bootstrapped over seeds within k: the exponent is below {AT_MOST:g}, and above {AT_LEAST:g}. "
            "95% intervals."
        ),
        deviations=(
            "cpu: n=30 and k=6, 12, 18, 30 instead of n=100 and k=20, 30, .. 100, which keeps the range of k/n; "
            "d_model 128 instead of 720; learning rate 3e-4; five seeds. paper: the paper's sizes, learning rate "
            "1e-4, five seeds. The claim is about the exponent, which is fitted within one model and one n. The "
            "smoke preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=lambda preset: preset.items,
        measure=measure_run,
        judge=judge,
        figures=figures,
    )
)
