"""What do models trained with CoT and without look like? Both on the same texts, and both in training."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from interp.claims.wen2024._scratch import ARMS, COT, DIRECT, Trained
from interp.figures.style import BLUE, VERMILION, new_figure, styled
from probes.rows import with_settings

PANELS = {
    "text with CoT, all tokens": ("min", "all", COT),
    "closing sentence after CoT": ("min", "final", COT),
    "text without CoT, all tokens": ("min", "all", DIRECT),
}
COLOURS = {COT: BLUE, DIRECT: VERMILION}


def both_models(found: Trained) -> Figure:
    """One mark for each problem, mean over training runs; below the diagonal training with CoT is sparser."""
    with styled():
        figure = new_figure(3.2 * len(PANELS), 3.4)
        for axes, (title, place) in zip(figure.subplots(1, len(PANELS)), PANELS.items()):
            with_cot, without = (np.nanmean(found.entropy[arm, *place], axis=1) for arm in ARMS)
            axes.plot(without, with_cot, "o", ms=3, alpha=0.6, color=BLUE)
            ends = [min(with_cot.min(), without.min()), max(with_cot.max(), without.max())]
            axes.plot(ends, ends, color="0.3", linewidth=0.8)
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("trained without CoT")
            axes.set_ylabel("trained with CoT")
        figure.suptitle("minimum of the normalised entropy, mean over heads and training runs", fontsize=9)
    return figure


def in_training(rows: pd.DataFrame) -> Figure:
    """Solved held-out problems, and entropy on each text, against tokens; one line for each run."""
    table = with_settings(rows)
    table["tokens"] = table["tokens"].astype(float) / 1e6
    shown = {"held-out problems solved, share": table["metric"] == "solved"}
    for title, (metric, scope, text) in PANELS.items():
        chosen = (table["metric"] == metric) & (table["scope"] == scope) & (table["condition"] == text)
        shown[f"entropy: {title}"] = chosen
    with styled():
        figure = new_figure(2.9 * len(shown), 3.4)
        grid = figure.subplots(1, len(shown))
        for axes, (title, chosen) in zip(grid, shown.items()):
            for arm, words in ARMS.items():
                of_arm = table[chosen & (table["training"] == arm)]
                curves = of_arm.pivot_table(index="tokens", columns="seed", values="value")
                axes.plot(curves.index, curves.to_numpy(), color=COLOURS[arm], linewidth=0.8, alpha=0.6)
                axes.plot(curves.index, curves.mean(axis=1), "o-", ms=3, color=COLOURS[arm], label=f"trained {words}")
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("million tokens of training")
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8)
    return figure
