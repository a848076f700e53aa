"""What does it look like? Figure functions take rows and return a matplotlib Figure.

One style for the whole suite: colours of Okabe and Ito (distinguishable for colour-blind readers), colour never
alone (line style or marker goes with it), units on every axis.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.ticker
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backend_bases import get_registered_canvas_class
from matplotlib.figure import Figure

from probes.base.atomic import remove_leftovers, write_file

BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
)
CONDITION_STYLE: dict[str, dict[str, Any]] = {
    "cot": {"color": BLUE, "marker": "o", "linestyle": "-", "label": "with CoT"},
    "no_cot": {"color": VERMILION, "marker": "s", "linestyle": "--", "label": "without CoT"},
}
SERIES: list[dict[str, Any]] = [
    {"color": colour, "marker": marker, "linestyle": line}
    for colour, marker, line in zip(
        (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, "0.35"),
        ("o", "s", "^", "D", "v", "P", "X"),
        ("-", "--", "-.", ":", "-", "--", "-."),
    )
]
"""Curves of one panel in order: colour, marker and line style all differ."""
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "figure.dpi": 110,
    "savefig.dpi": 150,
    "pdf.fonttype": 42,
}


def styled(grid: bool = True) -> AbstractContextManager[None]:
    """A context in which axes are created in the suite's style."""
    return matplotlib.rc_context({**STYLE, "axes.grid": grid})


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; no global state, no display."""
    return Figure(figsize=(width, height), layout="constrained")


METADATA = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None, "Creator": None}}
"""Without a date and a version two runs of the same rows give the same file."""


def save_figures(directory: Path, figures: Mapping[str, Figure], kinds: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Writes each figure in every one of `kinds`, atomically; returns the paths of the first kind."""
    directory.mkdir(parents=True, exist_ok=True)
    remove_leftovers(directory)
    for name, figure in figures.items():
        layout, canvas, dpi = figure.get_layout_engine(), figure.canvas, figure.dpi
        for kind in kinds:
            laid_out = kind != kinds[0]
            with styled(), matplotlib.rc_context({"svg.hashsalt": "cotlens"}):
                write_file(directory / f"{name}.{kind}", partial(_write, figure, kind, laid_out))
            figure.set_layout_engine("none")
        figure.set_layout_engine(layout or "none")
        figure.set_canvas(canvas)
        figure.dpi = dpi
    return [directory / f"{name}.{kinds[0]}" for name in figures]


def _write(figure: Figure, kind: str, laid_out: bool, path: Path) -> None:
    """`savefig` draws a figure once for its layout and once for the file; the second suffices for a second file."""
    if laid_out:
        figure.dpi = matplotlib.rcParams["savefig.dpi"]  # of images inside, as in savefig
        getattr(get_registered_canvas_class(kind)(figure), f"print_{kind}")(path, metadata=METADATA[kind])
    else:
        figure.savefig(path, format=kind, metadata=METADATA[kind])


def training_curves(rows: pd.DataFrame, title: str) -> Figure:
    """Accuracy, loss and every head's entropy of one run against the samples seen."""
    with styled():
        figure = new_figure(8.0, 6.5)
        accuracy, loss, entropy = figure.subplots(3, 1, sharex=True)
        _curve(accuracy, rows, "accuracy", color=BLUE, label="all tokens right")
        _curve(accuracy, rows, "token_accuracy", color=ORANGE, linestyle="--", label="each token")
        _curve(loss, rows, "train_loss", color=ORANGE, linestyle="--", label="training")
        _curve(loss, rows, "loss", color=BLUE, label="validation")
        _head_entropies(entropy, rows)
        accuracy.set(ylabel="accuracy", ylim=(-0.03, 1.03), title=title)
        loss.set(ylabel="loss\n(nats per token)", ylim=(0, None))
        entropy.set(
            ylabel="normalised entropy\n(eq. 1: least over\npositions)",
            ylim=(-0.03, 1.03),
            xlabel="training samples seen",
        )
        for axes in (accuracy, loss, entropy):
            axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), ncols=1 + len(axes.lines) // 9)
        entropy.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter())
        return figure


def head_curves(runs: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """Accuracy and every head's entropy against the samples seen, one column for each named run."""
    with styled():
        figure = new_figure(4.2 * len(runs) + 1.2, 4.8)
        panels = figure.subplots(2, len(runs), sharex=True, sharey=True, squeeze=False)
        for (name, rows), (accuracy, entropy) in zip(runs.items(), panels.T):
            _curve(accuracy, rows, "accuracy", color=BLUE)
            _head_entropies(entropy, rows)
            accuracy.set(title=name, ylim=(-0.03, 1.03))
            entropy.set_xlabel("training samples seen")
            entropy.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter())
        panels[0, 0].set_ylabel("validation accuracy")
        panels[1, 0].set_ylabel("normalised entropy of a head\n(eq. 1: least over positions)")
        panels[1, -1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        figure.suptitle(title, fontsize=11)
        return figure


def _head_entropies(axes: Axes, rows: pd.DataFrame) -> None:
    of_heads = rows[rows["metric"] == "entropy_min"]
    deep = of_heads["layer"].nunique() > 1
    for number, ((layer, head), of_head) in enumerate(of_heads.groupby(["layer", "head"])):
        colour = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY)[(layer if deep else head) % 6]
        label = f"layer {layer} head {head}" if number < 16 else None
        line = ("-", "--", "-.", ":")[head % 4]
        axes.plot(of_head["samples"], of_head["value"], color=colour, linestyle=line, label=label)


def attention_map(rows: pd.DataFrame, title: str) -> Figure:
    """The mean attention of every head at the supervised positions; circles mark what the answer needs."""
    maps = rows[rows["metric"].isin(["attention", "dependency"]) & (rows["scope"] == "test")]
    maps = maps[maps["samples"] == maps["samples"].max()]
    attention = maps[maps["metric"] == "attention"]
    needed = maps[(maps["metric"] == "dependency") & (maps["value"] > 0)]
    heads = list(attention.groupby(["layer", "head"]))
    n_queries, n_keys = attention["query"].nunique(), attention["key"].nunique()
    with styled(grid=False):
        figure = new_figure(max(6.5, 0.14 * n_keys + 2), (max(2.2, 0.17 * n_queries) + 0.7) * len(heads) + 0.4)
        all_axes = np.atleast_1d(figure.subplots(len(heads), 1, sharex=True))
        for axes, ((layer, head), of_head) in zip(all_axes, heads):
            grid = of_head.pivot(index="query", columns="key", values="value")
            first = grid.index.min()
            extent = (-0.5, n_keys - 0.5, first + n_queries - 0.5, first - 0.5)
            axes.imshow(grid, cmap="Blues", vmin=0, vmax=1, aspect="auto", extent=extent)
            axes.scatter(
                needed["key"], needed["query"], s=26, facecolors="none", edgecolors=VERMILION, linewidths=1.1
            )
            axes.set_ylabel(f"layer {layer} head {head}\nquery position")
            axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True, nbins=10, min_n_ticks=1))
        all_axes[-1].xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
        all_axes[-1].set_xlabel("key position (circle: the answer depends on this token)")
        all_axes[0].set_title(title)
        figure.colorbar(all_axes[0].images[0], ax=list(all_axes), label="mean attention weight", shrink=0.8)
        return figure


def _curve(axes: Axes, rows: pd.DataFrame, metric: str, **style: Any) -> None:
    curve = rows[rows["metric"] == metric]
    axes.plot(curve["samples"], curve["value"], **style)
