"""wen2024, Figures 1b and 5 (top): does accuracy jump when attention becomes sparse?

Each solved run gives two curves, validation accuracy and normalised attention entropy averaged over heads. Entropy
that falls steadily, for reasons of its own, also falls while accuracy jumps; so what counts is how much more it falls
around the jump than in the periods just before and after, which is nothing for a line or a parabola. And on the
plateau before the jump it must fall more than in runs that never solve the task, over the same samples.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wen2024._curves import DRAWN, curves, difference_of_means
from interp.claims.wen2024._runs import LOOPS, ParityRun, ParityRuns, measure_run, outcomes
from interp.claims.wen2024._transitions import NEAR, RAPID, WINDOW, Transitions, transitions
from interp.claims.wen2024._worlds_fig1b import worlds
from interp.core.claim import Claim, Scale, register
from interp.core.judging import mean_over
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig1b"
CONDITIONS = {"cot": "with CoT", "no_cot": "without CoT"}
CHANGES = (-1.0, 1.0)
"""Bounds of a change of normalised entropy."""

_SMALL = ParityRun(cot=True, n=8, k=2, d_model=32, d_mlp=128, lr=3e-3, eval_every=1024, n_held_out=32, budget=24_576)
_CPU = ParityRun(cot=True, n=30, k=3, budget=300_000, stop_when_perfect=False)
PRESETS = {
    "smoke": ParityRuns((_SMALL, replace(_SMALL, cot=False, dataset_size=128)), seeds=2),
    "cpu": ParityRuns(
        (
            _CPU,
            replace(
                _CPU, cot=False, n=16, k=4, heads=4, lr=3e-4, dataset_size=2_000, budget=800_000, n_held_out=1024
            ),
        ),
        seeds=5,
    ),
    "paper": ParityRuns(
        (
            replace(_CPU, d_model=720, d_mlp=3072, budget=1_000_000),
            replace(
                _CPU, cot=False, n=20, k=6, layers=4, heads=4, d_model=720, d_mlp=3072, dataset_size=50_000,
                budget=10_000_000, eval_every=20_480,
            ),
        ),
        seeds=5,
    ),
}  # fmt: skip


def parts(preset: ParityRuns) -> list[Part]:
    """Entropy drops around the jump in both conditions; without CoT also on the plateau before it."""
    drops = [
        Part(
            key=f"{condition}_drop",
            name=f"{name}: entropy drops when accuracy jumps",
            role="paper",
            source="Figure 1b: a rapid decrease in normalized entropy, a corresponding jump in evaluation accuracy",
            primary=True,
            quantity="fall of normalised entropy around accuracy's jump beyond its fall before and after, by seed",
            estimate=partial(mean_drop, condition=condition),
            direction="above",
            threshold=RAPID,
            why="a tenth of the range of normalised entropy, beyond the trend, is the least to be called rapid",
            unit="seeds",
            note=partial(_timing, condition=condition),
        )
        for condition, name in CONDITIONS.items()
    ]
    plateau = Part(
        key="plateau",
        name="without CoT: on the plateau entropy falls, unlike in runs that fail",
        role="paper",
        source="4.2: during this plateau the entropy continues to decrease; in contrast, in the failure case it "
        "remains high throughout",
        primary=True,
        quantity="fall of normalised entropy before accuracy rises, minus that of failed runs over the same samples",
        estimate=plateau_contrast,
        direction="above",
        threshold=0.0,
        why="failed runs are the control: any drift that has nothing to do with learning is in them as well",
        unit="runs",
        note=partial(_timing, condition="no_cot"),
    )
    falls = Part(
        key="plateau_fall",
        name="without CoT: entropy falls before accuracy rises, whatever failed runs do",
        role="paper",
        source="4.2: during this plateau, the entropy in the attention layers continues to decrease",
        quantity="fall of normalised entropy from the start until accuracy has gone 10% of its way up",
        estimate=plateau_fall,
        direction="above",
        threshold=RAPID,
        why="as around the jump: a tenth of the range; a steady drift supports it too, so it is not primary",
        unit="seeds",
    )
    return [*drops, plateau, falls]


def mean_drop(found: Transitions, level: float, *, condition: str) -> Interval | NotMeasurable:
    """The drop around the jump beyond the trend, mean over solved runs whose curves go on long enough."""
    solved = found.of(condition)["drop"]
    seen = int(solved.notna().sum())
    if seen < 2:
        return NotMeasurable(f"{len(solved)} runs solve the task, {seen} early enough to see what follows")
    return mean_over(solved.dropna(), level)


def plateau_contrast(found: Transitions, level: float) -> Interval | NotMeasurable:
    """The fall on the plateau of solved runs minus that of failed runs over the same samples."""
    failed = found.failed[found.failed["condition"] == "no_cot"]
    return difference_of_means(found.of("no_cot")["fall"], failed["fall"].dropna(), level, CHANGES)


def plateau_fall(found: Transitions, level: float) -> Interval | NotMeasurable:
    """The fall on the plateau of solved runs."""
    return mean_over(found.of("no_cot")["fall"], level, CHANGES)


def _timing(found: Transitions, condition: str) -> str:
    of, failed = found.of(condition), int((found.failed["condition"] == condition).sum())
    if of.empty:
        return "no run solves the task"
    after = ((of["accuracy_change"] - of["entropy_change"]) / of["samples"]).mean()
    return (
        f"{len(of)} runs solve the task, {failed} fail; the change point of accuracy comes {after:+.2f} of the "
        "samples to solution after that of entropy"
    )


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The two curves of one run in each condition, and the change points of all solved runs."""
    from matplotlib.ticker import EngFormatter

    from interp.figures.style import BLUE, CONDITION_STYLE, ORANGE, new_figure, styled

    found, history, runs = transitions(rows).solved, curves(rows), outcomes(rows)
    with styled():
        figure = new_figure(12.0, 4.0)
        *panels, scatter = figure.subplots(1, 3)
        for axes, (condition, name) in zip(panels, (("cot", "with CoT"), ("no_cot", "without CoT, repeated data"))):
            run = runs[runs["condition"] == condition].sort_values("unit").iloc[0]
            curve, of_run = history[history["run"] == run["run"]], found[found["run"] == run["run"]]
            style = {"accuracy": (BLUE, "-"), "entropy": (ORANGE, "--")}
            for metric, (colour, line) in style.items():
                column = "accuracy" if metric == "accuracy" else "entropy_min"
                label = "accuracy" if metric == "accuracy" else "normalised entropy,\nmean over heads"
                axes.plot(curve["samples"], curve[column], color=colour, linestyle=line, label=label)
                for change in of_run[f"{metric}_change"]:
                    axes.axvline(change, color=colour, linestyle=":", linewidth=1.2)
            axes.set(title=f"{name}\nn={run['n']}, k={run['k']}, seed {run['unit']}", ylim=(-0.03, 1.05))
            axes.set_xlabel("training samples seen (dotted: change points)")
            axes.xaxis.set_major_formatter(EngFormatter())
            axes.legend(fontsize=8, loc="lower right")
        for condition, group in found.groupby("condition"):
            style = {**CONDITION_STYLE[str(condition)], "linestyle": ""}
            scatter.plot(group["accuracy_change"], group["entropy_change"], **style)
        if len(found):
            scatter.axline((found["samples"].max(), found["samples"].max()), slope=1, color="0.6", linewidth=1)
            scatter.set(xscale="log", yscale="log")
            scatter.legend(fontsize=8)
        scatter.set(title="every solved run", xlabel="change point of accuracy (samples)")
        scatter.set_ylabel("change point of entropy (samples)")
    return {"coincidence": figure}


