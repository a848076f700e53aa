"""What do the runs of wang2025 look like? Figures from rows that several of its claims share."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from interp.figures.style import SERIES, new_figure, styled


def draw_steps(rows: pd.DataFrame, title: str, layers: pd.DataFrame | None = None) -> Figure:
    """Loss and error of every hop against the gradient steps, mean over seeds, and each layer's attention mass.

    `rows` are of metrics loss and error with their settings as columns, `layers` of metric mass.
    """
    panels = [("loss", "test loss (nats)"), ("error", "share of wrong\npredictions")]
    with styled():
        figure = new_figure(6.8, 2.3 * (len(panels) + (layers is not None)) + 0.4)
        all_axes = figure.subplots(len(panels) + (layers is not None), 1, sharex=True)
        for axes, (metric, label) in zip(all_axes, panels):
            for style, (hop, of_hop) in zip(SERIES, rows[rows["metric"] == metric].groupby("hop")):
                mean = of_hop.groupby("update")["value"].mean()
                axes.plot(mean.index, mean, **style, markersize=5, label=f"{hop:.0f}-hop")
            axes.set(ylabel=label, ylim=(-0.03 * axes.get_ylim()[1], None))
        if layers is not None:
            for style, (layer, of_layer) in zip(SERIES, layers.groupby("layer")):
                mean = of_layer.groupby("update")["value"].mean()
                all_axes[-1].plot(mean.index, mean, **style, markersize=5, label=f"layer {layer}")
            all_axes[-1].set(ylabel="attention on the\nconstruction's key", ylim=(-0.03, 1.03))
        trained = rows.drop_duplicates("update").sort_values("update")
        shorter = {"nothing": "start", "W_KQ": "W", "readout": "Ψ"}
        names = [f"{step}\n{shorter[what]}" for step, what in zip(trained["update"], trained["trained"])]
        all_axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        all_axes[-1].set_xticks(list(trained["update"]), names)
        all_axes[-1].set_xlabel("gradient step and what it moved (W: key-query matrices, Ψ: readout)")
        all_axes[0].set_title(title)
        for axes in all_axes:
            axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return figure


CONDITIONS = {
    "head_mixture": "head per hop, mixture",
    "head_own_mixture": "head and layer per hop, mixture",
    "head_hardest": "head per hop, hardest hop only",
    "head_stagewise": "head per hop, stage by stage",
    "token_mixture": "hop token, mixture",
    "token_hardest": "hop token, hardest hop only",
    "token_last_mixture": "token in last layer, mixture",
    "token_last_hardest": "token in last layer, hardest only",
}


MOST_COLUMNS = 4
"""Panels of learning curves beside one another."""


def condition_name(condition: str) -> str:
    """A condition as it is called in a figure."""
    return CONDITIONS.get(condition, condition.replace("_", " "))


def draw_curves(accuracy: pd.DataFrame) -> Figure:
    """Accuracy of every hop against the samples seen: one panel for each condition, one line for each seed."""
    known = list(CONDITIONS)
    conditions = sorted(
        accuracy["condition"].unique(), key=lambda c: (known.index(c) if c in known else len(known), c)
    )
    lines = -(-len(conditions) // MOST_COLUMNS)
    columns = -(-len(conditions) // lines)
    with styled():
        figure = new_figure(3.0 * columns + 0.6, 0.4 + 2.9 * lines)
        grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
        all_axes = grid.ravel()
        for axes in all_axes[len(conditions) :]:
            axes.set_axis_off()
        for axes, condition in zip(all_axes, conditions):
            of_condition = accuracy[accuracy["condition"] == condition]
            for style, (hop, of_hop) in zip(SERIES, of_condition.groupby("hop")):
                for number, (_, of_seed) in enumerate(of_hop.groupby("unit")):
                    line = of_seed.sort_values("samples")
                    label = f"{hop:.0f}-hop" if number == 0 else None
                    axes.plot(
                        line["samples"], line["value"], **style, markersize=3, linewidth=1, alpha=0.8, label=label
                    )
            axes.axhline(1 / accuracy["n"].iloc[0], color="0.4", linewidth=0.8, linestyle=":")
            axes.set(title=condition_name(condition), xlabel="training sequences seen", ylim=(0, 1.04))
            axes.title.set_fontsize(10)
            axes.xaxis.set_major_formatter(EngFormatter())
        for axes in grid[:, 0]:
            axes.set_ylabel("test accuracy per position\n(dotted: guessing)")
        all_axes[columns - 1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return figure


def draw_attention(mass: pd.DataFrame, title: str) -> Figure:
    """For each seed: the largest head's attention on the key of each of the construction's layers, by layer."""
    largest = mass.groupby(["unit", "mask", "layer"])["value"].max()
    keys = ["(i, π(j))", *(f"(i+{2**power}, hop$^{2**power}$(j))" for power in range(int(mass["mask"].max())))]
    grids = {unit: of_unit.unstack("layer").droplevel(0) for unit, of_unit in largest.groupby("unit")}
    return _grids(grids, keys, f"{title}: where the most attentive head looks", "attention", "layer", 0.0)


def draw_probes(probes: pd.DataFrame, untrained: pd.DataFrame, title: str) -> Figure:
    """For each seed and for untrained models: held-out accuracy of a linear probe for every hop, by layer."""
    rename = {0: "embed"}
    found = probes.groupby(["unit", "hop", "layer"])["value"].mean()
    grids = {unit: of_unit.unstack("layer").droplevel(0) for unit, of_unit in found.groupby("unit")}
    grids["untrained"] = untrained.groupby(["hop", "layer"])["value"].mean().unstack("layer")
    named = {unit: grid.rename(columns=lambda layer: rename.get(layer, layer - 1)) for unit, grid in grids.items()}
    hops = [f"{hop:.0f}-hop" for hop in grids["untrained"].index]
    floor = 1 / probes["n"].iloc[0]
    return _grids(named, hops, f"{title}: what a linear probe finds", "held-out accuracy", "after layer", floor)


def _grids(
    grids: Mapping[str, pd.DataFrame], row_names: list[str], title: str, label: str, xlabel: str, floor: float
) -> Figure:
    with styled(grid=False):
        figure = new_figure(1.5 * len(grids) + 2.2, 0.42 * len(row_names) + 1.5)
        all_axes = np.atleast_1d(figure.subplots(1, len(grids), sharey=True))
        for axes, (unit, grid) in zip(all_axes, grids.items()):
            axes.imshow(grid, cmap="Blues", vmin=floor, vmax=1, aspect="auto")
            for (row, column), value in np.ndenumerate(grid.to_numpy()):
                colour = "white" if value > 0.6 else "black"
                axes.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=7, color=colour)
            axes.set_xticks(range(grid.shape[1]), [str(name) for name in grid.columns], fontsize=7)
            axes.set_yticks(range(len(row_names)), row_names)
            axes.set_xlabel(xlabel)
            axes.set_title(f"seed {unit}" if unit.isdigit() else unit, fontsize=10)
        figure.suptitle(title, fontsize=11)
        figure.colorbar(all_axes[0].images[0], ax=list(all_axes), label=label, shrink=0.9)
        return figure
