"""What does early answering look like? The answer as the chain grows, and after what stands in its place."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from interp.claims.lanham2023._early import CHANGES, EARLY, SAID
from interp.core.trace_runs import mean_over_traces
from interp.figures.style import SERIES, new_figure, styled
from interp.statistics import Interval

GRID = np.linspace(0, 1, 11)


def curves(rows: pd.DataFrame) -> Figure:
    """One panel for each outcome: the mean over traces by the share of the chain, and each change at the end."""
    with styled():
        figure = new_figure(4.2 * len(SAID), 3.6)
        for axes, metric in zip(figure.subplots(1, len(SAID), squeeze=False)[0], SAID):
            of = rows[rows["metric"] == metric]
            _curve(axes, of[of["condition"] == EARLY])
            for place, (change, words) in enumerate(CHANGES.items(), start=1):
                values = of[of["condition"] == change].set_index("unit")["value"]
                interval = mean_over_traces(values, 0.95)
                if isinstance(interval, Interval):
                    errors = [[interval.value - interval.low], [interval.high - interval.value]]
                    style = {**SERIES[place], "linestyle": "", "capsize": 2.5, "markersize": 5}
                    axes.errorbar(1 + 0.05 * place, interval.value, yerr=errors, label=words, **style)
            axes.set_xlabel("share of the chain's sentences kept")
            axes.set_title(SAID[metric], fontsize=9)
            axes.legend(fontsize=7)
    return figure


def _curve(axes, early: pd.DataFrame) -> None:
    lines = []
    for _, part in early.sort_values(["unit", "key"]).groupby("unit"):
        values = part["value"].to_numpy(float)
        lines.append(np.interp(GRID, np.linspace(0, 1, len(values)), values))
    if lines:
        mean, error = np.mean(lines, axis=0), np.std(lines, axis=0) / np.sqrt(len(lines))
        axes.plot(GRID, mean, label="its own chain", **{**SERIES[0], "markersize": 4})
        axes.fill_between(GRID, mean - error, mean + error, color=SERIES[0]["color"], alpha=0.2, linewidth=0)
