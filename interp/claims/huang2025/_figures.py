"""What do the runs of huang2025 look like? Figures from rows that several of its claims share."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from interp.claims.huang2025._runs import REACHED
from interp.figures.style import BLUE, ORANGE, PURPLE, SERIES, VERMILION, new_figure, styled

GROUP_STYLE = {
    "C6": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "S5": {"color": VERMILION, "marker": "s", "linestyle": "--"},
}


def _length_axis(axes: Axes, lengths: pd.Series) -> None:
    axes.set_xscale("log", base=2)
    ticks = sorted(lengths.unique())
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()


def draw_accuracy(accuracy: pd.DataFrame) -> Figure:
    """The paper's Figure 1a: accuracy after the last step against length, one panel for each model."""
    last = accuracy[accuracy["update"] == accuracy.groupby("run")["update"].transform("max")]
    last = last[~last["condition"].str.contains(",")]
    conditions = sorted(last["condition"].unique())
    with styled():
        figure = new_figure(3.6 * len(conditions), 3.2)
        all_axes = np.atleast_1d(figure.subplots(1, len(conditions), sharey=True))
        for axes, condition in zip(all_axes, conditions):
            for group, style in GROUP_STYLE.items():
                of_group = last[(last["condition"] == condition) & (last["group"] == group)]
                for _, line in of_group.groupby("unit"):
                    line = line.sort_values("length")
                    axes.plot(line["length"], line["value"], color=style["color"], linewidth=0.7, alpha=0.5)
                mean = of_group.groupby("length")["value"].mean()
                axes.plot(mean.index, mean, **style, label=group)
            _length_axis(axes, last["length"])
            axes.set(title=f"{condition} model", xlabel="length of the sentence (trained at 5)", ylim=(-0.03, 1.03))
        all_axes[0].set_ylabel("share of sentences\nwith all steps right")
        all_axes[-1].legend(title="mean over seeds", fontsize=9, title_fontsize=9)
        return figure


def draw_reach(far: pd.DataFrame, loss: pd.DataFrame) -> Figure:
    """The length reached against steps (above) and against the loss (below), for both models; a line is a seed."""
    keys = ["condition", "group", "unit", "update"]
    curves = far.merge(loss[[*keys, "value"]].rename(columns={"value": "loss"}), on=keys)
    curves = curves[~curves["condition"].str.contains(",")]
    conditions = sorted(curves["condition"].unique())
    with styled():
        figure = new_figure(3.8 * len(conditions), 6.0)
        grid = np.atleast_2d(figure.subplots(2, len(conditions), sharey=True, squeeze=False))
        for column, condition in zip(grid.T, conditions):
            for group, style in GROUP_STYLE.items():
                of_group = curves[(curves["condition"] == condition) & (curves["group"] == group)]
                for number, (_, line) in enumerate(of_group.groupby("unit")):
                    line = line.sort_values("update")
                    thin = {**style, "markersize": 4, "linewidth": 1, "alpha": 0.7}
                    for axes, x in zip(column, ("update", "loss")):
                        axes.plot(line[x], 2 ** line["value"], **thin, label=group if number == 0 else None)
            column[0].set(title=f"{condition} model", xlabel="gradient steps", yscale="log")
            column[1].set(xlabel="loss at the training length (nats per clause)", xscale="log", yscale="log")
            column[1].invert_xaxis()
        for axes in grid.flatten():
            ticks = [5, 10, 20, 40, 80, 160]
            axes.set_yticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
        for axes in grid[:, 0]:
            axes.set_ylabel(f"length at which accuracy\nfalls below {REACHED:g}")
        grid[0, -1].legend(fontsize=9)
        return figure


def draw_gaps(gaps: pd.DataFrame, threshold: float) -> Figure:
    """Octaves by which C6 goes farther, by condition: each seed a point, hollow where one fails at length 5."""
    conditions = list(gaps["condition"].unique())
    with styled():
        figure = new_figure(7.2, 0.55 * len(conditions) + 1.6)
        axes = figure.subplots()
        for style, (column, label), shift in zip(
            SERIES, {"way": "at equal steps, mean on the way", "end": "at equal steps, at the end",
                     "loss": "at equal loss"}.items(), (-0.22, 0.0, 0.22)
        ):  # fmt: skip
            places = [conditions.index(condition) + shift for condition in gaps["condition"]]
            look = {"edgecolors": style["color"], "marker": style["marker"], "s": 26, "alpha": 0.8}
            inside = [style["color"] if both else "none" for both in gaps["both"]]
            axes.scatter(gaps[column], places, c=inside, **look, label=label)
        axes.axvline(0, color="0.4", linewidth=0.8)
        axes.axvline(threshold, color="0.4", linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(conditions)), conditions)
        axes.set_ylim(len(conditions) - 0.5, -0.5)
        axes.set_xlabel("octaves by which C6 goes farther than S5; dotted: far beyond; hollow: length 5 not solved")
        axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3)
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


def draw_ladder(found: pd.DataFrame) -> Figure:
    """By group, from few facts to many: the length reached and the attention off the targets; a point is a seed."""
    kinds = {
        (True, True): ("simply transitive, solvable", BLUE, "o"),
        (False, True): ("not simply transitive, solvable", ORANGE, "^"),
        (False, False): ("not simply transitive, not solvable", VERMILION, "s"),
        (True, False): ("simply transitive, not solvable", PURPLE, "D"),
    }
    groups = found.groupby("group")[["facts", "points"]].first().sort_values(["facts", "points"])
    place = {group: index for index, group in enumerate(groups.index)}
    with styled():
        figure = new_figure(0.85 * len(groups) + 1.2, 5.8)
        above, below = figure.subplots(2, 1, sharex=True)
        for (simple, solvable), (name, colour, marker) in kinds.items():
            of_kind = found[(found["simple"] == simple) & (found["solvable"] == solvable)]
            if of_kind.empty:
                continue
            at = of_kind["group"].map(place)
            look = {"color": colour, "marker": marker, "s": 22, "alpha": 0.7}
            above.scatter(at, 2 ** of_kind["reach"], **look, label=name)
            below.scatter(at, 1 - of_kind["mass"], **look)
            means = of_kind.groupby("group")[["reach", "mass"]].mean()
            ends = [(place[group] - 0.25, place[group] + 0.25) for group in means.index]
            above.hlines(2 ** means["reach"], *zip(*ends), color=colour)
            below.hlines(1 - means["mass"], *zip(*ends), color=colour)
        names = [f"{group.replace('-regular', '')}{' on itself' if '-r' in group else ''}" for group in groups.index]
        labels = [f"{name}\n{row.facts} facts\n{row.points} points" for name, row in zip(names, groups.itertuples())]
        below.set_xticks(range(len(groups)), labels, fontsize=8)
        below.set(ylabel="attention off\nboth targets, length 5", ylim=(0, None))
        above.set(ylabel=f"length with {REACHED:g} solved\n(mean over evaluations)", yscale="log")
        above.set_yticks([5, 10, 20, 40, 80, 160], ["5", "10", "20", "40", "80", "160"])
        above.minorticks_off()
        above.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        return figure
