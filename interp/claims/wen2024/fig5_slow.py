"""wen2024, Figure 5 (top): without CoT, does attention become sparse while accuracy is still on its plateau?

Runs on a small repeated dataset are read until validation accuracy rises, and the fall of their entropy by then is
compared with that of runs on a large dataset, which fail, over the same samples: the figure's own contrast (bottom).
Runs that fail on the small dataset are the stricter control: they have repeated the same data as often.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wen2024._curves import DRAWN, curves, difference_of_means
from interp.claims.wen2024._runs import LOOPS, ParityRun, ParityRuns, measure_run, outcomes
from interp.claims.wen2024._transitions import RAPID, Transitions, transitions
from interp.claims.wen2024._worlds_curves import CurveWorld, Simulated, curve_worlds
from interp.core.claim import Claim, Scale, register
from interp.core.judging import DIFFERENCE, mean_over
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig5-slow"

_SMOKE = ParityRun(
    cot=False, n=8, k=2, heads=2, d_model=32, d_mlp=128, lr=3e-3, dataset_size=64, budget=16_384, eval_every=1024,
    n_held_out=32, stop_when_perfect=False,
)  # fmt: skip
_CPU = ParityRun(
    cot=False, n=16, k=4, heads=4, lr=3e-4, dataset_size=2_000, budget=800_000, eval_every=8192, n_held_out=1024,
    stop_when_perfect=False,
)  # fmt: skip
_PAPER = ParityRun(
    cot=False, n=20, k=6, layers=4, heads=4, d_model=720, d_mlp=3072, dataset_size=50_000, budget=10_000_000,
    eval_every=20_480, stop_when_perfect=False,
)  # fmt: skip
PRESETS = {
    "smoke": ParityRuns((_SMOKE, replace(_SMOKE, dataset_size=128)), seeds=2),
    "cpu": ParityRuns((_CPU, replace(_CPU, dataset_size=40_000)), seeds=12),
    "paper": ParityRuns((_PAPER, replace(_PAPER, dataset_size=1_000_000)), seeds=12),
}
WORLDS = curve_worlds(
    [Simulated(PRESETS["cpu"].runs[0], 350_000, solves=0.6), Simulated(PRESETS["cpu"].runs[1], 350_000, solves=0.0)],
    PRESETS["cpu"].seeds,
    [
        (
            "entropy drifts down along a line, learning or not",
            {"plateau": False, "same_data": False, "falls": True},
            CurveWorld("line"),
        ),
        (
            "entropy falls along a broad sigmoid of its own",
            {"plateau": False, "same_data": False},
            CurveWorld("sigmoid"),
        ),
        (
            "entropy falls at the jump and not before",
            {"plateau": False, "same_data": False, "falls": False},
            CurveWorld("none", step=0.5),
        ),
        (
            "entropy falls on the plateau of runs that will learn",
            {"plateau": True, "same_data": True, "falls": True},
            CurveWorld("none", step=0.3, early=0.3),
        ),
    ],
)


def parts(preset: ParityRuns) -> list[Part]:
    """The fall of entropy on the plateau: against large datasets that fail, against small ones that fail, alone."""
    small, large = (chosen(run.dataset_size for run in preset.runs) for chosen in (min, max))
    said = "4.2: during this plateau, the entropy in the attention layers continues to decrease"
    contrast = "fall of normalised entropy before accuracy rises, minus that of failed runs over the same samples"
    return [
        Part(
            key="plateau",
            name="entropy falls on the plateau, unlike in the failure case",
            role="paper",
            source=f"{said}; in contrast, in the failure case the entropy remains high throughout (Figure 5)",
            primary=True,
            quantity=f"{contrast}: {large:,} training samples",
            estimate=partial(plateau_contrast, small=small, failing=large),
            direction="above",
            threshold=0.0,
            why="the failure case is the control: any drift that has nothing to do with learning is in it as well",
            unit="runs",
            note=_counts,
        ),
        Part(
            key="same_data",
            name="it falls more than in runs that fail on the same data",
            role="control",
            quantity=f"{contrast}: {small:,} training samples too",
            estimate=partial(plateau_contrast, small=small, failing=small),
            direction="above",
            threshold=0.0,
            why="repeating a small dataset may make attention sparse whether or not the task is learned",
            unit="runs",
        ),
        Part(
            key="falls",
            name="entropy falls before accuracy rises, whatever failed runs do",
            role="paper",
            source=said,
            quantity="fall of normalised entropy from the start until accuracy has gone 10% of its way up",
            estimate=partial(plateau_fall, small=small),
            direction="above",
            threshold=RAPID,
            why="a tenth of the range of normalised entropy; a steady drift supports it too, so it is not primary",
            unit="seeds",
        ),
    ]


def plateau_contrast(found: Transitions, level: float, *, small: int, failing: int) -> Interval | NotMeasurable:
    """The fall on the plateau of solved runs minus that of failed runs with `failing` samples over the same time."""
    solved = found.solved[found.solved["dataset_size"] == small]
    failed = found.failed.loc[found.failed["dataset_size"] == failing, "fall"]
    return difference_of_means(solved["fall"], failed.dropna(), level, DIFFERENCE)


def plateau_fall(found: Transitions, level: float, *, small: int) -> Interval | NotMeasurable:
    """The fall on the plateau of solved runs."""
    return mean_over(found.solved.loc[found.solved["dataset_size"] == small, "fall"], level, DIFFERENCE)


def _counts(found: Transitions) -> str:
    told = []
    for size in sorted({*found.solved["dataset_size"], *found.failed["dataset_size"]}):
        for runs, what in ((found.solved, "solve the task"), (found.failed, "fail")):
            falls = runs.loc[runs["dataset_size"] == size, "fall"]
            by = f", entropy falls by {falls.mean():.2f}" if falls.notna().any() else ""
            told.append(f"{size:,} samples: {len(falls)} runs {what}{by}")
    return "; ".join(told)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Entropy against samples: every run, in the colour of what became of it; accuracy above."""
    from matplotlib.ticker import EngFormatter

    from interp.figures.style import BLUE, ORANGE, new_figure, styled

    history, runs = curves(rows), outcomes(rows)
    sizes = sorted(runs["dataset_size"].unique())
    with styled():
        figure = new_figure(4.2 * len(sizes) + 0.6, 4.8)
        panels = figure.subplots(2, len(sizes), sharex=True, sharey=True, squeeze=False)
        for column, size in enumerate(sizes):
            for run in runs[runs["dataset_size"] == size].itertuples():
                curve = history[history["run"] == run.run]
                colour = ORANGE if run.censored else BLUE
                for axes, metric in zip(panels[:, column], ("accuracy", "entropy_min")):
                    axes.plot(curve["samples"], curve[metric], color=colour, alpha=0.6, linewidth=1.1)
            panels[0, column].set_title(f"{size:,} training samples")
            panels[1, column].set_xlabel("samples seen")
            panels[1, column].xaxis.set_major_formatter(EngFormatter())
        for colour, label in ((BLUE, "solves the task"), (ORANGE, "fails")):
            panels[0, 0].plot([], [], color=colour, label=label)
        panels[0, 0].set(ylabel="validation accuracy", ylim=(-0.03, 1.05))
        panels[0, 0].legend(fontsize=8)
        panels[1, 0].set_ylabel("normalised entropy,\nmean over heads")
    return {"plateau": figure}


