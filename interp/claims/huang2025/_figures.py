"""What do the runs of huang2025 look like? Figures from rows that several of its claims share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator

from interp.claims.huang2025._runs import END, KEYS, LEARNED, REACHED, SOLVES, at_loss
from interp.figures.style import BLUE, ORANGE, SERIES, VERMILION, new_figure, styled

GROUP_STYLE: dict[str, dict[str, Any]] = {
    "C6": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "S5": {"color": VERMILION, "marker": "s", "linestyle": "--"},
}


MEAN = "mean over seeds that\nsolve the training length"


def _length_axis(axes: Axes, lengths: pd.Series) -> None:
    axes.set_xscale("log", base=2)
    ticks = sorted(lengths.unique())
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def draw_accuracy(accuracy: pd.DataFrame) -> Figure:
    """The paper's Figure 1a: accuracy at the end against length, one panel for each model."""
    last = accuracy[accuracy["point"] == END]
    conditions = sorted(last["condition"].unique())
    with styled():
        figure = new_figure(3.6 * len(conditions), 3.2)
        all_axes = np.atleast_1d(figure.subplots(1, len(conditions), sharey=True))
        for axes, condition in zip(all_axes, conditions):
            _curves(axes, last[last["condition"] == condition])
            axes.set(title=f"{condition} model", xlabel="length of the sentence (trained at 5)", ylim=(-0.03, 1.03))
        all_axes[0].set_ylabel("share of sentences\nwith all steps right")
        all_axes[-1].legend(title=MEAN, fontsize=9, title_fontsize=9)
        return figure


def _curves(axes: Axes, accuracy: pd.DataFrame) -> None:
    """Accuracy against length: every seed thin, dotted if it fails at the shortest; the mean of the others thick."""
    for group, style in GROUP_STYLE.items():
        curves = accuracy[accuracy["group"] == group].pivot(index="unit", columns="length", values="value")
        solves = curves.iloc[:, 0] >= SOLVES
        for unit, line in curves.iterrows():
            kind = "-" if solves[unit] else ":"
            axes.plot(line.index, line, kind, color=style["color"], linewidth=0.7, alpha=0.5)
        mean = curves[solves].mean()  # of no seeds: nothing is drawn, and the legend still names the group
        axes.plot(mean.index, mean, **style, label=group)
    _length_axis(axes, accuracy["length"])


def draw_readings(accuracy: pd.DataFrame, points: Sequence[str]) -> Figure:
    """Accuracy against length at these points, one panel for each."""
    seen = [point for point in points if point in set(accuracy["point"])]
    with styled():
        figure = new_figure(3.4 * len(seen), 3.2)
        all_axes = np.atleast_1d(figure.subplots(1, len(seen), sharey=True))
        for axes, point in zip(all_axes, seen):
            _curves(axes, accuracy[accuracy["point"] == point])
            words = "at the end" if point == END else f"{int(point.split('_')[1]):,} steps after the plateau"
            axes.set(title=words, xlabel="length of the sentence (trained at 5)", ylim=(-0.03, 1.03))
        all_axes[0].set_ylabel("share of sentences\nwith all steps right")
        all_axes[0].legend(title=MEAN, fontsize=9, title_fontsize=9, loc="lower left")
        return figure


def draw_reach(curves: pd.DataFrame, steps: pd.DataFrame) -> Figure:
    """The length reached against the steps that led there, one panel for each model; a line is a seed."""
    when = steps.set_index(list(KEYS))["value"].rename("updates")
    found = curves.join(when, on=list(KEYS)).sort_values("updates")
    conditions = sorted(found["condition"].unique())
    with styled():
        figure = new_figure(3.8 * len(conditions) + 0.6, 3.4)
        all_axes = np.atleast_1d(figure.subplots(1, len(conditions), sharey=True))
        for axes, condition in zip(all_axes, conditions):
            for group, style in GROUP_STYLE.items():
                of_group = found[(found["condition"] == condition) & (found["group"] == group)]
                for number, (_, line) in enumerate(of_group.groupby("unit")):
                    thin = {**style, "markersize": 4, "linewidth": 1, "alpha": 0.7}
                    axes.plot(line["updates"], 2 ** line["reach"], **thin, label=group if number == 0 else None)
            axes.set(title=f"{condition} model", xlabel="gradient steps", xscale="log", yscale="log")
            ticks = [5, 10, 20, 40, 80, 160]
            axes.set_yticks(ticks, [str(tick) for tick in ticks])
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(EngFormatter())
            axes.minorticks_off()
        all_axes[0].set_ylabel(f"length with {REACHED:g} solved,\nat every reading")
        all_axes[-1].legend(fontsize=9)
        return figure


