"""wen2024, Figures 5 and 10: does a small repeated dataset teach what a large one does not, in equally many steps?

Runs without CoT see the same number of samples from datasets of different size. The share of solved runs is compared
between the dataset nearest the paper's share of all inputs and the largest, and the final attention entropy of the
runs that fail with the largest is measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wen2024._runs import ParityRun, ParityRuns, measure_run, outcomes
from interp.core.claim import Claim, register
from interp.core.verdict import Verdict, judged
from interp.statistics import cautious_mean, proportion_difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig5-size"
SOLVED = 0.99
"""Test accuracy at which a run has learned the task."""
GAP = 0.25
"""How much larger the share of solved runs must be with the small dataset."""
SMALL = 0.05
"""The small dataset is the one nearest this share of all inputs, as the paper's 50,000 of 2^20."""
HIGH = 0.5
"""Normalised entropy above which attention counts as not sparse."""

_SMOKE = ParityRun(
    cot=False, n=8, k=2, heads=2, d_model=32, d_mlp=128, lr=3e-3, dataset_size=32, budget=16_384, eval_every=1024,
    n_held_out=32,
)  # fmt: skip
_CPU = ParityRun(cot=False, n=16, k=4, heads=4, lr=3e-4, dataset_size=2_000, n_held_out=1024)
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
        seeds=5,
    ),
}


def final_entropy(rows: pd.DataFrame) -> pd.Series:
    """Normalised entropy at the last evaluation, mean over heads, by run."""
    entropy = rows[rows["metric"] == "entropy_min"]
    last = entropy[entropy["samples"] == entropy.groupby("run")["samples"].transform("max")]
    return last.groupby("run")["value"].mean()


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """By architecture: the small dataset against the largest, and the entropy of the runs that fail there."""
    runs = outcomes(rows).join(final_entropy(rows).rename("entropy"), on="run")
    runs["solved"] = runs["test_accuracy"] >= SOLVED
    verdicts = []
    for (layers, heads), group in runs.groupby(["layers", "heads"]):
        counts = {int(size): (int(of.sum()), len(of)) for size, of in group.groupby("dataset_size")["solved"]}
        small = min(counts, key=lambda size: abs(size - SMALL * 2 ** int(group["n"].iloc[0])))
        large = max(counts)
        where = f"{layers}L{heads}H"
        note = "solved: " + ", ".join(f"{size} samples {s}/{n}" for size, (s, n) in counts.items())
        verdicts.append(
            judged(
                proportion_difference(counts[small], counts[large]),
                claim=ID,
                part=f"a smaller dataset learns where a larger does not ({where})",
                quantity=f"share of solved runs with {small} samples - with {large}",
                threshold=GAP,
                direction="above",
                unit="runs",
                note=note,
            )
        )
        failed = group[~group["solved"] & (group["dataset_size"] == large)]
        verdicts.append(
            judged(
                cautious_mean(failed["entropy"].to_numpy(float), rng=0, bounds=(0, 1)),
                claim=ID,
                part=f"attention stays diffuse where nothing is learned ({where})",
                quantity=f"final normalised entropy of failed runs with {large} samples, mean over heads",
                threshold=HIGH,
                direction="above",
                unit="seeds",
                note=f"{len(failed)} runs with {large} samples failed",
            )
        )
    return verdicts


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Accuracy and entropy of every run, one column for each dataset size; one figure for each architecture."""
    from matplotlib.ticker import EngFormatter

    from interp.figures.style import BLUE, ORANGE, new_figure, styled

    runs = outcomes(rows)
    drawn = {}
    for (layers, heads), group in runs.groupby(["layers", "heads"]):
        sizes = sorted(group["dataset_size"].unique())
        with styled():
            figure = new_figure(3.4 * len(sizes) + 0.6, 4.8)
            panels = figure.subplots(2, len(sizes), sharex=True, sharey=True, squeeze=False)
            for column, size in enumerate(sizes):
                of = rows[rows["run"].isin(group.loc[group["dataset_size"] == size, "run"])]
                for metric, axes, colour in zip(("accuracy", "entropy_min"), panels[:, column], (BLUE, ORANGE)):
                    curves = of[of["metric"] == metric].groupby(["run", "samples"])["value"].mean().unstack("run")
                    axes.plot(curves.index, curves, color=colour, alpha=0.65, linewidth=1.2)
                panels[0, column].set_title(f"{size:,} samples")
                panels[1, column].set_xlabel("training samples seen")
                panels[1, column].xaxis.set_major_formatter(EngFormatter())
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
        test=(
            f"Solved = test accuracy of at least {SOLVED:g}. The share of solved runs with the dataset nearest "
            f"{SMALL:.0%} of all inputs exceeds that with the largest by more than {GAP:g} (Newcombe interval). The "
            "final normalised entropy of runs that fail with the largest dataset, mean over heads, exceeds "
            f"{HIGH:g} (interval over seeds). 95% intervals."
        ),
        deviations=(
            "cpu: (n, k) = (16, 4) instead of (20, 6), 2,000 and 40,000 samples instead of 50,000 and 1,000,000 "
            "(drawn with replacement: 3% and 45% of all inputs instead of 5% and 61%), 10^6 samples seen instead of "
            "10^7, one layer with four heads of d_model 128 instead of 4L4H of 720, learning rate 3e-4 instead of "
            "1e-4, eight seeds. paper: the paper's three architectures and five dataset sizes, five seeds. Small "
            "against large is the same comparison: both see the same number of samples, one of them each sample "
            "twenty times as often. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=lambda preset: preset.items,
        measure=measure_run,
        judge=judge,
        figures=figures,
    )
)
