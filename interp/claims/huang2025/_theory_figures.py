"""What do the theory models of huang2025 look like? Blocks of Q, powers of d, stages of self-training; from rows."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from interp.claims.huang2025._runs import REACHED
from interp.figures.style import BLUE, GREEN, ORANGE, SERIES, VERMILION, new_figure, styled

ENTRIES = {
    "diagonal_43": {"color": BLUE, "linestyle": "-", "label": "diagonal of $Q_{4,3}$"},
    "diagonal_44": {"color": VERMILION, "linestyle": "--", "label": "diagonal of $Q_{4,4}$"},
    "other_43": {"color": GREEN, "linestyle": "-.", "label": "other entries of $Q_{4,3}$"},
    "other_44": {"color": ORANGE, "linestyle": ":", "label": "other entries of $Q_{4,4}$"},
}
TARGETS = {
    "predicate": {"color": BLUE, "linestyle": "-", "label": "the predicate about its variable"},
    "answer": {"color": VERMILION, "linestyle": "--", "label": "the answer itself"},
    "error": {"color": "0.35", "linestyle": ":", "label": "elsewhere"},
}


def draw_blocks(found: pd.DataFrame) -> Figure:
    """Algorithm 1 at the largest d: entries of Q (left) and attention (right) against steps; thin lines are seeds."""
    found = found[(found["d"] == found["d"].max()) & (found["update"] > 0)]
    found = found[found["batch"] == found["batch"].min()]
    with styled():
        figure = new_figure(8.6, 3.4)
        left, right = figure.subplots(1, 2)
        for axes, kinds in ((left, ENTRIES), (right, TARGETS)):
            for metric, style in kinds.items():
                of_metric = found[found["metric"] == metric]
                thin = {key: style[key] for key in ("color", "linestyle")}
                for _, line in of_metric.groupby("unit"):
                    line = line.sort_values("update")
                    axes.plot(line["update"], line["value"], **thin, linewidth=0.6, alpha=0.5)
                mean = of_metric.groupby("update")["value"].mean()
                axes.plot(mean.index, mean, **style, linewidth=2)
            axes.set(xscale="log", xlabel="gradient steps on $Q$")
            axes.legend(fontsize=8)
        left.set(ylabel="mean entry (others: mean size)", title=f"Blocks of $Q$, C6, d = {found['d'].iloc[0]}")
        right.set(ylabel="attention of the last answer", ylim=(-0.02, 0.62), title="Sentences of length 2")
        return figure


def draw_powers(runs: pd.DataFrame) -> Figure:
    """Algorithm 1: attention elsewhere (left) and the length reached (right) against d; points are seeds."""
    sizes = sorted(runs["d"].unique())
    with styled():
        figure = new_figure(8.6, 3.6)
        left, right = figure.subplots(1, 2)
        for axes, values in ((left, runs["error"]), (right, 2 ** runs["reach"])):
            axes.plot(runs["d"], values, color=BLUE, marker="o", linestyle="none", markersize=4, alpha=0.6)
            slope, start = np.polyfit(runs["log_d"], np.log(values), 1)
            ends = np.array([sizes[0], sizes[-1]], dtype=float)
            axes.plot(ends, np.exp(start) * ends**slope, color=BLUE, label=rf"$d^{{{slope:.2f}}}$")
            axes.set(xscale="log", yscale="log", xlabel="number of tokens $d$")
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
            axes.yaxis.set_major_formatter("{x:g}")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_minor_locator(NullLocator())
        right.plot(sizes, [size - 14 for size in sizes], ":", color="0.5", label="as far as variables go")
        left.set(ylabel="attention on other clauses\n(length 2)", title="Concentration")
        right.set(ylabel=f"length at which accuracy\nfalls below {REACHED:g}", title="Length, trained at 1 and 2")
        for axes in (left, right):
            axes.legend(fontsize=8)
        return figure


def draw_stages(accuracy: pd.DataFrame) -> Figure:
    """Algorithm 2: accuracy against length after each stage, whose own length is marked; one panel for each group."""
    groups = sorted(accuracy["group"].unique(), key=lambda name: name == "C6")
    with styled():
        figure = new_figure(4.3 * len(groups), 3.6)
        all_axes = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
        for axes, group in zip(all_axes, groups):
            of_group = accuracy[accuracy["group"] == group]
            for (stage, of_stage), style in zip(of_group.groupby("stage"), SERIES):
                trained = 2 ** int(stage)
                for _, line in of_stage.groupby("unit"):
                    line = line.sort_values("length")
                    axes.plot(line["length"], line["value"], color=style["color"], linewidth=0.6, alpha=0.5)
                mean = of_stage.groupby("length")["value"].mean()
                axes.plot(mean.index, mean, **style, markersize=4, label=f"stage {int(stage)}, length {trained}")
                axes.axvline(trained, color=style["color"], linestyle=style["linestyle"], linewidth=0.8, alpha=0.6)
            ticks = [2**power for power in range(1, 1 + int(np.log2(of_group["length"].max())))]
            axes.set_xscale("log", base=2)
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
            axes.set(xlabel="length of the sentence", ylim=(-0.03, 1.03), title=group)
        all_axes[0].set_ylabel("share of sentences\nwith all steps right")
        legend = all_axes[0].legend(
            fontsize=8, title="trained up to", title_fontsize=8, loc="lower left", frameon=True
        )
        legend.get_frame().set(alpha=1, linewidth=0)  # the marked lengths stay behind it
        return figure


def draw_degrees(runs: pd.DataFrame) -> Figure:
    """Algorithm 2: attention elsewhere after the last stage against E_1, by group; points are seeds."""
    last = runs[runs["stage"] == runs["stage"].max()]
    with styled():
        figure = new_figure(4.6, 3.4)
        axes = figure.subplots()
        for (group, of_group), style in zip(last.groupby("group", sort=False), SERIES):
            axes.plot(of_group["degree"], of_group["error"], ".", color=style["color"], alpha=0.5)
            medians = of_group.groupby("degree")["error"].median()
            axes.plot(medians.index, medians, **style, markersize=4, label=str(group))
        axes.axhline(0.01, color="0.5", linestyle=":", label="Theorem 5.1: below 0.01")
        axes.set(yscale="log", xlabel="$E_1$: a stage ends at a loss of $d^{-E_1}$", ylabel="attention elsewhere")
        axes.legend(fontsize=8)
        return figure


def draw_neurons(found: pd.DataFrame) -> Figure:
    """Facts held by one neuron and told beforehand (left), weights in units of B (right); points are seeds."""
    kinds = {
        "left": {"one": "held by one neuron", "predicted": "by the one foretold"},
        "right": {"strength": "the fact", "runner_up": "its second neuron", "confounder": "confounding (size)",
                  "unrelated": "unrelated"},
    }  # fmt: skip
    names = list(dict.fromkeys(found["condition"] + ", d = " + found["d"].astype(int).astype(str)))
    labelled = found.assign(place=[names.index(f"{c}, d = {int(d)}") for c, d in zip(found["condition"], found["d"])])
    with styled():
        figure = new_figure(8.6, 3.6)
        for axes, metrics in zip(figure.subplots(1, 2, sharey=True), kinds.values()):
            for (metric, words), style in zip(metrics.items(), SERIES):
                axes.plot(labelled[metric], labelled["place"], style["marker"], color=style["color"], alpha=0.5,
                          markersize=4, label=words)  # fmt: skip
            axes.legend(fontsize=8)
        left, right = figure.axes
        left.set(xlabel="share of facts", xlim=(-0.03, 1.03))
        left.set_yticks(range(len(names)), names, fontsize=8)
        right.set(xlabel="weights, half the sum of both, in units of B")
        return figure
