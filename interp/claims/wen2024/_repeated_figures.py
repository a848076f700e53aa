"""The figure of runs on repeated data: how soon does each configuration learn?"""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from interp.figures.style import SERIES, new_figure, styled


def draw_configurations(rows: pd.DataFrame, runs: pd.DataFrame, solved: float) -> Figure:
    """Validation accuracy against epochs for each configuration, median over seeds, and what each seed took."""
    accuracy = rows[rows["metric"] == "accuracy"].merge(
        runs[["run", "k", "layers", "heads", "dataset_size"]], on="run", validate="many_to_one"
    )
    accuracy["epoch"] = (accuracy["samples"] / accuracy["dataset_size"]).clip(lower=1)  # for a logarithmic axis
    kinds = ["condition", "k", "layers", "heads"]
    with styled():
        figure = new_figure(10.5, 4.6)
        curves, points = figure.subplots(1, 2, width_ratios=(3, 2))
        names = []
        for place, (kind, group) in enumerate(runs.groupby(kinds)):
            names.append(_named(*kind, hardest=runs["k"].max()))
            of = accuracy[(accuracy[kinds] == list(kind)).all(axis=1)]
            # A run stops when it is perfect; it stays perfect in the median of its configuration.
            table = of.pivot_table(index="epoch", columns="unit", values="value").ffill()
            style = SERIES[place % len(SERIES)]
            curves.plot(table.index, table.median(axis=1), **{**style, "marker": ""}, label=names[-1])
            epochs = group["near"] / group["dataset_size"]
            marks = {**style, "linestyle": "", "alpha": 0.8}
            for chosen, change in ((~group["never"], {}), (group["never"], {"marker": ">", "mfc": "none"})):
                points.plot(epochs[chosen], [place] * int(chosen.sum()), **{**marks, **change})
        curves.set(xlabel="epochs", ylabel="validation accuracy, median over seeds", ylim=(-0.03, 1.05), xscale="log")
        first = runs.iloc[0]
        curves.set_title(f"n={first['n']}, k={runs['k'].max()}, {first['dataset_size']} samples repeated")
        curves.legend(fontsize=8)
        points.plot([], [], ">", color="0.4", mfc="none", label="budget ran out")
        points.set(xlabel=f"epochs to {solved:.0%}, one mark a seed", xscale="log")
        points.set_yticks(range(len(names)), names)
        points.legend(fontsize=8, loc="best")
        for axes in (curves, points):
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
            axes.xaxis.set_minor_formatter(NullFormatter())
    return figure


def _named(condition: str, k: int, layers: int, heads: int, hardest: int) -> str:
    return f"{layers}L{heads}H" + (" with CoT" if condition == "cot" else "") + (f", k={k}" if k < hardest else "")
