"""What does an intervention do to a pretrained model? Changes of log-probabilities, group by group and arm by arm."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from interp.figures.style import SERIES, VERMILION, new_figure, styled
from interp.statistics import Interval


def change_forest(panels: Mapping[str, Mapping[str, Mapping[str, Interval]]]) -> Figure:
    """One panel per outcome, one line per intervention, one mark with its interval per arm."""
    first = list(next(iter(panels.values())))
    n_lines = max(len(groups) for groups in panels.values())
    n_arms = max(len(arms) for groups in panels.values() for arms in groups.values())
    with styled():
        figure = new_figure(4.4 * len(panels) + 2.4, 0.26 * n_arms * n_lines + 1.7)
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, groups) in zip(grid, panels.items()):
            for place, arms in enumerate(groups.values()):
                for number, (name, interval) in enumerate(arms.items()):
                    height = place + 0.2 * (number - (n_arms - 1) / 2)
                    errors = [[interval.value - interval.low], [interval.high - interval.value]]
                    style = {**SERIES[number], "linestyle": "", "capsize": 2.5, "markersize": 5}
                    axes.errorbar(interval.value, height, xerr=errors, label=name if place == 0 else None, **style)
            axes.axvline(0, color="0.3", linewidth=0.8)
            axes.set_yticks(range(len(groups)), list(groups), fontsize=8)
            axes.tick_params(labelleft=axes is grid[0] or list(groups) != first)
            axes.set_ylim(len(groups) - 0.5, -0.5)
            axes.set_title(title, fontsize=10)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.set_xlabel("change of log-probability (nats)\nmean and 95% interval", fontsize=8)
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=n_arms, fontsize=8)
    return figure


def chosen_heads(
    maps: Mapping[str, tuple[Float[np.ndarray, "layer head"], Bool[np.ndarray, "layer head"]]], label: str
) -> Figure:
    """Layer x head maps of a score, with a ring around every chosen head."""
    with styled(grid=False):
        n_layers = next(iter(maps.values()))[0].shape[0]
        figure = new_figure(3.4 * len(maps) + 0.8, max(2.6, 0.13 * n_layers + 1.6))
        grid = figure.subplots(1, len(maps), squeeze=False, sharey=True)[0]
        top = max(float(values.max()) for values, _ in maps.values())
        for axes, (title, (values, chosen)) in zip(grid, maps.items()):
            axes.imshow(values, cmap="viridis", vmin=0, vmax=top, aspect="auto", origin="lower")
            layer, head = np.nonzero(chosen)
            axes.scatter(head, layer, s=26, facecolors="none", edgecolors=VERMILION, linewidths=1.4)
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("head (ring: chosen)", fontsize=8)
            axes.set_xticks(range(values.shape[1]))
        grid[0].set_ylabel("layer")
        figure.colorbar(grid[0].images[0], ax=list(grid), label=label, shrink=0.8)
    return figure
