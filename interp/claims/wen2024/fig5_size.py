"""wen2024, Figures 5 and 10: does a small repeated dataset teach what a large one does not, in equally many steps?

Runs without CoT see the same number of samples from datasets of different size. The share of solved runs is compared
between the dataset nearest the paper's share of all inputs and the largest. High entropy is where every run starts,
so the attention of runs that fail with the largest dataset is compared with that of runs that the small one teaches.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._curves import DRAWN, difference_of_means
from interp.claims.wen2024._runs import LOOPS, ParityRun, ParityRuns, measure_run, outcomes
from interp.claims.wen2024._worlds import simulated_measures, simulated_outcomes
from interp.core.claim import Claim, Scale, World, register
from interp.core.judging import MEDIANS, SHARE, typical_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval, proportion_difference
from probes.rows import concat

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig5-size"
SOLVED = 0.99
"""Test accuracy at which a run has learned the task."""
GAP = 0.25
"""How much larger the share of solved runs must be with the small dataset."""
SMALL = 0.05
"""The small dataset is the one nearest this share of all inputs, as the paper's 50,000 of 2^20."""
APART = 0.1
"""How much higher the entropy of runs that fail must be, of a range of 0 to 1."""
HIGH = 0.5
"""Normalised entropy above which attention counts as not sparse."""

_SMOKE = ParityRun(
    cot=False, n=8, k=2, heads=2, d_model=32, d_mlp=128, lr=3e-3, dataset_size=32, budget=16_384, eval_every=1024,
    n_held_out=32,
)  # fmt: skip
_CPU = ParityRun(cot=False, n=16, k=4, heads=4, lr=3e-4, dataset_size=2_000, eval_every=8192, n_held_out=1024)
_PAPER = ParityRun(
    cot=False, n=20, k=6, layers=4, heads=4, d_model=720, d_mlp=3072, budget=10_000_000, eval_every=20_480
)
PRESETS = {
    "smoke": ParityRuns((_SMOKE, replace(_SMOKE, dataset_size=128)), seeds=2),
    "cpu": ParityRuns(tuple(replace(_CPU, dataset_size=size) for size in (40_000, 2_000)), seeds=8),
    "paper": ParityRuns(
        tuple(
            replace(_PAPER, layers=layers, heads=heads, dataset_size=size)
            for layers, heads in ((1, 1), (2, 3), (4, 4))
            for size in (5_000, 10_000, 50_000, 100_000, 1_000_000)
        ),
        seeds=8,
    ),
}


def final_entropy(rows: pd.DataFrame) -> pd.Series:
    """Normalised entropy at the last evaluation, mean over heads, by run."""
    entropy = rows[rows["metric"] == "entropy_min"]
    last = entropy[entropy["samples"] == entropy.groupby("run")["samples"].transform("max")]
    return last.groupby("run")["value"].mean()


