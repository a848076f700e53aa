"""What do the kim2024 claims look like? Figures of one-step success, weights, levels and losses, from rows alone."""

from collections.abc import Mapping
from typing import Any

import matplotlib.ticker
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from interp.figures.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, new_figure, styled

SIZE_STYLES: tuple[dict[str, Any], ...] = (
    {"color": SKY, "marker": "o", "linestyle": "-"},
    {"color": BLUE, "marker": "s", "linestyle": "--"},
    {"color": GREEN, "marker": "^", "linestyle": "-."},
    {"color": PURPLE, "marker": "D", "linestyle": ":"},
    {"color": ORANGE, "marker": "v", "linestyle": "-"},
)
REGIME_STYLES: Mapping[str, dict[str, Any]] = {
    "direct": {"color": VERMILION, "linestyle": "--", "marker": "s", "label": "root only, theory model"},
    "perceptron": {"color": PURPLE, "linestyle": "--", "marker": "v", "label": "root only, perceptron"},
    "transformer": {"color": SKY, "linestyle": "--", "marker": "<", "label": "root only, transformer"},
    "end_to_end": {"color": ORANGE, "linestyle": "-.", "marker": "^", "label": "own chain"},
    "filter": {"color": GREEN, "linestyle": ":", "marker": "D", "label": "own chain with filter"},
    "teacher_forcing": {"color": BLUE, "linestyle": "-", "marker": "o", "label": "teacher forcing"},
}
CONDITION_STYLES: Mapping[str, dict[str, Any]] = {
    "complete": {"color": BLUE, "linestyle": "-", "marker": "o", "label": "filter and rounding"},
    "no_filter": {"color": VERMILION, "linestyle": "--", "marker": "s", "label": "no filter"},
    "no_rounding": {"color": ORANGE, "linestyle": "-.", "marker": "^", "label": "no rounding"},
    "below_one": {"color": PURPLE, "linestyle": ":", "marker": "D", "label": "eps_0 = 0.9"},
    "cascade": {"color": GREEN, "linestyle": "-", "marker": "v", "label": "eps_0 = 0.9, cascading"},
    "noisy": {"color": SKY, "linestyle": "--", "marker": "o", "label": "erring oracle"},
}

KIND_TITLES = {
    "random": "random error",
    "against": "error against the signal",
    "aligned": "error aligned with imbalance",
}


def weight_map(rows: pd.DataFrame) -> Figure:
    """W of one model: nodes by row, keys by column; circles mark the tree, a line the first node."""
    d, k = int(rows["d"].iloc[0]), int(rows["k"].iloc[0])
    weights = rows[rows["metric"] == "weight"].pivot(index="query", columns="key", values="value")
    children = rows[(rows["metric"] == "dependency") & (rows["value"] > 0)]
    limit = float(np.nanmax(np.abs(weights.to_numpy())))
    n_nodes, n_keys = weights.shape
    with styled(grid=False):
        figure = new_figure(max(6.0, 0.085 * n_keys + 2.5), max(2.8, 0.085 * n_nodes + 1.8))
        axes = figure.subplots()
        axes.set_facecolor("0.88")
        image = axes.imshow(weights, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
        size = float(np.clip(1100 / n_keys, 6, 40))
        axes.scatter(
            children["key"], children["query"], s=size, facecolors="none", edgecolors="black", linewidths=0.7
        )
        axes.axvline(d - 0.5, color="0.4", linewidth=0.8)
        starts = np.cumsum([k >> level for level in range(1, k.bit_length())])[:-1]
        for start in starts:
            axes.axhline(start - 0.5, color="0.4", linewidth=0.8)
        axes.set(
            title=f"Weights after one step, d = {d}, k = {k}, first seed",
            xlabel="key position: bits, then nodes (circle: child; grey: masked)",
            ylabel="node, level by level",
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True, nbins=8))
        figure.colorbar(image, label="weight $w_{j,m}$")
        return figure


def noise_tolerance(found: pd.DataFrame, points: pd.DataFrame) -> Figure:
    """Above: the share of seeds solved against the error, by kind and d. Below: breaking points against d."""
    kinds = [kind for kind in KIND_TITLES if kind in set(found["condition"])]
    ds = sorted(found["d"].unique())
    with styled():
        figure = new_figure(3.3 * len(kinds) + 0.8, 6.2)
        panels = figure.subplots(2, len(kinds), sharey="row", squeeze=False)
        for (above, below), kind in zip(panels.T, kinds):
            for style, d in zip(SIZE_STYLES, ds):
                of_d = found[(found["condition"] == kind) & (found["d"] == d) & (found["error"] > 0)]
                share = of_d.groupby("error")["success"].mean()
                above.plot(share.index, share, **style, ms=4, label=f"d = {d}")
            above.set(xscale="log", title=KIND_TITLES[kind], xlabel="size of the error (units of $1/d^2$)")
            broken = points[(points["condition"] == kind) & (points["error"] > 0)]
            below.plot(
                broken["d"] * _spread(broken["unit"]), broken["size"], "o", color=BLUE, alpha=0.6, label="seed"
            )
            median = broken.groupby("d")["size"].median()
            if len(median):
                line = median.iloc[0] * (np.array(ds) / median.index[0]) ** -2.0
                below.plot(median.index, median, color=BLUE, label="median")
                below.plot(ds, line, "--", color="0.4", label="slope of $d^{-2}$")
            below.set(xscale="log", yscale="log", xlabel="d, number of bits")
            below.set_xticks(ds, [f"{d:g}" for d in ds])
            below.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        panels[0, 0].set_ylabel("share of seeds solved")
        panels[1, 0].set_ylabel("breaking point (error per entry)")
        panels[0, 0].legend(fontsize=8)
        panels[1, 0].legend(fontsize=8)
        return figure


