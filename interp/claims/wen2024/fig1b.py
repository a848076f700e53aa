"""wen2024, Figures 1b and 5 (top): does accuracy jump when attention becomes sparse?

Each solved run gives two curves, validation accuracy and normalised attention entropy averaged over heads. Their
change points (best single step by least squares) are compared, and without CoT also their onsets. Distances are
divided by the run's own samples to solution, so the scale of the clock does not matter. Curves are read up to twice
the samples to solution, because a change point fitted to the whole budget would depend on the budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun, ParityRuns, measure_run, outcomes
from interp.core.claim import Claim, register
from interp.core.verdict import Verdict, judged
from interp.statistics import cautious_mean, change_point, onset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig1b"
COINCIDES = 0.25
"""Change points closer than this share of the time to solution coincide."""

WINDOW = 2
"""Curves are read up to this many times the samples to solution: a budget, which is arbitrary, must not matter."""

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


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy, and entropy averaged over heads, of every run and step."""
    metrics = rows[rows["metric"].isin(["accuracy", "entropy_min"])]
    return metrics.groupby(["run", "samples", "metric"])["value"].mean().unstack("metric").reset_index()


def changes(rows: pd.DataFrame) -> pd.DataFrame:
    """Change points and onsets of both curves, in samples, one row for each solved run."""
    runs = outcomes(rows)
    solved = runs[~runs["censored"]].set_index("run")
    found = []
    for run, curve in curves(rows).groupby("run"):
        if run in solved.index:
            curve = curve[curve["samples"] <= WINDOW * solved.loc[run, "samples"]]
            steps = curve["samples"].to_numpy()
            record = {"run": run, **solved.loc[run, ["condition", "unit", "samples"]]}
            for name, metric in (("accuracy", "accuracy"), ("entropy", "entropy_min")):
                record[f"{name}_change"] = change_point(steps, curve[metric].to_numpy())
                record[f"{name}_onset"] = onset(steps, curve[metric].to_numpy())
            found.append(record)
    columns = ["run", "condition", "unit", "samples"]
    columns += [f"{name}_{what}" for name in ("accuracy", "entropy") for what in ("change", "onset")]
    return pd.DataFrame(found, columns=columns)


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The distance of the change points in both conditions, and the order of the onsets without CoT."""
    found, runs = changes(rows), outcomes(rows)
    verdicts = []
    for condition, name in (("cot", "with CoT"), ("no_cot", "without CoT")):
        of = found[found["condition"] == condition]
        distance = (of["accuracy_change"] - of["entropy_change"]) / of["samples"]
        note = f"{len(of)} of {(runs['condition'] == condition).sum()} runs solve the task; only these are judged"
        side = f"accuracy changes {distance.mean():+.2f} of the way after entropy" if len(of) else "none solved"
        note = f"{note}; {side}"
        verdicts.append(
            judged(
                cautious_mean(distance.abs().to_numpy(float), rng=0, bounds=(0, np.inf)),
                part=f"{name}: entropy drops when accuracy jumps",
                quantity="distance of the two change points / samples to solution",
                threshold=COINCIDES,
                direction="below",
                claim=ID,
                unit="seeds",
                note=note,
            )
        )
    lead = (of["accuracy_onset"] - of["entropy_onset"]) / of["samples"]
    verdicts.append(
        judged(
            cautious_mean(lead.to_numpy(float), rng=0),
            part="without CoT: entropy starts to fall before accuracy rises",
            quantity="(onset of accuracy - onset of entropy) / samples to solution",
            threshold=0.0,
            direction="above",
            claim=ID,
            unit="seeds",
            note=note,
        )
    )
    return verdicts


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The two curves of one run in each condition, and the change points of all solved runs."""
    from matplotlib.ticker import EngFormatter

    from interp.figures.style import BLUE, CONDITION_STYLE, ORANGE, new_figure, styled

    found, history, runs = changes(rows), curves(rows), outcomes(rows)
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
            "As attention becomes sparser, shown by a rapid decrease of its normalised entropy, accuracy jumps, with "
            "CoT and without; without CoT entropy already falls during the plateau before the jump."
        ),
        test=(
            "Solved runs, read up to "
            f"{WINDOW} times their samples to solution; accuracy on validation and normalised entropy averaged over "
            "heads; change point = best least-squares step. With CoT and without: the distance of the two change "
            f"points is below {COINCIDES:g} of the samples to solution. Without CoT (the slow mode): entropy has "
            "gone 10% of its way down before accuracy has gone 10% of its way up. 95% interval over seeds."
        ),
        deviations=(
            "cpu: d_model 128 instead of 720, five seeds instead of one curve. With CoT n=30, k=3, one layer, one "
            "head and fresh samples, as in Figure 1. Without CoT (n, k) = (16, 4), one layer of four heads, 2,000 "
            "samples repeated and learning rate 3e-4, instead of (20, 6), 4L4H, 50,000 samples and 1e-4: the paper's "
            "'slow mode', a plateau followed by a transition, is the same and takes seconds. paper: the paper's "
            "sizes, five seeds. The claim is about the order of two events within one run, which does not depend on "
            "the size of the model. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=lambda preset: preset.items,
        measure=measure_run,
        judge=judge,
        figures=figures,
    )
)
