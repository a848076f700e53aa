"""What do receiver heads look like, and what does hiding what they read do?"""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from interp.claims.bogdan2025._heads import VERSIONS, Scores, beyond, chosen_elsewhere, excess
from interp.core.trace_runs import mean_over_traces
from interp.figures.style import SERIES, VERMILION, new_figure, styled
from interp.statistics import Interval


def heads_beyond_nulls(found: Scores, own: str, nulls: Sequence[str]) -> Figure:
    """Every head's mean kurtosis on the traces against that under each null; rings around those chosen everywhere."""
    with styled():
        figure = new_figure(4.0 * len(nulls) + 0.6, 3.8)
        grid = figure.subplots(1, len(nulls), squeeze=False, sharey=True)[0]
        if found.n_clusters >= 2 and found.heads:
            often = np.bincount(chosen_elsewhere(found).ravel(), minlength=len(found.heads)) > len(found.units) / 2
            for axes, null in zip(grid, nulls):
                x, y = found.of[null].mean(0), found.of[own].mean(0)
                axes.scatter(x, y, s=12, color=SERIES[0]["color"], alpha=0.6, linewidths=0)
                axes.scatter(
                    x[often], y[often], s=50, facecolors="none", edgecolors=VERMILION, label="receiver heads"
                )
                low, high = min(x.min(), y.min()), max(x.max(), y.max())
                axes.plot([low, high], [low, high], color="0.4", linewidth=0.8)
                axes.set_xlabel(f"kurtosis, {null}")
            grid[0].legend(fontsize=8)
        grid[0].set_ylabel("kurtosis on the traces (mean)")
        figure.suptitle(f"{len(found.heads)} heads, {len(found.units)} traces", fontsize=10)
    return figure


def versions(found: Mapping[str, Scores]) -> Figure:
    """The receiver heads' kurtosis minus that of all heads, and minus the nulls', by version, with 95% intervals."""
    lines = {
        "minus all heads": lambda version: excess(found, 0.95, version=version),
        "minus rotated": lambda version: beyond(found, 0.95, version=version, null="rotated"),
        "minus permuted": lambda version: beyond(found, 0.95, version=version, null="permuted"),
    }
    drawn = {
        f"{said}, {name}": interval
        for version, said in VERSIONS.items()
        for name, estimate in lines.items()
        if isinstance(interval := estimate(version), Interval)
    }
    return forest(drawn, "kurtosis of the receiver heads, 95% intervals")


def correlations(found: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """Mean correlations within a trace, with 95% intervals."""
    drawn = {
        said: interval
        for name, said in names.items()
        if name in found and isinstance(interval := mean_over_traces(found[name], 0.95, (-1.0, 1.0)), Interval)
    }
    return forest(drawn, "rank correlation within a trace, 95% intervals")


def by_trace(found: pd.DataFrame, name: str, label: str) -> Figure:
    """The distribution over traces of one correlation."""
    with styled():
        figure = new_figure(5.0, 3.2)
        axes = figure.subplots()
        values = found[name].dropna() if name in found else pd.Series(dtype=float)
        axes.hist(values, bins=np.linspace(-1, 1, 21).tolist(), color=SERIES[0]["color"], alpha=0.8)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_xlabel(label)
        axes.set_ylabel("traces")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def forest(drawn: Mapping[str, Interval], label: str) -> Figure:
    """One line for each interval."""
    with styled():
        names = [textwrap.fill(name, 48) for name in drawn]
        figure = new_figure(6.6, 0.3 * max(len(drawn), 2) + 0.12 * sum("\n" in name for name in names) + 1.1)
        axes = figure.subplots()
        for place, interval in enumerate(drawn.values()):
            errors = [[interval.value - interval.low], [interval.high - interval.value]]
            axes.errorbar(interval.value, place, xerr=errors, fmt="o", ms=4, color=SERIES[0]["color"], capsize=2)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_yticks(range(len(drawn)), names, fontsize=8)
        axes.set_ylim(max(len(drawn), 1) - 0.5, -0.5)
        axes.set_xlabel(label)
    return figure