def levels_solved(found: pd.DataFrame) -> Figure:
    """The number of levels solved after each update, mean over seeds, by size and condition."""
    sizes = list(found.groupby(["d", "k"]))
    with styled():
        figure = new_figure(max(5.0, 3.3 * len(sizes) + 0.6), 3.9)
        panels = np.atleast_1d(figure.subplots(1, len(sizes)))
        for axes, ((d, k), of_size) in zip(panels, sizes):
            top = int(of_size["level"].max())
            axes.plot(
                [0, top], [0, top], color="0.75", linewidth=6, solid_capstyle="round", label="as claimed", zorder=1
            )
            for shift, (condition, style) in zip(
                np.linspace(0, -0.2, len(CONDITION_STYLES)), CONDITION_STYLES.items()
            ):
                runs = of_size[of_size["condition"] == condition]
                if len(runs):
                    solved = runs.groupby(["unit", "update"])["solved"].sum().groupby("update").mean()
                    axes.plot(solved.index, solved + shift, **style, ms=5)  # lines that tie stay visible
            axes.set(title=f"d = {d}, k = {k}", xlabel="updates", ylim=(-0.3, top + 0.3))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
        panels[0].set_ylabel("levels solved\n(mean over seeds; ties set apart)")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5 if len(sizes) > 1 else 3, fontsize=8)
        return figure


def loss_curves(losses: pd.DataFrame) -> Figure:
    """The root's loss against samples by regime and model, a panel for each d: the best step size, range of seeds."""
    sizes = sorted(losses["d"].unique())
    with styled():
        figure = new_figure(max(6.4, 3.6 * len(sizes)), 4.0)
        panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
        for axes, d in zip(panels, sizes):
            for condition, style in REGIME_STYLES.items():
                of = losses[(losses["d"] == d) & (losses["condition"] == condition)]
                if not len(of):
                    continue
                last = of[of["samples"] == of["samples"].max()]
                best = last.groupby("eta")["value"].mean().idxmin()
                by_step = of[of["eta"] == best].groupby("samples")["value"]
                mean = by_step.mean()
                axes.fill_between(mean.index, by_step.min(), by_step.max(), color=style["color"], alpha=0.2, lw=0)
                axes.plot(mean.index, mean, **style, ms=5, markevery=max(1, len(mean) // 8))
            axes.set(yscale="log", xlabel="training samples seen", title=f"d = {d}")
            axes.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter())
        panels[0].set_ylabel("loss of the root (half squared error)")
        named = {name: line for axes in panels for line, name in zip(*axes.get_legend_handles_labels())}
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=4, fontsize=8)
        return figure


def signal_against_k(found: pd.DataFrame) -> Figure:
    """The gradient's signal-to-noise ratio for one sample against k, by loss, with the bound on its average."""
    styles = {**REGIME_STYLES, "direct": {**REGIME_STYLES["direct"], "label": "root only, from the bits"}}
    styles["end_to_end"] = {**styles["end_to_end"], "label": "root only, through own chain"}
    ks = sorted(found["k"].unique())
    with styled():
        figure = new_figure(6.0, 4.2)
        axes = figure.subplots()
        for shift, loss in zip((0.96, 1.0, 1.04), ("direct", "end_to_end", "teacher_forcing")):
            of_loss, style = found[found["condition"] == loss], styles[loss]
            axes.plot(
                of_loss["k"] * shift, of_loss["value"], color=style["color"], marker=style["marker"], alpha=0.4,
                linestyle="", ms=4,
            )  # fmt: skip
            typical = of_loss.groupby("k")["value"].median()
            axes.plot(typical.index * shift, typical, **style)
        bound = found.groupby("k")["bound"].first()
        axes.plot(bound.index, bound, color="0.4", label="1 / sqrt(number of secrets)")
        axes.set(xscale="log", yscale="log", xlabel="k, number of secret bits")
        axes.set_ylabel("signal-to-noise ratio of one sample's gradient")
        axes.set_xticks(ks, [f"{k:g}" for k in ks])
        axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        axes.legend(fontsize=8)
        return figure


def _spread(units: pd.Series) -> pd.Series:
    """A factor near 1 for each row by its seed, so that seeds that tie stay visible side by side on a log axis."""
    seeds = units.astype(int)
    return 1 + 0.03 * (seeds % 10 - (seeds % 10).mean())
