"""wen2024, Figure 4: does repeated data teach parity without CoT, and do heads help more than layers?

Runs without CoT repeat a small dataset. Three comparisons: the share of configurations that reach perfect validation
accuracy; m layers of one head against one layer of m heads; and the best configuration without CoT against CoT. A
censored run enters with its budget and opens the interval on its side; below the paper's number of epochs a run that
has not yet learned may still do so, and opens the share above.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import LOOPS, ParityRun, ParityRuns, measure_run, outcomes
from interp.claims.wen2024._worlds import simulated_outcomes
from interp.core.claim import Claim, Scale, World, register
from interp.core.judging import SHARE, mean_over
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig4"
MOST = 0.5
"""More than this share of the configurations must solve the task without CoT."""
COT_SAVES = 10.0
"""The factor by which CoT must need fewer epochs than the best configuration without."""
EPOCHS = 1_000
"""Epochs that the paper trains for."""

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


def parts(preset: ParityRuns) -> list[Part]:
    """How many configurations learn, what a head and what a layer buys, and what CoT saves."""
    epochs = min(run.budget / run.dataset_size for run in preset.runs if not run.cot)
    return [
        Part(
            key="learns",
            name="repeated data teaches parity without CoT",
            role="paper",
            source="4.2: most of the transformer architectures achieve perfect accuracy given sufficient epochs",
            primary=True,
            quantity="share of configurations that reach perfect validation accuracy without CoT, by seed",
            estimate=partial(share_learning, sufficient=epochs >= EPOCHS),
            direction="above",
            threshold=MOST,
            why="the text's 'most' (the caption has 'almost all')",
            unit="seeds",
            note=_by_configuration,
        ),
        Part(
            key="heads",
            name="adding heads helps more than adding layers",
            role="paper",
            source="Figure 4: adding more heads is more effective than adding layers",
            primary=True,
            quantity="log2 of samples with (m layers, 1 head) / (1 layer, m heads), mean over m > 1",
            estimate=heads_over_layers,
            direction="above",
            threshold=0.0,
            why="more effective: any saving at all",
            unit="seeds",
            note=_by_configuration,
        ),
        Part(
            key="cot",
            name="CoT is by far the faster",
            role="paper",
            source="4.2: CoT is by far the most effective accelerator",
            primary=True,
            quantity="log10 of samples without CoT (best configuration of each seed) / with CoT",
            estimate=saving,
            direction="above",
            threshold=float(np.log10(COT_SAVES)),
            why="'by far': an order of magnitude",
            unit="seeds",
            note=_epochs,
        ),
    ]


def share_learning(runs: pd.DataFrame, level: float, *, sufficient: bool) -> Interval | NotMeasurable:
    """The share of configurations that learn; open above unless the budget is the paper's `sufficient` epochs."""
    without = runs[runs["condition"] == "no_cot"]
    learned = (~without["censored"]).groupby(without["unit"]).mean()
    return mean_over(learned, level, SHARE, open_above=bool(without["censored"].any()) and not sufficient)


