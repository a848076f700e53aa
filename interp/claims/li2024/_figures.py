"""What do the li2024 claims look like? Figures of errors, required examples and training stages, from rows alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.ticker
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from interp.claims.li2024._estimates import over_seeds
from interp.claims.li2024._factors import ENOUGH, required
from interp.figures.style import BLUE, GREEN, ORANGE, SERIES, VERMILION, new_figure, styled

SYMBOLS = {
    "alpha": r"$\alpha'$", "tau": r"$\tau$", "rho": r"$\rho$", "tau_o": r"$\tau_o$", "rho_o": r"$\rho_o$",
}  # fmt: skip
KIND_STYLES: Mapping[str, dict[str, Any]] = {
    "same_pattern_same_step": {"color": BLUE, "linestyle": "-", "label": "same pattern, same step"},
    "other_pattern_same_step": {"color": ORANGE, "linestyle": "--", "label": "other pattern, same step"},
    "same_pattern_other_step": {"color": GREEN, "linestyle": ":", "label": "same pattern, other step"},
    "other_pattern_other_step": {"color": VERMILION, "linestyle": "-.", "label": "other pattern, other step"},
}


def panels(found: pd.DataFrame, factors: Mapping[str, str], ylabel: str) -> Figure:
    """The error against the number of examples, one panel for each factor that is varied."""
    with styled():
        figure = new_figure(3.3 * len(factors) + 0.6, 3.7)
        all_axes = figure.subplots(1, len(factors), sharey=True)
        for axes, factor in zip(all_axes, factors):
            line = found[found["line"] == factor]
            for style, (value, of_value) in zip(SERIES, line.groupby(factor)):
                _curve(axes, of_value, **style, label=f"{SYMBOLS[factor]} = {value:g}")
            _examples_axis(axes, line["l"])
            axes.legend(fontsize=8)
        all_axes[0].set(ylabel=ylabel, ylim=(-0.02, None))
        return figure


def required_examples(found: pd.DataFrame, factors: Mapping[str, str]) -> Figure:
    """Left: the required number of examples against the bound. Right: against each factor, with slopes 1 and 2."""
    needed = required(found, list(factors))
    with styled():
        figure = new_figure(9.2, 4.0)
        left, right = figure.subplots(1, 2, sharey=True)
        bound = needed[list(factors)].prod(axis=1) ** -2
        for style, factor in zip(SERIES, factors):
            line, symbol = needed["line"] == factor, SYMBOLS[factor]
            known, cut = line & ~needed["more"], line & needed["more"]
            base = needed[line][factor].max()
            for axes, x in ((left, bound), (right, base / needed[factor])):
                dots = style["marker"]
                axes.plot(x[known], needed["needed"][known], dots, color=style["color"], alpha=0.35, ms=4)
                axes.plot(x[cut], needed["needed"][cut], dots, color=style["color"], mfc="none", ms=6)
                middle = needed[line].groupby(x[line])["needed"].median()
                axes.plot(middle.index, middle, **style, ms=5, label=f"{symbol} varied")
        _guide(left, bound.min(), bound.max(), needed["needed"].min(), ((1, "--", "proportional to the bound"),))
        span = max((needed[needed["line"] == f][f].max() / needed[needed["line"] == f][f].min()) for f in factors)
        _guide(right, 1.0, span, needed["needed"].min(), ((1, ":", "slope 1"), (2, "--", "slope 2")))
        names = "".join(SYMBOLS[factor].strip("$") + " " for factor in factors).strip()
        left.set(xlabel=f"$({names})^{{-2}}$", ylabel=f"examples for an error below {ENOUGH:g}")
        right.set(xlabel="largest value of the factor / its value")
        for axes in (left, right):
            axes.set(xscale="log", yscale="log")
            axes.legend(fontsize=8)
        shown = [n for n in (5, 10, 20, 40, 80, 160, 320, 640) if n <= 2 * needed["needed"].max()]
        left.set_yticks(shown, [str(n) for n in shown])
        left.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        bounds = [n for n in (10, 20, 50, 100, 200, 500, 1000) if bound.min() <= n <= bound.max()]
        left.set_xticks(bounds, [str(n) for n in bounds])
        right.set_xticks([1, 2, 4], ["1", "2", "4"])
        for axes in (left, right):
            axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        return figure


def condition_1(icl: pd.DataFrame, cot: pd.DataFrame, votes: pd.DataFrame, cases: Sequence[str]) -> Figure:
    """The error of the label against the number of examples, by case: CoT and ICL side by side.

    Grey crosses on ICL's curves: an ideal vote on the same prompts.
    """
    with styled():
        figure = new_figure(8.4, 3.9)
        all_axes = figure.subplots(1, 2, sharey=True)
        for axes, found, title in zip(all_axes, (icl, cot), ("ICL", "CoT")):
            for style, case in zip(SERIES, [case for case in cases if (found["case"] == case).any()]):
                at = found[found["case"] == case]
                holds = "holds" if at["condition_1"].all() else "fails"
                law = rf"$\tau_o$={at['tau_o'].iloc[0]:.2f}, $\rho_o$={at['rho_o'].iloc[0]:.2f}"
                _curve(axes, at, **style, label=f"Condition 1 {holds}: {law}")
            _examples_axis(axes, found["l"])
            axes.set_title(title)
        means = votes.groupby(["case", "l"])["value"].mean().reset_index()
        all_axes[0].plot(means["l"], means["value"], "x", color="0.35", ms=6, label="an ideal vote")
        all_axes[0].set(ylabel="error of the label", ylim=(-0.02, 1.02))
        all_axes[0].legend(fontsize=8)
        return figure


def phase_diagram(found: pd.DataFrame) -> Figure:
    """The error of ICL minus that of CoT over (tau, rho); crosses mark cells in which Condition 1 fails."""
    lengths = sorted(found["l"].unique())
    taus, rhos = (np.sort(found[name].unique()) for name in ("tau", "rho"))
    titles = {"even": "errors in every step", "first": "errors in the first step"}
    with styled(grid=False):
        figure = new_figure(2.7 * len(lengths) + 1.6, 6.0)
        all_axes = figure.subplots(2, len(lengths), sharex=True, sharey=True, squeeze=False)
        for of_spread, (spread, title) in zip(all_axes, titles.items()):
            for axes, length in zip(of_spread, lengths):
                cells = found[(found["spread"] == spread) & (found["l"] == length)]
                mean = cells.pivot_table(index="rho", columns="tau", values="value", aggfunc="mean")
                mean = mean.reindex(index=rhos, columns=taus)
                axes.set_facecolor("0.85")
                image = axes.pcolormesh(taus, rhos, mean, cmap="PuOr_r", vmin=-1, vmax=1, shading="nearest")
                failing = cells[cells["condition_1"] == 0]
                axes.plot(failing["tau"], failing["rho"], "x", color="black", ms=4)
                axes.set_title(f"{title},\n{length} examples", fontsize=9)
            of_spread[0].set_ylabel(r"primacy $\rho$")
        for axes in all_axes[-1]:
            axes.set_xlabel(r"chance of all steps right $\tau$")
        figure.colorbar(image, ax=all_axes, label="error of ICL minus error of CoT (above 0: CoT wins)", shrink=0.9)
        figure.supxlabel("cross: Condition 1 fails; grey: no such errors exist", fontsize=9)
        return figure


def decoder_errors(found: pd.DataFrame, votes: pd.DataFrame) -> Figure:
    """The error of the label against the accuracy of a step, with ICL and with CoT; dashed: ideal votes."""
    styles = {"cot": {**SERIES[0], "label": "CoT"}, "icl": {**SERIES[1], "label": "ICL"}}
    with styled():
        figure = new_figure(6.0, 4.0)
        axes = figure.subplots()
        for condition, style in styles.items():
            _curve(axes, found[found["condition"] == condition], x="a", **style)
            means = votes[votes["condition"] == condition].groupby("a")["value"].mean()
            label = f"an ideal vote, {style['label']}"
            axes.plot(means.index, means, linestyle="--", linewidth=1, color=style["color"], label=label)
        axes.axvline(0.75, color="0.4", linestyle=":")
        axes.annotate("Condition 1 holds", (0.755, 0.97), fontsize=8, va="top")
        axes.annotate("fails", (0.745, 0.97), fontsize=8, va="top", ha="right")
        axes.set(xlabel="accuracy of a step in the examples, a", ylabel="error of the label", ylim=(-0.02, 1.0))
        axes.legend()
        return figure


def training_stages(found: pd.DataFrame, crossings: pd.DataFrame) -> Figure:
    """The attention on the four kinds of columns along the training: mean and range of the seeds."""
    with styled():
        figure = new_figure(7.0, 4.2)
        axes = figure.subplots()
        for kind, style in KIND_STYLES.items():
            by_step = found[found["update"] > 0].groupby("update")[kind]
            mean = by_step.mean()
            axes.fill_between(mean.index, by_step.min(), by_step.max(), color=style["color"], alpha=0.2, linewidth=0)
            axes.plot(mean.index, mean, **style)
        for column, label, height, shift, side in (
            ("other_step", "other steps\nvanished", 0.57, 5, "left"),
            ("other_pattern_same_step", "other patterns\nvanished", 0.37, -5, "right"),
        ):
            at = crossings[column].median()
            if np.isfinite(at):
                axes.axvline(at, color="black", linestyle="--", linewidth=1)
                axes.annotate(label, (at, height), xytext=(shift, 0), textcoords="offset points", ha=side, fontsize=8)
        axes.set(xscale="log", xlabel="updates", ylabel="attention (share)", ylim=(-0.02, 1.02))
        axes.legend(fontsize=8, loc="upper left")
        return figure


def _curve(axes: Axes, found: pd.DataFrame, x: str = "l", **style: object) -> None:
    """Mean over seeds with its 95% interval."""
    intervals = {value: over_seeds(at, 0.95) for value, at in found.groupby(x)}
    places = list(intervals)
    axes.fill_between(
        places, [i.low for i in intervals.values()], [i.high for i in intervals.values()], color=str(style["color"]),
        alpha=0.2, linewidth=0,
    )  # fmt: skip
    axes.plot(places, [i.value for i in intervals.values()], ms=4, **style)  # pyright: ignore[reportArgumentType]


def _examples_axis(axes: Axes, lengths: pd.Series) -> None:
    shown = [
        length for length in (1, 2, 5, 10, 20, 40, 80, 160, 320, 640) if lengths.min() <= length <= lengths.max()
    ]
    axes.set(xscale="log", xlabel="examples in the prompt")
    axes.set_xticks(shown, [str(length) for length in shown])
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())


def _guide(axes: Axes, low: float, high: float, start: float, slopes: tuple[tuple[int, str, str], ...]) -> None:
    x = np.array([low, high])
    for slope, style, label in slopes:
        axes.plot(x, start * (x / low) ** slope, style, color="0.4", label=label)