register(
    Claim(
        id=ID,
        sentence=(
            "As attention becomes sparser, shown by a rapid decrease of its normalised entropy, accuracy jumps, "
            "with CoT and without; without CoT entropy already falls during the plateau before the jump."
        ),
        method=(
            "Validation accuracy and normalised entropy (eq. 1), averaged over heads, of runs that solve the task. "
            f"The jump is the change point of accuracy (best least-squares step, read up to {WINDOW} times the "
            f"samples to solution). Around it, within {NEAR:g} of the samples to solution, the fall of entropy minus "
            "its mean fall in the two periods of equal length before and after: zero for a line or a parabola. "
            "Without CoT also the fall before accuracy has gone 10% of its way up, minus that of the runs that "
            "fail, over the same samples."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n=8, k=2, d_model 32"),
            "cpu": Scale("smaller", "d_model 128 for 720; without CoT (n, k) = (16, 4) for (20, 6), 1L4H for 4L4H"),
            "paper": Scale("the paper's own numbers"),
        },
        finding=(
            "Fall of normalised entropy around the jump of accuracy, beyond its trend: {cot_drop} with CoT, "
            "{no_cot_drop} without; on the plateau before it, beyond that of runs that fail: {plateau}."
        ),
        deviations=(
            "cpu: d_model 128 instead of 720, five seeds instead of one curve. With CoT n=30, k=3, one layer, one "
            "head and fresh samples, as in Figure 1. Without CoT (n, k) = (16, 4), one layer of four heads, 2,000 "
            "samples repeated and learning rate 3e-4, instead of (20, 6), 4L4H, 50,000 samples and 1e-4: the "
            "paper's 'slow mode', a plateau followed by a transition, is the same and takes seconds. paper: the "
            "paper's sizes, five seeds. The claim is about the order of two events within one run, which does not "
            "depend on the size of the model. The runs without CoT are those of wen2024/fig11, so the two claims "
            "are not independent evidence. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        clarity=(
            "The paper shows one run in each condition and gives no measure of 'rapid' or of 'corresponding'. Two "
            "curves that both change within one run coincide easily; that sparsity is what makes accuracy jump "
            "would need an intervention. Its sentence on the failure case is what makes the plateau testable: "
            "failed runs are the control for a drift."
        ),
        history=(
            "Judged before by the distance of the two change points (below 0.25 of the samples to solution) and by "
            "the order of the two onsets. In simulated worlds where entropy drifts down along a line, whatever "
            "accuracy does, the first was supported in 68 to 98% and the second in 99 to 100% of the draws, because "
            "reading twice the samples to solution centres any smooth drift on the jump; both were replaced. The "
            "first judge of all read whole budgets, which moved the change points; no verdict had changed with that."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=lambda preset: preset.items,
        measure=measure_run,
        summary=transitions,
        parts=parts,
        worlds=worlds(PRESETS["cpu"].runs),
        published=lambda rows: rows[rows["metric"].isin(DRAWN)],
        figures=figures,
    )
)