def heads_over_layers(runs: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """By seed: how many times (on a log2 scale) longer m layers take than m heads."""
    runs = runs[runs["condition"] == "no_cot"]
    table = runs.set_index(["layers", "heads", "unit"])[["samples", "censored"]].sort_index()
    sizes = sorted((set(runs["layers"]) & set(runs["heads"])) - {1})
    deep = [table.loc[(m, 1)] for m in sizes]
    wide = [table.loc[(1, m)] for m in sizes]
    logs = [np.log2(d["samples"] / w["samples"]).to_numpy(float) for d, w in zip(deep, wide)]
    return mean_over(
        np.mean(logs, axis=0),
        level,
        open_above=any(d["censored"].any() for d in deep),
        open_below=any(w["censored"].any() for w in wide),
    )


def saving(runs: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """By seed: how many times (on a log10 scale) longer the best configuration without CoT takes than CoT."""
    without, cot = (runs[runs["condition"] == condition] for condition in ("no_cot", "cot"))
    best = without.sort_values(["censored", "samples"]).groupby("unit").first()
    logs = np.log10(best["samples"] / cot.set_index("unit")["samples"])
    cut, slow = bool(best["censored"].any()), bool(cot["censored"].any())
    return mean_over(logs, level, open_above=cut, open_below=slow)


def _by_configuration(runs: pd.DataFrame) -> str:
    without = runs[runs["condition"] == "no_cot"]
    shares = without.groupby(["layers", "heads"])["censored"].agg(["size", "sum"])
    solved = ", ".join(f"{layers}L{heads}H {n - cut}/{n}" for (layers, heads), (n, cut) in shares.iterrows())
    return f"solved within the budget: {solved}; the others count with their budget"


def _epochs(runs: pd.DataFrame) -> str:
    with_cot = runs[runs["condition"] == "cot"].sort_values("unit")
    return f"epochs with CoT: {', '.join(f'{e:.0f}' for e in with_cot['samples'] / with_cot['dataset_size'])}"


def _rows(generator: np.random.Generator, *, learns: float, layers_cost: float, cot_saves: float) -> pd.DataFrame:
    """A world in which a run learns with a probability, a layer costs a factor over a head, and CoT saves one."""
    runs, seeds = PRESETS["cpu"].runs, PRESETS["cpu"].seeds
    cot, deep = (np.array([[flag] for flag in flags]) for flags in zip(*((r.cot, r.layers > 1) for r in runs)))
    shape = (len(runs), seeds)
    samples = 150_000 * np.where(deep, layers_cost, 1.0) * np.exp(generator.normal(0, 0.2, shape))
    samples = np.where(generator.random(shape) < learns, samples, np.inf)
    best = np.where(cot, np.inf, samples).min(0)
    best = np.where(np.isfinite(best), best, 600_000.0)
    samples = np.where(cot, best / cot_saves * np.exp(generator.normal(0, 0.2, shape)), samples)
    return simulated_outcomes(runs, samples, np.where(np.isfinite(samples), 1.0, 0.5))


WORLDS = (
    World(
        "a coin decides whether a run learns",
        {"learns": False},
        partial(_rows, learns=MOST, layers_cost=1.0, cot_saves=50.0),
    ),
    World(
        "a layer is worth a head, and CoT saves a factor of ten",
        {"heads": False, "cot": False},
        partial(_rows, learns=1.0, layers_cost=1.0, cot_saves=COT_SAVES),
    ),
    World(
        "as published",
        {"learns": True, "heads": True, "cot": True},
        partial(_rows, learns=0.95, layers_cost=2.0, cot_saves=50.0),
    ),
)


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
        method=(
            "Runs without CoT repeat a small dataset until perfect validation or the end of the budget. The share "
            "of configurations that solve the task, by seed; samples taken by m layers of one head over those of "
            "one layer of m heads, on a log scale, paired by seed; samples of the best configuration without CoT "
            "over those with CoT, paired by seed. A run that ends at its budget counts with the budget and opens "
            "the interval on its side."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n=8, k=2, d_model 32"),
            "cpu": Scale(
                "smaller", "(n, k) = (16, 4) for (20, 6), d_model 128 for 720, 300 of 1,000 epochs, 4 of 16 models"
            ),
            "paper": Scale("the paper's own numbers"),
        },
        finding=(
            "Share of configurations that reached perfect accuracy without CoT within the budget: {learns}; log2 of "
            "the samples of layers over those of heads: {heads}; log10 of the factor that CoT saves: {cot}."
        ),
        deviations=(
            "cpu: (n, k) = (16, 4) instead of (20, 6) and 2,000 samples instead of 10,000 (3% and 1% of all "
            "inputs), d_model 128 instead of 720, learning rate 3e-4 instead of 1e-4 (with CoT the paper has 1e-5), "
            "at most 300 epochs instead of 1,000, four of the sixteen configurations, so that heads are compared "
            "with layers at two of each; five seeds. paper: the paper's sixteen configurations and budget, five "
            "seeds. The claims compare configurations with one another and with CoT on the same task, data and "
            "width. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        clarity=(
            "One curve for each configuration, without seeds. 'About 5 epochs' belongs to the paper's problem and "
            "dataset; on another it is the ratio to training without CoT that can be compared."
        ),
        history=(
            "A first preset, with d_model 64, learning rate 1e-3 and 250 epochs, solved 2 of 20 runs without CoT "
            "and was given up as too small for the question. At cpu two layers came to 98% but to perfection in no "
            "seed. Before, a run that had not learned within a budget below the paper's counted against the first "
            "part; now it leaves it open."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=lambda preset: preset.items,
        measure=measure_run,
        summary=outcomes,
        parts=parts,
        worlds=WORLDS,
        published=lambda rows: rows[
            rows["metric"].isin(["sample_complexity", "censored_at", "test_accuracy", "accuracy"])
        ],
        figures=figures,
    )
)
