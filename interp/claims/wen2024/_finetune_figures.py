"""What does fine-tuning look like? Entropy and held-out loss against the dose, arm by arm and run by run."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from interp.claims.wen2024._finetune import ELSEWHERE, MEASURES, PUBLISHED, Measure
from interp.claims.wen2024._tuned import ARMS, BASE, TEXTS, Tuned, run_name
from interp.figures.style import BLUE, GREEN, VERMILION, new_figure, styled
from probes.rows import with_settings

STYLE: dict[str, dict[str, Any]] = {
    "cot": {"color": BLUE, "marker": "o"},
    "no_cot": {"color": VERMILION, "marker": "s"},
    "prose": {"color": GREEN, "marker": "^"},
}
PANELS = {
    "as published:\nall tokens of CoT text": PUBLISHED,
    "the same sentence,\nafter CoT": MEASURES["sentence"],
    "the same sentence,\nafter CoT, without the sink": MEASURES["no_sink"],
    "the same sentence,\nright after the question": ELSEWHERE,
}


def dose_response(found: Tuned) -> Figure:
    """The change of the normalised entropy from the base against the dose; thin lines are training runs."""
    with styled():
        figure = new_figure(2.9 * len(PANELS), 3.6)
        grid = figure.subplots(1, len(PANELS), sharey=True)
        for axes, (title, measure) in zip(grid, PANELS.items()):
            for arm in ARMS:
                _curves(axes, found.doses, _changes(found, measure, arm), arm)
            axes.axhline(0, color="0.3", linewidth=0.8)
            axes.axhline(-measure.smallest, color="0.3", linestyle="--", linewidth=0.8)
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("tokens of fine-tuning")
        grid[0].set_ylabel("change of the minimum of the\nnormalised entropy, mean over heads")
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return figure


def _changes(found: Tuned, measure: Measure, arm: str) -> np.ndarray:
    """[dose run], with the base as dose 0."""
    place = (measure.metric, measure.scope, measure.text)
    changes = [np.nanmean(found.change(place, arm, dose), axis=0) for dose in found.doses]
    return np.stack([np.zeros(len(found.seeds)), *changes])


def _curves(axes: Axes, doses: tuple[int, ...], changes: np.ndarray, arm: str) -> None:
    """One thin line for each run, and their mean; doses are equally far apart, and named."""
    places = range(len(doses) + 1)
    axes.plot(places, changes, color=STYLE[arm]["color"], linewidth=0.8, alpha=0.5)
    axes.plot(places, changes.mean(1), **STYLE[arm], label=f"tuned on {TEXTS[arm]}")
    axes.set_xticks(places, [f"{dose:,}" for dose in (0, *doses)], fontsize=8)


def learning(found: Tuned, rows: pd.DataFrame) -> Figure:
    """Training loss against tokens, and the held-out loss on every text against the dose, run by run."""
    with styled():
        figure = new_figure(3.0 * (1 + len(ARMS)), 3.4)
        left, *others = figure.subplots(1, 1 + len(ARMS))
        curves = with_settings(rows[rows["metric"] == "training_loss"]).sort_values("update")
        for (arm, _), curve in curves.groupby(["condition", "run"]):
            left.plot(curve["tokens"], curve["value"], color=STYLE[str(arm)]["color"], linewidth=0.8, alpha=0.8)
        left.set_xlabel("tokens of fine-tuning")
        left.set_ylabel("training loss (nats per token)")
        for axes, text in zip(others, ARMS):
            for arm in ARMS:
                models = [[(BASE, 0)] * len(found.seeds)]
                models += [[(run_name(arm, seed), dose) for seed in found.seeds] for dose in found.doses]
                means = np.array([[np.nanmean(found.losses[text, *model]) for model in line] for line in models])
                _curves(axes, found.doses, means, arm)
            axes.set_title(f"held-out {TEXTS[text]}", fontsize=9)
            axes.set_xlabel("tokens of fine-tuning")
        figure.legend(*others[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return figure