def summarised(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each run: its settings, whether it solved the task, and its final entropy."""
    runs = outcomes(rows).join(final_entropy(rows).rename("entropy"), on="run")
    return runs.assign(solved=runs["test_accuracy"] >= SOLVED)


def parts(preset: ParityRuns) -> list[Part]:
    """By architecture, the small dataset against the largest; Figure 5's, the largest architecture, is primary."""
    models = sorted({(run.layers, run.heads) for run in preset.runs}, reverse=True)
    found = []
    for place, (layers, heads) in enumerate(models):
        of = [run for run in preset.runs if (run.layers, run.heads) == (layers, heads)]
        sizes = {run.dataset_size for run in of}
        small = min(sizes, key=lambda size: abs(size - SMALL * 2 ** of[0].n))
        suffix = "" if place == 0 else f"_{layers}l{heads}h"
        found += _parts_of((layers, heads), (small, max(sizes)), suffix, primary=place == 0)
    return found


def _parts_of(model: tuple[int, int], sizes: tuple[int, int], suffix: str, primary: bool) -> list[Part]:
    where, given = "{}L{}H".format(*model), {"model": model, "sizes": sizes}
    figure = "Figure 5" if primary else "Figure 10"
    return [
        Part(
            key=f"small_learns{suffix}",
            name=f"a smaller dataset teaches what a larger does not ({where})",
            role="paper",
            source=f"{figure}: the model fails to learn when trained on an even larger training set",
            primary=primary,
            quantity=f"share of solved runs with {sizes[0]} samples - with {sizes[1]}",
            estimate=partial(solved_difference, **given),
            direction="above",
            threshold=GAP,
            why="the paper shows success against failure, a difference of 1; a quarter is the least that matters",
            unit="runs",
            note=partial(_counts, model=model),
        ),
        Part(
            key=f"diffuse{suffix}",
            name=f"attention stays more diffuse where a large dataset fails than where a small one teaches ({where})",
            role="paper",
            source="C.2: learning coincides with a decrease in entropy, which remains high on a larger dataset",
            primary=primary,
            quantity=f"final normalised entropy, runs that fail with {sizes[1]} samples - that solve with {sizes[0]}",
            estimate=partial(entropy_difference, **given),
            direction="above",
            threshold=APART,
            why="a tenth of the range of normalised entropy; high by itself is what attention is at the start",
            unit="runs",
        ),
        Part(
            key=f"high{suffix}",
            name=f"entropy is high where nothing is learned ({where})",
            role="paper",
            source=f"{figure}: both the training loss and the normalized attention entropy remain elevated",
            quantity=f"final normalised entropy of failed runs with {sizes[1]} samples, mean over heads",
            estimate=partial(failed_entropy, **given),
            direction="above",
            threshold=HIGH,
            why="nearer to uniform (1) than to one-hot (0); true at the start already, so not primary",
            unit="seeds",
        ),
        Part(
            key=f"small_failed{suffix}",
            name=f"runs that fail on the small dataset stay diffuse too ({where})",
            role="ours",
            quantity=f"final normalised entropy of failed runs with {sizes[0]} samples, mean over heads",
            estimate=partial(failed_entropy, model=model, sizes=(sizes[1], sizes[0])),
            direction="above",
            threshold=HIGH,
            why="as above: whether entropy tells the failure or the dataset",
            unit="seeds",
            added_later=True,
        ),
    ]


def _of(runs: pd.DataFrame, model: tuple[int, int], size: int) -> pd.DataFrame:
    layers, heads = model
    return runs[(runs["layers"] == layers) & (runs["heads"] == heads) & (runs["dataset_size"] == size)]


def solved_difference(
    runs: pd.DataFrame, level: float, *, model: tuple[int, int], sizes: tuple[int, int]
) -> Interval | NotMeasurable:
    """The share of solved runs with the small dataset minus that with the large one."""
    small, large = (_of(runs, model, size)["solved"] for size in sizes)
    return proportion_difference((int(small.sum()), len(small)), (int(large.sum()), len(large)), level=level)


def entropy_difference(
    runs: pd.DataFrame, level: float, *, model: tuple[int, int], sizes: tuple[int, int]
) -> Interval | NotMeasurable:
    """The final entropy of runs that fail with the large dataset minus that of runs that solve with the small."""
    small, large = (_of(runs, model, size) for size in sizes)
    failed, solved = large.loc[~large["solved"], "entropy"], small.loc[small["solved"], "entropy"]
    return difference_of_means(failed, solved, level, SHARE)


def failed_entropy(
    runs: pd.DataFrame, level: float, *, model: tuple[int, int], sizes: tuple[int, int]
) -> Interval | NotMeasurable:
    """The final entropy of the median of the runs that fail with the second of the sizes."""
    large = _of(runs, model, sizes[1])
    return typical_of(large.loc[~large["solved"], "entropy"], level)


def _counts(runs: pd.DataFrame, model: tuple[int, int]) -> str:
    of = runs[(runs["layers"] == model[0]) & (runs["heads"] == model[1])]
    counts = of.groupby("dataset_size")["solved"].agg(["sum", "size"])
    return "solved: " + ", ".join(f"{size} samples {solved}/{n}" for size, (solved, n) in counts.iterrows())


def _rows(
    generator: np.random.Generator, *, learns: tuple[float, float], entropy: tuple[float, float]
) -> pd.DataFrame:
    """A world with these shares of solved runs (small, large dataset) and entropies (solved, failed runs)."""
    runs, seeds = PRESETS["cpu"].runs, PRESETS["cpu"].seeds
    smallest = min(run.dataset_size for run in runs)
    share = np.array([[learns[run.dataset_size > smallest]] for run in runs])
    solved = generator.random((len(runs), seeds)) < share
    final = np.where(solved, *entropy) + generator.normal(0, 0.1, solved.shape)
    outcome = simulated_outcomes(runs, np.where(solved, 5e5, np.inf), np.where(solved, 1.0, 0.5))
    return concat([outcome, simulated_measures(runs, {"entropy_min": final.clip(0, 1)}, layer=0, head=0)])


WORLDS = (
    World(
        "a quarter more runs learn, and failed runs are no more diffuse than counts",
        {"small_learns": False, "diffuse": False},
        partial(_rows, learns=(0.625, 0.375), entropy=(0.6, 0.7)),
    ),
    World(
        "the size does not matter, and attention stays where it started",
        {"small_learns": False, "diffuse": False, "high": True},
        partial(_rows, learns=(0.5, 0.5), entropy=(0.8, 0.8)),
    ),
    World(
        "as published",
        {"small_learns": True, "diffuse": True, "high": True},
        partial(_rows, learns=(0.97, 0.03), entropy=(0.3, 0.85)),
    ),
)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Accuracy and entropy of every run, one column for each dataset size; one figure for each architecture."""
    from matplotlib.ticker import EngFormatter

    from interp.figures.style import BLUE, ORANGE, new_figure, styled

    runs = summarised(rows)
    drawn = {}
    for (layers, heads), group in runs.groupby(["layers", "heads"]):
        sizes = sorted(group["dataset_size"].unique())
        with styled():
            figure = new_figure(3.4 * len(sizes) + 0.6, 4.8)
            panels = figure.subplots(2, len(sizes), sharex=True, sharey=True, squeeze=False)
            for column, size in enumerate(sizes):
                for run in group[group["dataset_size"] == size].itertuples():
                    of = rows[rows["run"] == run.run]
                    style = {"color": BLUE} if run.solved else {"color": ORANGE, "linestyle": "--"}
                    for metric, axes in zip(("accuracy", "entropy_min"), panels[:, column]):
                        curve = of[of["metric"] == metric].groupby("samples")["value"].mean()
                        axes.plot(curve.index, curve, alpha=0.65, linewidth=1.2, **style)
                        if run.solved:  # most stop before the budget ends
                            axes.plot(curve.index[-1], curve.iloc[-1], "o", color=BLUE, markersize=4)
                panels[0, column].set_title(f"{size:,} samples")
                panels[1, column].set_xlabel("training samples seen")
                panels[1, column].xaxis.set_major_formatter(EngFormatter())
            panels[0, 0].plot([], [], color=BLUE, marker="o", markersize=4, label="solves the task; its end")
            panels[0, 0].plot([], [], color=ORANGE, linestyle="--", label="fails")
            panels[0, 0].legend(fontsize=8)
            panels[0, 0].set(ylabel="validation accuracy", ylim=(-0.03, 1.05))
            panels[1, 0].set_ylabel("normalised entropy,\nmean over heads")
            n, k = group[["n", "k"]].iloc[0]
            figure.suptitle(f"Parity without CoT, n={n}, k={k}, {layers}L{heads}H; one line a seed", fontsize=11)
        drawn[f"dataset_size_{layers}L{heads}H"] = figure
    return drawn


register(
    Claim(
        id=ID,
        sentence=(
            "Without CoT a transformer trained on a small repeated dataset learns parity, while one trained on a "
            "larger dataset for the same number of iterations fails, and its attention entropy remains high."
        ),
        method=(
            f"Solved = test accuracy of at least {SOLVED:g}. The share of solved runs with the dataset nearest "
            f"{SMALL:.0%} of all inputs minus that with the largest (Newcombe interval). The final normalised "
            "entropy (eq. 1), mean over heads, of runs that fail with the largest dataset minus that of runs that "
            "solve the task with the small one; and by itself."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n=8, k=2, d_model 32"),
            "cpu": Scale(
                "smaller", "(n, k) = (16, 4) for (20, 6), 1L4H of 128 for 4L4H of 720, 10^6 of 10^7 samples"
            ),
            "paper": Scale("the paper's own numbers"),
        },
        finding=(
            "Share of solved runs, small dataset minus large: {small_learns}; final entropy, runs that fail on the "
            "large dataset minus runs that solve the task on the small one: {diffuse}; runs that fail on the small "
            "one: {small_failed}."
        ),
        falls_short=(
            "The entropies compared differ by dataset size as well as by failing: where runs that fail on the small "
            "dataset are nearly as sparse as those that learn, entropy tells the dataset rather than the failure."
        ),
        deviations=(
            "cpu: (n, k) = (16, 4) instead of (20, 6), 2,000 and 40,000 samples instead of 50,000 and 1,000,000 "
            "(drawn with replacement: 3% and 45% of all inputs instead of 5% and 61%), 10^6 samples seen instead of "
            "10^7, one layer with four heads of d_model 128 instead of 4L4H of 720, learning rate 3e-4 instead of "
            "1e-4, eight seeds. paper: the paper's three architectures and five dataset sizes, eight seeds. Small "
            "against large is the same comparison: both see the same number of samples, one of them each sample "
            "twenty times as often. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        clarity=(
            "One run for each dataset size. 'Fails' depends on the number of iterations, at which the figure ends; "
            "that sparsity 'may improve optimization' is an interpretation of two curves. A solved run stops at its "
            "first perfect validation and is read there, a failed one at the end of its budget. At a learning rate "
            "of 3e-4 training without CoT often fails at two bits already (wen2024/causal-sparsity), and no arm here "
            "has an easier problem on the same data: a failure may be that of the rate."
        ),
        history=(
            "Entropy was judged before as above 0.5 in failed runs, which is true at initialisation; the contrast "
            "with solved runs was written after the first cpu run, which had 7 of 8 seeds solved against 0 of "
            "8 and an entropy higher by 0.57 [0.39, 0.75]. Nothing has changed since but that evaluations "
            "come every 8,192 samples. "
            f"{MEDIANS}"
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=lambda preset: preset.items,
        measure=measure_run,
        summary=summarised,
        parts=parts,
        worlds=WORLDS,
        published=lambda rows: rows[rows["metric"].isin(DRAWN)],
        figures=figures,
    )
)
