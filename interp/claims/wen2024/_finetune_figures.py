"""What does fine-tuning look like? Every declared difference with its training runs, and what was learned."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from interp.figures.style import BLUE, CONDITION_STYLE, GREEN, VERMILION, new_figure, styled
from interp.statistics import Interval
from probes.rows import with_settings

TUNED = {"cot": "tuned with CoT", "no_cot": "tuned without CoT"}


def difference_forest(differences: Mapping[str, tuple[Interval, Sequence[float]]], threshold: float) -> Figure:
    """One line for each test: estimate and interval, and a small mark for each training run."""
    with styled():
        figure = new_figure(9.6, 0.36 * len(differences) + 1.2)
        axes = figure.subplots()
        for place, (interval, by_run) in enumerate(differences.values()):
            errors = [[interval.value - interval.low], [interval.high - interval.value]]
            axes.errorbar(interval.value, place, xerr=errors, fmt="o", color=BLUE, capsize=3, zorder=3)
            axes.scatter(by_run, np.full(len(by_run), place + 0.25), s=14, marker="^", color=GREEN, zorder=3)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.axvline(threshold, color=VERMILION, linestyle="--", linewidth=1)
        axes.set_yticks(range(len(differences)), list(differences), fontsize=8)
        axes.invert_yaxis()
        figure.supxlabel(
            "difference of normalised attention entropy, mean over heads\n"
            f"(circle: mean with 95% interval; triangles: training runs; dashed: claimed to lie below {threshold:g})",
            fontsize=9,
        )
    return figure


def learning(rows: pd.DataFrame) -> Figure:
    """Training loss against tokens, and the held-out loss on both texts before and after, run by run."""
    with styled():
        figure = new_figure(9.2, 3.6)
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _training_curves(left, rows[rows["metric"] == "training_loss"])
        _held_out_losses(right, rows[rows["metric"] == "answer_loss"])
    return figure


def _training_curves(axes: Axes, curves: pd.DataFrame) -> None:
    for (arm, run), curve in curves.groupby(["condition", "run"]):
        style = {k: v for k, v in CONDITION_STYLE[str(arm)].items() if k in ("color", "linestyle")}
        label = TUNED[str(arm)] if run == curves[curves["condition"] == arm]["run"].min() else None
        curve = with_settings(curve).sort_values("update")
        axes.plot(curve["tokens"], curve["value"], **style, linewidth=1, alpha=0.8, label=label)
    axes.set_ylim(0, 1.1 * curves["value"].max())
    axes.set_xlabel("training tokens (question and continuation)")
    axes.set_ylabel("training loss\n(nats per supervised token)")
    axes.legend(title="one line per seed", fontsize=8, title_fontsize=8)


def _held_out_losses(axes: Axes, losses: pd.DataFrame) -> None:
    means = losses.groupby(["condition", "run"])["value"].mean()
    for place, text in enumerate(("cot", "no_cot")):
        for run, value in means[text].items():
            arm = next((arm for arm in TUNED if str(run).startswith(f"{arm}-tuned")), None)
            style = CONDITION_STYLE[arm] if arm else {"color": "0.3", "marker": "D"}
            shift = {None: -0.2, "cot": 0.0, "no_cot": 0.2}[arm]
            label = (TUNED[arm] if arm else "base") if place == 0 else None
            known = axes.get_legend_handles_labels()[1]
            axes.scatter(
                place + shift, value, s=30, color=style["color"], marker=style["marker"], alpha=0.8,
                label=None if label in known else label,
            )  # fmt: skip
    axes.set_xticks((0, 1), ("CoT text", "no-CoT text"))
    axes.set_xlim(-0.5, 1.5)
    axes.set_ylim(0, 1.1 * means.max())
    axes.set_xlabel("held-out problems")
    axes.set_ylabel("loss (nats per token)")
    axes.legend(fontsize=8)
