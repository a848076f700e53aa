"""wen2024, Figure 1b: does accuracy jump when attention becomes sparse?

Each solved run gives two curves, validation accuracy and normalised attention entropy averaged over heads. Entropy
that falls steadily, for reasons of its own, also falls while accuracy jumps; so what counts is how much more it falls
from the moment when accuracy leaves its plateau until it is perfect than its rates before and after would have it.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wen2024._curves import DRAWN, curves, difference_of_means
from interp.claims.wen2024._runs import LOOPS, ParityRuns, RecipeRun, measure_run, outcomes
from interp.claims.wen2024._transitions import RAPID, Transitions, transitions
from interp.claims.wen2024._worlds_curves import CurveWorld, Simulated, curve_worlds
from interp.core.claim import Claim, Scale, register
from interp.core.judging import mean_over
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig1b"
CONDITIONS = {"cot": "with CoT", "no_cot": "without CoT"}

_SMALL = RecipeRun(cot=True, n=8, k=2, d_model=32, d_mlp=128, lr=3e-3, eval_every=1024, n_held_out=32, budget=24_576)
_CPU = RecipeRun(cot=True, n=30, k=3, budget=250_000, eval_every=4096, stop_when_perfect=False, decay_over=10_000_000)
PRESETS = {
    "smoke": ParityRuns((_SMALL, replace(_SMALL, cot=False)), seeds=2),
    "cpu": ParityRuns((_CPU, replace(_CPU, cot=False, k=2)), seeds=16),
    "paper": ParityRuns(
        (
            replace(_CPU, d_model=720, d_mlp=3072, budget=1_000_000),
            replace(_CPU, cot=False, d_model=720, d_mlp=3072, budget=10_000_000, eval_every=20_480),
        ),
        seeds=16,
    ),
}


_NO_DROP = {"cot_drop": False, "no_cot_drop": False}
WORLDS = curve_worlds(
    [Simulated(PRESETS["cpu"].runs[0], 100_000, solves=1.0), Simulated(PRESETS["cpu"].runs[1], 130_000, solves=0.7)],
    PRESETS["cpu"].seeds,
    [
        ("entropy drifts down along a line", {**_NO_DROP, "control": False}, CurveWorld("line")),
        ("entropy falls along a broad sigmoid of its own", {**_NO_DROP, "control": False}, CurveWorld("sigmoid")),
        ("a drift, and the least drop that counts", _NO_DROP, CurveWorld("line", step=RAPID)),
        ("entropy falls long before the jump", {**_NO_DROP, "control": False}, CurveWorld("none", step=0.5, at=0.4)),
        (
            "entropy falls on the plateau, and most at the jump",
            {"cot_drop": True, "no_cot_drop": True, "control": True},
            CurveWorld("none", step=0.5, early=0.2),
        ),
    ],
)


def parts(preset: ParityRuns) -> list[Part]:
    """In both conditions, entropy drops around the jump of accuracy; without CoT more than in runs that fail."""
    quantity = "fall of normalised entropy while accuracy rises, beyond its rates before and after"
    drops = [
        Part(
            key=f"{condition}_drop",
            name=f"{name}: entropy drops when accuracy jumps",
            role="paper",
            source="Figure 1b: a rapid decrease in normalized entropy, a corresponding jump in evaluation accuracy",
            primary=True,
            quantity=f"{quantity}, by seed",
            estimate=partial(mean_drop, condition=condition),
            direction="above",
            threshold=RAPID,
            why="a tenth of the range of normalised entropy, beyond the trend, is the least to be called rapid",
            unit="seeds",
            note=partial(_timing, condition=condition),
        )
        for condition, name in CONDITIONS.items()
    ]
    control = Part(
        key="control",
        name="without CoT: runs that fail have no such drop then",
        role="control",
        quantity=f"{quantity}, minus that of runs that fail after the same samples",
        estimate=drop_contrast,
        direction="above",
        threshold=0.0,
        why="what happens to attention at that time, learning or not, happens in failed runs as well",
        unit="runs",
    )
    late = [
        Part(
            key=f"{condition}_late",
            name=f"{name}: entropy drops in the second half of accuracy's way up",
            role="ours",
            quantity=f"{quantity}, from half of accuracy's way up on, by seed",
            estimate=partial(mean_drop, condition=condition, measure="late"),
            direction="above",
            threshold=RAPID,
            why="as above: whether it matters where the jump is said to begin",
            unit="seeds",
            added_later=True,
        )
        for condition, name in CONDITIONS.items()
    ]
    return [*drops, control, *late]


def mean_drop(found: Transitions, level: float, *, condition: str, measure: str = "drop") -> Interval | NotMeasurable:
    """The drop around the jump beyond the trend, mean over solved runs whose curves go on long enough."""
    solved = found.of(condition)[measure]
    seen = int(solved.notna().sum())
    if seen < 2:
        return NotMeasurable(f"{len(solved)} runs solve the task, {seen} early enough to see what follows")
    return mean_over(solved.dropna(), level)


def drop_contrast(found: Transitions, level: float) -> Interval | NotMeasurable:
    """Without CoT, the drop of solved runs minus that of failed runs after the same samples."""
    failed = found.failed[found.failed["condition"] == "no_cot"]
    drops = (found.of("no_cot")["drop"].dropna(), failed["drop"].dropna())
    return difference_of_means(*drops, level, (-2.0, 2.0))


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
        for axes, (condition, name) in zip(panels, (("cot", "with CoT"), ("no_cot", "without CoT"))):
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
            axes.legend(fontsize=8, loc="best")
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
            "with CoT and without."
        ),
        method=(
            "Validation accuracy and normalised entropy (eq. 1), averaged over heads, of runs that solve the task. "
            "The jump lasts from the last evaluation before accuracy has gone 10% of its way up until the first "
            "perfect one. The fall of entropy in that time, minus what it would be at the mean of its rates before "
            "(from the start) and after (over as much time): zero for a line. Control: the same of runs that fail, "
            "at the same samples."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n=8, k=2, d_model 32"),
            "cpu": Scale("smaller", "d_model 128 for 720, one layer and head; k=3 with CoT, k=2 without"),
            "paper": Scale("the paper's own numbers", "Figure 1b names no problem: that of Figure 1a"),
        },
        finding=(
            "Fall of normalised entropy around the jump of accuracy, beyond its trend: {cot_drop} with CoT, "
            "{no_cot_drop} without. Where the jump is said to begin half-way up instead of at a tenth: {cot_late} "
            "with CoT, {no_cot_late} without."
        ),
        falls_short=(
            "With CoT accuracy rises in stages, one for each step of the chain, over most of the run, and entropy "
            "falls with the first of them: that it falls while accuracy rises depends on where the rise is said to "
            "begin (at a tenth of it, as declared; half-way up, added after the data). The measure of the fall was "
            "chosen after earlier runs had been seen to pass it; and where no run fails, nothing shows that runs "
            "which do not learn keep their entropy."
        ),
        deviations=(
            "Figure 1b names no problem; Figure 1a beside it has n=30, one layer and one head, fresh samples. cpu: "
            "that, with k=3 with CoT and k=2 without, which is what the condition learns within 250,000 samples; "
            "d_model 128 instead of 720, learning rate 1e-4, falling to 0 over 10^7 samples as in the paper, so that "
            "a run is the beginning of the paper's; 16 seeds instead of one curve. paper: d_model 720, k=3 in both. "
            "The claim is about two events within one run. Without CoT a repeated dataset is another setting, that "
            "of Figure 5: see wen2024/fig5-slow and fig11. The smoke preset is far smaller still: it tests the code, "
            "not the claim."
        ),
        clarity=(
            "The paper shows one run in each condition and gives no measure of 'rapid' or of 'corresponding'. Two "
            "curves that both change within one run coincide easily; that sparsity is what makes accuracy jump "
            "needs an intervention (wen2024/causal-sparsity). With CoT accuracy, all steps right, jumps last, while "
            "attention may have become sparse step by step; no simulated world has such stages. No run of this "
            "size failed, so the control has nothing to compare with."
        ),
        history=(
            "Judged before by the distance of the two change points (below 0.25 of the samples to solution) and by "
            "the order of the two onsets. In simulated worlds where entropy drifts down along a line, whatever "
            "accuracy does, the first was supported in 68 to 98% and the second in 99 to 100% of the draws, because "
            "reading twice the samples to solution centres any smooth drift on the jump; both were replaced. The "
            "first judge of all read whole budgets, which moved the change points. Then, with five seeds, every "
            "part was inconclusive: 0.04 [-0.53, 0.61] with CoT, where what was read was a period around the change "
            "point of accuracy. That misses its jump: with three steps accuracy rises in stages. In the present "
            "measure the same five runs have 0.36 to 0.61; it was chosen after seeing that. Without CoT the runs "
            "were those of wen2024/fig11, on repeated data; their plateau is now wen2024/fig5-slow."
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
