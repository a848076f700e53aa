"""What does a user's own measurement look like? Its effects with intervals, and heads paired across conditions."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from interp.core.contrast import Contrast, Side, contrast
from interp.core.effects import Effect, SidesCompared, shown_metrics, shown_scope
from interp.figures.pretrained import difference_maps, paired_heads, sorted_bars
from interp.figures.style import BLUE, GREEN, ORANGE, PURPLE, VERMILION, new_figure, styled
from probes.attention.statistics import Metric, find_metric
from probes.parts import Table, plain

STYLES = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "D"), (PURPLE, "^"), (ORANGE, "v"))
"""Of the scopes."""


def measurement_figures(
    table: Table, pairs: Sequence[SidesCompared], effects: Sequence[Effect]
) -> Mapping[str, Figure]:
    """All effects; the first condition against each other one, head by head; the paper's bars if they apply.

    Of all pairs those at `shown_places` are read.
    """
    if not effects:
        return {}
    metric = find_metric(effects[0].metric)
    scope = shown_scope([effect.scope for effect in effects if effect.metric == metric.name])
    contrasts, first = head_contrasts(pairs, metric, scope)
    quantity = metric.statistic.label
    drawn = {
        "effects": forest(effects),
        "paired_heads": paired_heads(contrasts, first, quantity),
        "difference_maps": difference_maps(contrasts, label=f"{quantity}, {first} minus comparison"),
    }
    if ("min", "all") in table.places:
        rows = plain(table.piece(("min", "all")))
        bars = [Side(condition, "min", "all", table.runs[0]) for condition in ("cot", "no_cot")]
        if {side.condition for side in bars} <= set(rows["condition"]):
            drawn["sorted_bars"] = sorted_bars(contrast(rows, *bars))
    return drawn


def head_contrasts(pairs: Sequence[SidesCompared], metric: Metric, scope: str) -> tuple[dict[str, Contrast], str]:
    """The first side against each other one, in `metric` and its length-matched form; and the first side in words."""
    shown = shown_metrics(metric)
    found, first_side = {}, ""
    for pair in pairs:
        if pair.first.metric not in shown or pair.first.scope != scope:
            continue
        first_side = first_side or pair.names[0]
        if pair.names[0] == first_side:
            short = [_short(name, 32) for name in pair.names]
            broken = "\n− " if pair.names[0] != pair.first.condition else " − "  # models may be called by long names
            found[f"{pair.first.metric}, {scope} tokens\n{broken.join(short)}"] = pair.contrast
    return found, _short(first_side, 20)  # it stands in the legend of every panel


def forest(effects: Sequence[Effect]) -> Figure:
    """Every effect with its interval: a panel for each metric, a line for each pair, a mark for each scope."""
    metrics = list(dict.fromkeys(effect.metric for effect in effects))
    scopes = list(dict.fromkeys(effect.scope for effect in effects))
    lines = list(dict.fromkeys((effect.first, effect.second) for effect in effects))
    columns = min(4, len(metrics))
    n_rows = -(-len(metrics) // columns)
    names = [f"{_short(first)} − {_short(second)}" for first, second in lines]
    with styled():
        figure = new_figure(
            2.6 * columns + max(2.0, 0.08 * max(map(len, names))), (0.32 * len(lines) + 1.0) * n_rows + 0.6
        )
        grid = figure.subplots(n_rows, columns, squeeze=False, sharey=True).flatten()
        for axes in grid[len(metrics) :]:
            axes.set_visible(False)
        for axes, metric in zip(grid, metrics):
            axes.axvline(0, color="0.4", linewidth=0.8)
            for number, scope in enumerate(scopes):
                chosen = [effect for effect in effects if (effect.metric, effect.scope) == (metric, scope)]
                _marks(
                    axes, chosen, lines, scope, 0.16 * (number - (len(scopes) - 1) / 2), STYLES[number % len(STYLES)]
                )
            axes.set_title(metric, fontsize=9)
            axes.tick_params(labelsize=8)
        grid[0].set_yticks(range(len(lines)), names)
        grid[0].set_ylim(len(lines) - 0.5, -0.5)
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper right", ncols=len(scopes))
        one = effects[0]
        n = f"{one.problems} problems" if one.unit == "problems" else f"{one.problems} problems in {one.n} clusters"
        figure.supxlabel(f"mean difference over heads, {one.level:.0%} interval each ({n})", fontsize=9)
    return figure


def _short(name: str, most: int = 40) -> str:
    """`name` without its middle, if it is long: models may be called by a path."""
    return name if len(name) <= most else f"{name[: most // 3]}…{name[-(most - most // 3 - 1) :]}"


def _marks(axes, chosen: Sequence[Effect], lines: list, scope: str, shift: float, style: tuple[str, str]) -> None:
    """Estimates of one scope with their intervals; an open end is drawn to the estimate only."""
    place = np.array([lines.index((effect.first, effect.second)) for effect in chosen]) + shift
    middle = np.array([effect.estimate for effect in chosen])
    ends = np.array([(effect.low, effect.high) for effect in chosen]).T
    ends = np.where(np.isfinite(ends), ends, middle)
    colour, marker = style
    axes.errorbar(
        middle, place, xerr=np.abs(ends - middle), fmt=marker, color=colour, markersize=3.5, linewidth=1.2,
        label=f"{scope} tokens",
    )  # fmt: skip
