"""What do kim2024/thm2 and lemmas look like? Variances over all secrets, and quantities over their bounds."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from interp.figures.style import BLUE, GREEN, PURPLE, VERMILION, new_figure, styled

MODEL_STYLES: Mapping[str, dict[str, Any]] = {
    "theory": {"color": BLUE, "marker": "o", "label": "theory model, own chain"},
    "perceptron": {"color": GREEN, "marker": "^", "label": "perceptron"},
    "transformer": {"color": PURPLE, "marker": "D", "label": "transformer"},
    "one_parity": {"color": VERMILION, "marker": "s", "label": "one parity (reaches the bound)"},
}


def variance_against_secrets(found: pd.DataFrame) -> Figure:
    """Variance over E|grad f|^2 at k = d/2 over all inputs, at random weights and after training, with 1 / |P|."""
    half = found[(found["n"] == 0) & (found["k"] == found["d"] // 2)]
    half = half.assign(share=half["ratio"] / half["secrets"])
    times = sorted(half["update"].unique())
    with styled():
        figure = new_figure(4.3 * len(times) + 0.6, 4.0)
        panels = np.atleast_1d(figure.subplots(1, len(times), sharey=True))
        for axes, update in zip(panels, times):
            at = half[half["update"] == update]
            sizes = np.array(sorted(at["secrets"].unique()), dtype=float)
            axes.plot(sizes, 1 / sizes, color="0.4", linestyle="--", label="bound, 1 / number of secrets")
            for model, style in MODEL_STYLES.items():
                of = at[at["condition"] == model]
                if len(of):
                    axes.plot(of["secrets"], of["share"], linestyle="", alpha=0.25, ms=3, **_bare(style))
                    typical = of.groupby("secrets")["share"].median()
                    axes.plot(typical.index, typical, **style, ms=5)
            axes.set(xscale="log", yscale="log", xlabel="number of secrets, $|P|$, at $k = d/2$")
            axes.set_title("random weights" if update == 0 else f"after {update} updates on one secret")
        panels[0].set_ylabel("variance of the gradient over all secrets\n(units of $E|\\nabla f|^2$)")
        panels[0].legend(fontsize=8)
        return figure


def over_bounds(found: pd.DataFrame) -> Figure:
    """Every quantity over its bound against d, the largest and the typical seed; Lemma 8, far below, has a panel."""
    lemmas = sorted(found["condition"].unique(), key=lambda name: int(name.removeprefix("lemma")))
    colours = dict(zip(lemmas, (BLUE, GREEN, PURPLE, VERMILION, "0.3")))
    with styled():
        figure = new_figure(9.4, 3.8)
        left, right = figure.subplots(1, 2)
        for lemma in lemmas:
            axes = right if lemma == "lemma8" else left
            by_d = found[found["condition"] == lemma].groupby("d")["value"]
            largest, typical = by_d.max(), by_d.median()
            label = lemma.replace("lemma", "Lemma ")
            axes.plot(largest.index, largest, color=colours[lemma], marker="o", ms=3, label=label)
            axes.plot(typical.index, typical, color=colours[lemma], linestyle=":")
        for axes in (left, right):
            axes.axhline(1, color="0.4", linestyle="--", label="bound")
            axes.set_xlabel("d, number of bits")
            axes.legend(fontsize=8)
        left.set_ylabel("quantity over its bound")
        left.set_title("largest of all seeds; dotted: typical", fontsize=9)
        right.set_yscale("log")
        right.set_title("largest over k; dotted: typical", fontsize=9)
        return figure


def _bare(style: Mapping[str, Any]) -> dict[str, Any]:
    return {"color": style["color"], "marker": style["marker"]}
