"""What does the chain of controls look like? Every comparison with its interval, the published one on top."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from interp.claims.wen2024._fig6 import difference, summary
from interp.claims.wen2024._fig6_comparisons import COMPARISONS, PERMUTED
from interp.claims.wen2024._pretrained import SMALLEST
from interp.core.contrast import Contrast
from interp.figures.pretrained import difference_maps, paired_heads, sorted_bars
from interp.figures.style import BLUE, VERMILION, new_figure, styled
from interp.statistics import Interval


def figures(rows: pd.DataFrame) -> Mapping[str, Figure]:
    """The chain of controls, heads paired across conditions, difference maps, and the paper's sorted bars."""
    found = summary(rows)
    heads = {of.name: found[key] for key, of in COMPARISONS.items() if of.primary and key in found}
    drawn = {
        "controls": controls(found),
        "paired_heads": paired_heads(heads),
        "difference_maps": difference_maps(heads),
    }
    if "published" in found:
        drawn["sorted_bars"] = sorted_bars(found["published"])
    return drawn


def controls(found: Mapping[str, Contrast]) -> Figure:
    """Mean differences of the normalised entropy with 95% intervals: primary, controls, and permuted weights."""
    shown = [
        key for key, of in COMPARISONS.items() if key in found and of.role != "ours" and "nats" not in of.first.metric
    ]
    groups = (
        ("primary", [key for key in shown if COMPARISONS[key].primary]),
        ("controls", [k for k in shown if not COMPARISONS[k].primary and COMPARISONS[k].first.run != PERMUTED]),
        ("the model with permuted weights", [k for k in shown if COMPARISONS[k].first.run == PERMUTED]),
    )
    lines = sum(len(keys) + 1 for _, keys in groups if keys)
    with styled():
        figure = new_figure(7.6, 0.3 * lines + 1.25)
        axes = figure.subplots()
        axes.axvspan(-SMALLEST, SMALLEST, color="0.92", zorder=0, label=f"less than {SMALLEST:g}: too small to count")
        axes.axvline(0, color="0.3", linewidth=0.8)
        labels = _drawn(axes, groups, found)
        axes.set_yticks(range(len(labels)), labels)
        for label, text in zip(axes.get_yticklabels(), labels):
            label.set_fontweight("bold" if text in [name for name, _ in groups] else "normal")
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("difference of normalised entropy, 95% intervals\n(left: sparser with CoT)")
        axes.legend(loc="best", fontsize=7)
    return figure


def _drawn(axes, groups: Sequence[tuple[str, Sequence[str]]], found: Mapping[str, Contrast]) -> list[str]:
    """Draws the intervals; the labels of all lines, group names included."""
    labels: list[str] = []
    for name, keys in groups:
        if not keys:
            continue
        labels.append(name)
        for key in keys:
            interval = difference(found, 0.95, key=key)
            if isinstance(interval, Interval):
                colour = VERMILION if COMPARISONS[key].first.run == PERMUTED else BLUE
                width = [[interval.value - interval.low], [interval.high - interval.value]]
                axes.errorbar(interval.value, len(labels), xerr=width, fmt="o", ms=4, color=colour, capsize=2)
            labels.append(COMPARISONS[key].name.removeprefix("permuted weights: "))
    return labels