register(
    Claim(
        id=ID,
        sentence=(
            "Without CoT, training on a small repeated dataset is a slow mode: while the loss is on its plateau the "
            "entropy of attention already decreases; in the failure case it remains high throughout."
        ),
        method=(
            "Normalised entropy (eq. 1), averaged over heads, of runs that solve the task on the small dataset, from "
            "the start until validation accuracy has gone 10% of its way up; minus that of runs that fail, read "
            "after the same samples, on the large dataset and, as a control, on the small one."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n=8, k=2, d_model 32"),
            "cpu": Scale("smaller", "(n, k) = (16, 4) for (20, 6), 1L4H of d_model 128 for 4L4H of 720"),
            "paper": Scale("the paper's own numbers"),
        },
        finding=(
            "Until accuracy rises, normalised entropy falls by {falls} in runs that solve the task; by {plateau} "
            "more than in runs that fail on the large dataset, and by {same_data} more than in runs that fail on "
            "the same one."
        ),
        falls_short=(
            "The failure case differs from the solved runs by the size of its dataset as well as by failing: where "
            "runs that fail on the same small dataset become as sparse, what falls is entropy under repetition, not "
            "under learning. 'Remains high throughout' is read until the solved runs rise, not to the end."
        ),
        deviations=(
            "cpu: (n, k) = (16, 4) instead of (20, 6), 2,000 and 40,000 samples instead of 50,000 and 1,000,000 (3% "
            "and 45% of all inputs, drawn with replacement, instead of 5% and 61%), 800,000 samples seen instead of "
            "10^7, one layer with four heads of d_model 128 instead of 4L4H of 720, learning rate 3e-4 instead of "
            "1e-4; twelve seeds instead of one. paper: the paper's sizes. The plateau is that of validation "
            "accuracy: on a small dataset the training loss may fall by memorising. The smoke preset is far smaller "
            "still: it tests the code, not the claim."
        ),
        clarity=(
            "The paper shows one run of each kind. That the failing run sees a larger dataset leaves two reasons why "
            "its attention stays diffuse: it learns nothing, or it repeats nothing. The control separates them. The "
            "reason given for the primary part, that drift which has nothing to do with learning is in the failure "
            "case as well, is true of drift with time alone; repetition is not in it, and no simulated world has "
            "sparsity by repetition. At a learning rate of 3e-4 training without CoT often fails at two bits already "
            "(wen2024/causal-sparsity), and no arm here has an easier problem on the same data: a failure may be "
            "that of the rate."
        ),
        history=(
            "A part of wen2024/fig1b before, on other seeds, with the runs that fail on the small dataset as its "
            "only control: 0.01 [-0.57, 1.51] from three solved and two failed runs. The large dataset, which is the "
            "paper's failure case, was added then."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=lambda preset: preset.items,
        measure=measure_run,
        summary=transitions,
        parts=parts,
        worlds=WORLDS,
        published=lambda rows: rows[rows["metric"].isin(DRAWN)],
        figures=figures,
    )
)
