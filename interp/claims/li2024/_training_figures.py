"""How does the training of li2024's model look? Times against what varies, and curves, from rows alone."""

import numpy as np
from matplotlib.figure import Figure

from interp.claims.li2024._training import GONE, LEVELS, Curves
from interp.figures.style import BLUE, ORANGE, SERIES, new_figure, styled

LINES = {
    "alpha": (r"$\alpha$", 1.0), "patterns": ("$M$", -1.0), "steps": ("$K$", -1.0), "eta": (r"step size $\eta$", 1.0),
}  # fmt: skip


def times(found: Curves) -> Figure:
    """T and T_1 against alpha, M, K and the step size, with the slopes of the bound."""
    slopes = {"alpha": (1, 2), "patterns": (1,), "steps": (1, 3), "eta": (1,)}
    with styled():
        shown = [line for line in LINES if line in found.lines]
        figure = new_figure(3.0 * len(shown) + 0.6, 3.5)
        for axes, line in zip(np.atleast_1d(figure.subplots(1, len(shown), sharey=True)), shown):
            name, power = LINES[line]
            for metric, level, colour, label in (
                ("loss", LEVELS[-1], BLUE, f"$T$: loss below {LEVELS[-1]:g}"),
                ("other_step", GONE, ORANGE, f"$T_1$: other steps below {GONE:g}"),
            ):
                growth = found.growth(line, metric, level)
                if growth is None:
                    continue
                x = growth.values**power
                needed = np.where(growth.more | growth.fewer, np.nan, growth.needed)
                axes.plot(x, needed, "o", color=colour, ms=3, alpha=0.5)
                middle = np.median(growth.needed, axis=1)
                axes.plot(x, middle, color=colour, label=label)
                for slope, style in zip(slopes[line] if metric == "loss" else (), (":", "--")):
                    ends = np.array([x.min(), x.max()])
                    axes.plot(
                        ends, middle.min() * (ends / ends[int(power > 0)]) ** (-power * slope), style, color="0.5"
                    )
            axes.set(xscale="log", yscale="log", xlabel=name)
        figure.axes[0].set_ylabel("updates")
        figure.axes[0].legend(fontsize=8)
        figure.supxlabel("grey: powers of the bound (dotted 1, dashed the lemma's 2 or K's 3)", fontsize=8)
        return figure


def curves_by_alpha(found: Curves) -> Figure:
    """Loss and attention on other steps along the training, one line for each alpha, mean over seeds."""
    values, curves = found.lines["alpha"]
    with styled():
        figure = new_figure(8.4, 3.6)
        pairs = (("loss", "loss"), ("other_step", "attention on other steps"))
        for axes, (metric, label) in zip(figure.subplots(1, 2), pairs):
            for style, value, at, curve in zip(SERIES, values, found.updates["alpha"], curves[metric]):
                axes.plot(at, curve.mean(1), color=style["color"], label=rf"$\alpha$ = {value:g}")
            axes.set(xscale="log", yscale="log", xlabel="updates", ylabel=label)
        figure.axes[0].legend(fontsize=8)
        return figure
