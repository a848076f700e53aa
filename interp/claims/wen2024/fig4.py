"""wen2024, Figure 4: does repeated data teach parity without CoT, and do heads help more than layers?

Runs without CoT repeat a small dataset. Three comparisons: the share of configurations that reach perfect validation
accuracy; m layers of one head against one layer of m heads; and the best configuration without CoT against CoT. A
censored run enters with its budget and opens the interval on its side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun, ParityRuns, measure_run, outcomes
from interp.core.claim import Claim, register
from interp.core.verdict import Verdict, judged
from interp.statistics import Interval, bootstrap_mean, cautious_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig4"
MOST = 0.5
"""More than this share of the configurations must solve the task without CoT."""
COT_SAVES = 10.0
"""The factor by which CoT must need fewer epochs than the best configuration without."""

_SMOKE = ParityRun(
    cot=False, n=8, k=2, heads=2, d_model=32, d_mlp=128, lr=3e-3, dataset_size=128, budget=16_384, eval_every=1024,
    n_held_out=32,
)  # fmt: skip
_CPU = ParityRun(cot=False, n=16, k=4, lr=3e-4, dataset_size=2_000, budget=600_000, n_held_out=1024)
_PAPER = ParityRun(
    cot=False, n=20, k=6, d_model=720, d_mlp=3072, dataset_size=10_000, budget=10_000_000, eval_every=10_000
)
PRESETS = {
    "smoke": ParityRuns((_SMOKE, replace(_SMOKE, heads=1, layers=2), replace(_SMOKE, cot=True, heads=1)), seeds=2),
    "cpu": ParityRuns(
        (
            *(replace(_CPU, layers=layers, heads=heads) for layers, heads in ((2, 1), (1, 1), (1, 2), (1, 4))),
            replace(_CPU, cot=True),
        ),
        seeds=5,
    ),
    "paper": ParityRuns(
        (
            *(replace(_PAPER, layers=layers, heads=heads) for layers in range(1, 5) for heads in range(1, 5)),
            replace(_PAPER, cot=True, lr=1e-5),
        ),
        seeds=5,
    ),
}


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """How many configurations learn, what a head and what a layer buys, and what CoT saves."""
    runs = outcomes(rows)
    without, with_cot = runs[runs["condition"] == "no_cot"], runs[runs["condition"] == "cot"]
    learned = (~without["censored"]).groupby(without["unit"]).mean()
    return [
        judged(
            cautious_mean(learned.to_numpy(float), rng=0, bounds=(0, 1)),
            claim=ID,
            part="repeated data teaches parity without CoT",
            quantity="share of configurations that reach perfect validation accuracy without CoT",
            threshold=MOST,
            direction="above",
            unit="seeds",
            note=_by_configuration(without),
        ),
        judged(
            _heads_over_layers(without),
            claim=ID,
            part="adding heads helps more than adding layers",
            quantity="log2 of samples with (m layers, 1 head) / (1 layer, m heads), mean over m > 1",
            threshold=0.0,
            direction="above",
            unit="seeds",
            note="a run that ran out of budget counts with its budget, and opens the interval on its side",
        ),
        judged(
            _saving(without, with_cot),
            claim=ID,
            part="CoT is by far the faster",
            quantity="log10 of samples without CoT (best configuration of each seed) / with CoT",
            threshold=float(np.log10(COT_SAVES)),
            direction="above",
            unit="seeds",
            note=f"epochs with CoT: {', '.join(f'{e:.0f}' for e in with_cot['samples'] / with_cot['dataset_size'])}",
        ),
    ]


def _by_configuration(runs: pd.DataFrame) -> str:
    shares = runs.groupby(["layers", "heads"])["censored"].agg(["size", "sum"])
    return ", ".join(f"{layers}L{heads}H {n - cut}/{n}" for (layers, heads), (n, cut) in shares.iterrows())


def _heads_over_layers(runs: pd.DataFrame) -> Interval:
    """By seed: how many times (on a log2 scale) longer m layers take than m heads."""
    table = runs.set_index(["layers", "heads", "unit"])[["samples", "censored"]].sort_index()
    sizes = sorted((set(runs["layers"]) & set(runs["heads"])) - {1})
    deep = [table.loc[(m, 1)] for m in sizes]
    wide = [table.loc[(1, m)] for m in sizes]
    logs = [np.log2(d["samples"] / w["samples"]).to_numpy(float) for d, w in zip(deep, wide)]
    mean = bootstrap_mean(np.mean(logs, axis=0), rng=0)
    return mean.opened(up=any(d["censored"].any() for d in deep), down=any(w["censored"].any() for w in wide))


def _saving(without: pd.DataFrame, with_cot: pd.DataFrame) -> Interval:
    best = without.sort_values(["censored", "samples"]).groupby("unit").first()
    cot = with_cot.set_index("unit")
    mean = bootstrap_mean(np.log10(best["samples"] / cot["samples"]).to_numpy(float), rng=0)
    return mean.opened(up=bool(best["censored"].any()), down=bool(cot["censored"].any()))


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Validation accuracy against epochs for each configuration, median over seeds, and what each seed took."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    from interp.figures.style import SERIES, new_figure, styled

    runs = outcomes(rows)
    accuracy = rows[rows["metric"] == "accuracy"].merge(
        runs[["run", "layers", "heads", "dataset_size"]], on="run", validate="many_to_one"
    )
    accuracy["epoch"] = (accuracy["samples"] / accuracy["dataset_size"]).clip(lower=1)  # for a logarithmic axis
    names = {
        (cot, layers, heads): f"{layers}L{heads}H" + (" with CoT" if cot == "cot" else "")
        for cot, layers, heads in runs.groupby(["condition", "layers", "heads"]).groups
    }
    with styled():
        figure = new_figure(10.5, 4.2)
        curves, points = figure.subplots(1, 2, width_ratios=(3, 2))
        for place, ((condition, layers, heads), name) in enumerate(names.items()):
            of = accuracy[
                (accuracy["condition"] == condition) & (accuracy["layers"] == layers) & (accuracy["heads"] == heads)
            ]
            # A run stops when it is perfect; it stays perfect in the median of its configuration.
            table = of.pivot_table(index="epoch", columns="unit", values="value").ffill()
            style = SERIES[place % len(SERIES)]
            curves.plot(table.index, table.median(axis=1), **{**style, "marker": ""}, label=name)
            group = runs[(runs["condition"] == condition) & (runs["layers"] == layers) & (runs["heads"] == heads)]
            epochs = group["samples"] / group["dataset_size"]
            solved, cut = epochs[~group["censored"]], epochs[group["censored"]]
            marks = {**style, "linestyle": "", "alpha": 0.8}
            points.plot(solved, [place] * len(solved), **marks)
            points.plot(cut, [place] * len(cut), **{**marks, "marker": ">", "mfc": "none"})
        curves.set(xlabel="epochs", ylabel="validation accuracy, median over seeds", ylim=(-0.03, 1.05), xscale="log")
        first = runs.iloc[0]
        curves.set_title(f"n={first['n']}, k={first['k']}, {first['dataset_size']} samples repeated")
        curves.legend(fontsize=8)
        points.plot([], [], ">", color="0.4", mfc="none", label="budget ran out")
        points.set(xlabel="epochs to perfect accuracy, one mark a seed", xscale="log")
        points.set_yticks(range(len(names)), names.values())
        points.legend(fontsize=8, loc="best")
        for axes in (curves, points):
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
            axes.xaxis.set_minor_formatter(NullFormatter())
    return {"configurations": figure}


register(
    Claim(
        id=ID,
        sentence=(
            "Without CoT, training repeatedly on a small dataset reaches perfect accuracy for almost all numbers of "
            "layers and heads; adding heads is more effective than adding layers; CoT needs only about 5 epochs."
        ),
        test=(
            "On a repeated dataset without CoT: the share of configurations that reach perfect validation accuracy "
            f"exceeds {MOST:g} (interval over seeds); samples taken by m layers of one head exceed those of one "
            "layer of m heads, on a log scale, paired by seed; and CoT takes less than "
            f"1/{COT_SAVES:g} of the samples of the best configuration without, paired by seed. 95% intervals."
        ),
        deviations=(
            "cpu: (n, k) = (16, 4) instead of (20, 6) and 2,000 samples instead of 10,000 (3% and 1% of all inputs), "
            "d_model 128 instead of 720, learning rate 3e-4 instead of 1e-4 (with CoT the paper has 1e-5), at most "
            "300 epochs instead of 1,000, four of the sixteen configurations, so that heads are compared with layers "
            "at two of each; five seeds. paper: the paper's sixteen configurations and budget, five seeds. The "
            "claims compare configurations with one another and with CoT on the same task, data and width. The smoke "
            "preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=lambda preset: preset.items,
        measure=measure_run,
        judge=judge,
        figures=figures,
    )
)
