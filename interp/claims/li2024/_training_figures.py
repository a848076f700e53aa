"""How does the training of li2024's model look? Times against what varies, and curves, from rows alone."""

from collections.abc import Mapping

import matplotlib.ticker
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from interp.claims.li2024._factors import Growth
from interp.claims.li2024._gradients import KINDS, NUMBERS, summary
from interp.claims.li2024._steps import Steps
from interp.claims.li2024._training import GONE, LEVELS, Curves
from interp.figures.style import BLUE, ORANGE, SERIES, VERMILION, new_figure, styled

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
            places = found.lines[line][0] ** power
            axes.set_xticks(places, [f"{place:.3g}" for place in places], fontsize=8)
            axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
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


def gradients(rows: pd.DataFrame, n_steps: int) -> Figure:
    """The gradient between columns along the training, by what they share, with the lemmas' bounds; means over seeds.

    Solid upright: T_1 with a constant of 1; dotted: attention has left the other steps.
    """
    found = summary(rows)
    values, updates = found.values[n_steps], found.updates[n_steps]
    left = updates[found.within(n_steps, "first", "attention").all(1)]
    with styled():
        figure = new_figure(11.4, 3.4)
        for axes, kind in zip(figure.subplots(1, 4), KINDS):
            axes.plot(updates, values[f"gradient_{kind}"].mean(1), color=BLUE, label="gradient")
            for end in ("low", "high") if kind != "same" else ("",):
                bound = values["f5_same" if kind == "same" else f"f5_{kind}_{end}"].mean(1)
                axes.plot(updates, bound, "--", color=ORANGE, label=f"({NUMBERS[kind]})" if end != "high" else None)
            if kind == "same":
                axes.plot(updates, values["f7_same"].mean(1), ":", color=VERMILION, label="(36)")
            axes.axvline(found.ends[n_steps], color="0.5", linewidth=0.8, label="$T_1$")
            axes.axvline(left[-1] if len(left) else updates[0], color="0.5", linewidth=0.8, linestyle=":")
            axes.set(xscale="log", xlabel="updates", title=kind.replace("_", " "))
            axes.legend(fontsize=8)
        figure.axes[0].set_ylabel("$p'^T G\\, p$")
        return figure


def step_attention(found: Steps, epsilon: float, longest: float) -> Figure:
    """Attention on the query's pattern and step by step: against noise, against the span, and against the loss."""
    with styled():
        figure = new_figure(10.4, 3.5)
        all_axes = figure.subplots(1, 3)
        for axes, (condition, label) in zip(
            all_axes, (("noise", "length of the noise"), ("span", "share in the span"))
        ):
            table = found.mass[condition]
            places = sorted(table)
            for style, step in zip(SERIES, range(len(table[places[0]]))):
                means = [table[x][step].mean() for x in places]
                axes.plot(places, means, marker=style["marker"], ms=4, color=style["color"], label=f"step {step + 1}")
            axes.axhline(1 - epsilon, color="0.5", linewidth=0.8, linestyle="--")
            axes.set(xlabel=label, ylabel="attention on $S_k$", ylim=(0, 1.02))
        all_axes[0].axvline(longest, color="0.5", linewidth=0.8, linestyle=":")
        all_axes[0].legend(fontsize=8)
        loss, left = found.loss.mean(1), found.left.mean(1)
        all_axes[2].plot(loss, left, "o-", ms=3, color=BLUE, label="measured")
        for power, style in ((0.5, "--"), (1.0, ":")):
            line = left[-1] * (loss / loss[-1]) ** power
            all_axes[2].plot(loss, line, style, color="0.5", label=f"power {power:g}")
        all_axes[2].set(xscale="log", yscale="log", xlabel="loss", ylabel="attention elsewhere")
        all_axes[2].legend(fontsize=8)
        return figure


def against_patterns(patterns: np.ndarray, needs: Mapping[str, Growth]) -> Figure:
    """The required number of examples against M, for an average error and for all queries at once."""
    labels = {"average": "average error below 0.05", "every": "all queries right, probability 0.95"}
    with styled():
        figure = new_figure(5.4, 3.7)
        axes = figure.subplots()
        for style, (name, growth) in zip(SERIES, needs.items()):
            axes.plot(patterns, growth.needed, style["marker"], color=style["color"], ms=3, alpha=0.4)
            middle = np.median(growth.needed, axis=1)
            axes.plot(patterns, middle, color=style["color"], marker=style["marker"], label=labels[name])
        line = middle[-1] * np.log(patterns) / np.log(patterns[-1])
        axes.plot(patterns, line, "--", color="0.5", label=r"proportional to $\log M$")
        axes.set(xscale="log", xlabel="$M$, number of patterns", ylabel="examples", ylim=(0, None))
        axes.set_xticks(patterns, [f"{m:.0f}" for m in patterns])
        axes.minorticks_off()
        axes.legend(fontsize=8)
        return figure