def draw_stages(accuracy: pd.DataFrame) -> Figure:
    """The paper's Figure 1b: accuracy against length after every stage, mean over seeds; one panel for each arm."""
    conditions = sorted(accuracy["condition"].unique())
    stages = sorted(accuracy["stage"].unique())
    with styled():
        figure = new_figure(3.3 * len(conditions) + 1.2, 3.2)
        all_axes = np.atleast_1d(figure.subplots(1, len(conditions), sharey=True))
        for axes, condition in zip(all_axes, conditions):
            for style, stage in zip(SERIES, stages):
                of_stage = accuracy[(accuracy["condition"] == condition) & (accuracy["stage"] == stage)]
                mean = of_stage.groupby("length")["value"].mean()
                label = "trained at 5" if stage == 0 else f"after stage {stage:.0f}"
                axes.plot(mean.index, mean, **style, markersize=5, label=label)
                for _, line in of_stage.groupby("unit"):
                    line = line.sort_values("length")
                    axes.plot(line["length"], line["value"], color=style["color"], linewidth=0.5, alpha=0.5)
            _length_axis(axes, accuracy["length"])
            axes.set(title=condition.split(", ", 1)[1], xlabel="length of the sentence", ylim=(-0.03, 1.03))
            axes.title.set_fontsize(9)
        all_axes[0].set_ylabel("share of sentences\nwith all steps right")
        all_axes[-1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return figure


def draw_maps(attention: pd.DataFrame, by: str) -> Figure:
    """Mean attention over seeds of the answers on all clauses: a row of panels for each group, a column by `by`."""
    kinds, groups = list(dict.fromkeys(attention[by])), sorted(attention["group"].unique())
    n_queries, n_keys = attention["query"].nunique(), attention["key"].nunique()
    keys = [f"p{i + 1}" for i in range(n_queries)] + [f"a{i}" for i in range(n_keys - n_queries)]
    with styled(grid=False):
        figure = new_figure(3.5 * len(kinds) + 0.8, 2.3 * len(groups) + 0.4)
        grid = np.atleast_2d(figure.subplots(len(groups), len(kinds), squeeze=False, sharex=True, sharey=True))
        for line, group in zip(grid, groups):
            for axes, kind in zip(line, kinds):
                of_panel = attention[(attention["group"] == group) & (attention[by] == kind)]
                values = of_panel.pivot_table(index="query", columns="key", values="value")
                axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
                axes.set_xticks(range(n_keys), keys, fontsize=8)
                axes.set_yticks(range(n_queries), [f"a{i}" for i in range(n_queries)], fontsize=8)
                axes.set_title(f"{group}, {kind}{' model' if by == 'condition' else ''}", fontsize=10)
            line[0].set_ylabel("query: answer")
        for axes in grid[-1]:
            axes.set_xlabel("key: predicate or answer")
        figure.colorbar(grid[0, 0].images[0], ax=list(grid.flatten()), label="mean attention", shrink=0.8)
        return figure


def draw_dilution(targets: pd.DataFrame) -> Figure:
    """The paper's Figures 6 and 7: attention on the target clause against the answer's place, by length."""
    conditions, groups = sorted(targets["condition"].unique()), sorted(targets["group"].unique())
    panels = [(condition, group) for condition in conditions for group in groups]
    with styled():
        figure = new_figure(2.7 * len(panels) + 1.0, 5.2)
        grid = np.atleast_2d(figure.subplots(2, len(panels), sharex=True, sharey="row", squeeze=False))
        for column, (condition, group) in zip(grid.T, panels):
            for axes, metric in zip(column, ("predicate", "answer")):
                of_panel = targets[
                    (targets["condition"] == condition) & (targets["group"] == group) & (targets["metric"] == metric)
                ]
                for style, (length, of_length) in zip(SERIES, of_panel.groupby("length")):
                    mean = of_length.groupby("answer")["value"].mean()
                    place = (mean.index.to_numpy() + 1) / length
                    axes.plot(place, mean, **style, markersize=3, linewidth=1.2, label=f"length {length:.0f}")
                    for _, line in of_length.groupby("unit"):
                        line = line.sort_values("answer")
                        axes.plot((line["answer"] + 1) / length, line["value"], color=style["color"], linewidth=0.4)
            column[0].set_title(f"{condition} model, {group}", fontsize=10)
            column[1].set_xlabel("position of the answer / length")
        grid[0, 0].set_ylabel("attention on\npredicate l+1")
        grid[1, 0].set_ylabel("attention on\nanswer l")
        grid[0, -1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return figure


def draw_cells(curves: pd.DataFrame, steps: pd.DataFrame, targets: pd.DataFrame) -> Figure:
    """By condition and group: steps to learn, length at the end, attention off the targets; a mark is a seed."""
    keys = ["condition", "group", "unit"]
    when = steps.pivot(index=keys, columns="point", values="value")
    learned = when.get(at_loss(LEARNED), pd.Series(np.nan, index=when.index))
    mass = targets.groupby([*keys, "metric"])["value"].mean().groupby(keys).sum()
    found = curves.set_index(keys).assign(
        late=learned.isna(), steps=learned.fillna(when[END]), length=lambda t: 2 ** t["reach"], off=1 - mass
    )
    cells = list(dict.fromkeys(zip(curves["condition"], curves["group"])))
    panels = {
        "steps": f"steps to a loss of {LEARNED:g}",
        "length": f"length with {REACHED:g} solved",
        "off": "attention off the targets",
    }
    with styled():
        figure = new_figure(9.6, 0.34 * len(cells) + 1.5)
        for axes, (name, label) in zip(figure.subplots(1, 3, sharey=True), panels.items()):
            for place, cell in enumerate(cells):
                of_cell = found.loc[cell]
                hollow = of_cell["late"] if name == "steps" else ~of_cell["solves"]
                colour = GROUP_STYLE.get(cell[1], {"color": ORANGE})["color"]
                inside = [to_rgba(colour, 0.0 if one else 0.8) for one in hollow]
                at = np.full(len(of_cell), float(place))
                axes.scatter(of_cell[name], at, facecolors=inside, edgecolors=colour, s=24)
            axes.set(xlabel=label, xscale="log")
        figure.axes[0].set_yticks(range(len(cells)), [f"{condition}: {group}" for condition, group in cells])
        figure.axes[0].set_ylim(len(cells) - 0.5, -0.5)
        figure.axes[0].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        figure.axes[0].xaxis.set_major_formatter(EngFormatter())
        for axes in figure.axes[:2]:
            axes.minorticks_off()
        figure.axes[1].set_xticks([5, 10, 20, 40, 80, 160], ["5", "10", "20", "40", "80", "160"])
        figure.suptitle("hollow: not learned in the steps it had; length 5 not solved", fontsize=9)
        return figure


def draw_positions(accuracy: pd.DataFrame, panels: Mapping[str, Mapping[str, tuple[str, str]]]) -> Figure:
    """Accuracy against length by panel and line, which are a condition and a point; thin lines are seeds."""
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    with styled():
        figure = new_figure(3.4 * len(panels) + 2.0, 3.2)
        all_axes = np.atleast_1d(figure.subplots(1, len(panels), sharey=True))
        for axes, (title, lines) in zip(all_axes, panels.items()):
            for label, (condition, point) in lines.items():
                of_line = accuracy[(accuracy["condition"] == condition) & (accuracy["point"] == point)]
                style = SERIES[labels.index(label)]
                for _, line in of_line.groupby("unit"):
                    line = line.sort_values("length")
                    axes.plot(line["length"], line["value"], color=style["color"], linewidth=0.5, alpha=0.5)
                mean = of_line.groupby("length")["value"].mean()
                axes.plot(mean.index, mean, **style, markersize=5, label=label)
            _length_axis(axes, accuracy["length"])
            axes.set(title=title, xlabel="length of the sentence (trained at 5)", ylim=(-0.03, 1.03))
            axes.title.set_fontsize(9)
        all_axes[0].set_ylabel("share of sentences\nwith all steps right")
        all_axes[-1].legend(
            *all_axes[0].get_legend_handles_labels(), fontsize=8, title="positions, mean over seeds",
            title_fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5),
        )  # fmt: skip
        return figure
