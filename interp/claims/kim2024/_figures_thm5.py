"""What does kim2024/thm5 look like? Seeds solved and largest error against d, by law."""

from typing import Any

import matplotlib.ticker
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from interp.figures.style import BLUE, GREEN, PURPLE, new_figure, styled

LAW_STYLES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "marker": "o", "linestyle": "-"},
    {"color": GREEN, "marker": "s", "linestyle": "--"},
    {"color": PURPLE, "marker": "D", "linestyle": "-."},
)


def solved_against_d(found: pd.DataFrame) -> Figure:
    """Left: the share of seeds solved against d at the judged step. Middle: the error, with d^(-eps/8) from its first
    point. Right: the share solved against the step size, at the largest d."""
    of = found[found["role"].isin(["size", "small"])]
    at = of[of["times"] == 1]
    with styled():
        figure = new_figure(11.5, 3.9)
        left, middle, right = figure.subplots(1, 3)
        for style, (eps, law) in zip(LAW_STYLES, at.groupby("eps")):
            share = law.groupby("d")["success"].mean()
            left.plot(share.index, share, **style, ms=5, label=f"$\\epsilon$ = {eps:g}")
            error = law.groupby("d")["sup_error"].median()
            middle.plot(error.index, error, **style, ms=5)
            judged = error[error.index >= law.loc[law["role"] == "size", "d"].min()]
            bound = judged.iloc[0] * (judged.index / judged.index[0]) ** (-eps / 8)
            middle.plot(judged.index, bound, color=style["color"], linestyle=":", linewidth=1)
        largest = of[of["d"] == of["d"].max()]
        for style, (_, law) in zip(LAW_STYLES, largest.groupby("eps")):
            share = law.groupby("times")["success"].mean()
            right.plot(share.index, share, **style, ms=5)
        left.set(xlabel="d, number of bits", ylabel="share of seeds solved by one step", ylim=(-0.05, 1.05))
        middle.set(yscale="log", xlabel="d, number of bits", ylabel="largest error (median over seeds)")
        middle.set_title("dotted: slope of the bound, $d^{-\\epsilon/8}$", fontsize=9)
        right.set(xlabel="step size, as a multiple of the judged", ylim=(-0.05, 1.05))
        right.set_title(f"share solved at d = {of['d'].max()}", fontsize=9)
        left.legend(fontsize=8)
        for axes in (left, middle):
            _by_d(axes, np.array(sorted(at["d"].unique())))
        return figure


def _by_d(axes: Axes, ds: np.ndarray) -> None:
    axes.set_xscale("log")
    axes.set_xticks(ds, [f"{d:g}" for d in ds])
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
