"""What did the probes of one run find? Which head serves which step, what is decodable where, what knockouts do."""

from collections.abc import Mapping

import matplotlib.ticker
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from interp.figures.style import new_figure, styled
from probes.rows import with_settings

SCOPES = {
    "at_step": "its keys hidden\nfrom that step",
    "everywhere": "its keys hidden\nfrom every position",
    "random": "random keys hidden\nfrom that step",
}


def probe_figures(rows: pd.DataFrame) -> Mapping[str, Figure]:
    """Every figure of a probed run, from rows alone."""
    figures = {"assignment": assignment(rows), "knockouts": knockouts(rows)}
    if (rows["metric"] == "probe_accuracy").any():  # a model without a residual stream has no linear probes
        figures["decodable"] = decodable(rows)
    return figures


def assignment(rows: pd.DataFrame) -> Figure:
    """The share of inputs at which each head's largest weight is on a dependency of each step."""
    found = rows[rows["metric"] == "top1_hit"]
    grid = found.pivot_table(index=["layer", "head"], columns="query", values="value")
    with styled(grid=False):
        figure = new_figure(max(4.5, 0.45 * grid.shape[1] + 3), 0.3 * len(grid) + 1.8)
        axes = figure.subplots()
        image = axes.imshow(grid, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        axes.set_yticks(range(len(grid)), [f"layer {layer} head {head}" for layer, head in grid.index])
        axes.set_xticks(range(grid.shape[1]), [str(query) for query in grid.columns], fontsize=8)
        axes.set(xlabel="step (query position)", title="which head serves which step")
        figure.colorbar(image, ax=axes, label="top-1 hits\n(share of inputs)")
        return figure


def decodable(rows: pd.DataFrame) -> Figure:
    """The balanced accuracy of every state's probe at every position and point of the residual stream."""
    found = with_settings(rows[rows["metric"] == "probe_accuracy"])
    found = found.assign(place=found["layer"].astype(str) + " " + found["hook"].str.removeprefix("hook_"))
    states = sorted(found["state"].unique())
    with styled(grid=False):
        figure = new_figure(
            max(6.5, 0.17 * found["pos"].nunique() + 2.5), (0.24 * found["place"].nunique() + 0.6) * len(states) + 0.8
        )
        all_axes = np.atleast_1d(figure.subplots(len(states), 1, sharex=True))
        for axes, state in zip(all_axes, states):
            grid = found[found["state"] == state].pivot_table(
                index="place", columns="pos", values="value", sort=False
            )
            image = axes.imshow(grid, cmap="cividis", vmin=0, vmax=1, aspect="auto")
            axes.set_yticks(range(len(grid)), grid.index, fontsize=8)
            axes.set_ylabel(f"state {state + 1}")
        all_axes[-1].xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
        all_axes[-1].set_xlabel("position")
        all_axes[0].set_title("where each state is linearly decodable")
        figure.colorbar(image, ax=list(all_axes), label="balanced accuracy, held out", shrink=0.8)
        return figure


def knockouts(rows: pd.DataFrame) -> Figure:
    """The accuracy of every step under the knockout of every step's keys."""
    found = with_settings(rows[rows["metric"] == "step_accuracy"])
    n_steps = found["step"].nunique()
    with styled(grid=False):
        side = min(4.0, max(2.2, 0.4 * n_steps))
        figure = new_figure(len(SCOPES) * (side + 0.6) + 0.8, side + 1.1)
        all_axes = figure.subplots(1, len(SCOPES), sharey=True)
        for axes, (scope, title) in zip(all_axes, SCOPES.items()):
            grid = found[found["scope"] == scope].pivot_table(index="hidden", columns="step", values="value")
            image = axes.imshow(grid, cmap="cividis", vmin=0, vmax=1)
            ticks = range(0, n_steps, max(1, n_steps // 8))
            axes.set_xticks(ticks, [str(at + 1) for at in ticks])
            axes.set_yticks(ticks, [str(at + 1) for at in ticks])
            axes.set_xlabel("accuracy of step")
            axes.set_title(title, fontsize=9)
        all_axes[0].set_ylabel("knockout for step")
        figure.colorbar(image, ax=list(all_axes), label="accuracy", shrink=0.8)
        return figure
