"""How far is each quantity of wen2024's lemmas from its bound? The figure of wen2024/lemmas."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from interp.figures.style import BLUE, GREEN, ORANGE, VERMILION, new_figure, styled

LINES = {
    "7_delta": "7, δ", "7_alpha_secret": "7, α at j = S[i]", "7_alpha_other": "7, α elsewhere (printed: 0)",
    "7_beta": "7, β", "7_psi": "7, ψ", "7_gamma": "7, γ", "7_zeta": "7, ζ", "10": "10", "16": "16",
    "19": "19", "19_mended": "19, first step's term added", "21_secret": "21, score of S[i]",
    "21_others": "21, other scores", "22": "22", "24": "24", "25": "25",
    "25_mended": "25, frequencies of pairs", "26": "26", "27": "27",
}  # fmt: skip
SMALLEST, LARGEST = 1e-3, 1e3


def draw_over_bounds(found: pd.DataFrame, arms: Mapping[str, str]) -> Figure:
    """Every quantity over its bound, the middle seed and the range over seeds, by arm and size."""
    groups = list(found.groupby(["condition", "n", "k"]))
    order = list(arms)
    groups.sort(key=lambda group: (order.index(group[0][0]), group[0][1]))
    with styled():
        figure = new_figure(8.4, 7.2)
        axes = figure.subplots()
        styles = zip((BLUE, ORANGE, GREEN, VERMILION, "0.4"), "osD^v")
        places = np.arange(len(LINES))[::-1]
        for shift, ((arm, n, k), group), (colour, marker) in zip(
            np.linspace(0.27, -0.27, len(groups)), groups, styles
        ):
            by = group.groupby("metric")["value"]
            low, middle, high = (
                np.clip(by.quantile(q).reindex(list(LINES)), SMALLEST, LARGEST) for q in (0.0, 0.5, 1.0)
            )
            label = f"{arms[arm]}: n={n}, k={k}"
            axes.hlines(places + shift, low, high, color=colour, linewidth=1.5)
            axes.plot(middle, places + shift, marker, color=colour, ms=4, label=label)
        axes.axvline(1, color="0.3", linestyle="--")
        axes.set_xscale("log")
        axes.set_xlim(SMALLEST / 1.5, LARGEST * 1.5)
        axes.set_yticks(places, list(LINES.values()))
        axes.set(
            xlabel=f"quantity over its printed bound, at most 1 if it holds (clipped at {SMALLEST:g}, {LARGEST:g})",
            ylabel="lemma of appendix B.4",
        )
        axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2)
    return figure
