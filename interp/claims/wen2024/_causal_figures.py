"""What do interventions on attention do? Samples to solution by arm, and whether sparse runs are the solved ones."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._causal import ARMS, of_arm, problems
from interp.figures.style import SERIES, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CONDITION = {"cot": "with CoT", "no_cot": "without CoT"}


def samples_by_arm(runs: pd.DataFrame) -> "Figure":
    """One panel for each problem, one line for each arm, one mark for each seed; hollow: the budget ended first."""
    found = problems(runs)
    with styled():
        figure = new_figure(3.4 * len(found) + 2.2, 0.34 * len(ARMS) + 1.6)
        grid = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
        for axes, problem in zip(grid, found):
            for place, arm in enumerate(ARMS):
                of_this = of_arm(runs, problem, arm)
                heights = place + 0.22 * np.linspace(-1, 1, len(of_this)) if len(of_this) > 1 else [place]
                for height, (samples, cut) in zip(heights, zip(of_this["samples"], of_this["censored"])):
                    face = "none" if cut else SERIES[0]["color"]
                    axes.plot(samples, height, "o", markersize=4.5, mec=SERIES[0]["color"], mfc=face)
            axes.set(xscale="log", xlabel="training samples to solution")
            axes.set_title(f"{_CONDITION[problem[0]]}, k={problem[1]}", fontsize=10)
        grid[0].set_yticks(range(len(ARMS)), list(ARMS.values()), fontsize=8)
        grid[0].set_ylim(len(ARMS) - 0.5, -0.5)
        figure.supxlabel("each mark a seed; hollow: the budget ended first", fontsize=8)
    return figure


def solved_against_entropy(runs: pd.DataFrame) -> "Figure":
    """The test accuracy of every run against its lowest entropy: is the sparse run the one that has learned?"""
    found = problems(runs)
    with styled():
        figure = new_figure(3.2 * len(found) + 2.4, 3.2)
        grid = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
        for axes, problem in zip(grid, found):
            for number, (arm, name) in enumerate(ARMS.items()):
                of_this = of_arm(runs, problem, arm)
                style = {**SERIES[number % len(SERIES)], "linestyle": "", "markersize": 5, "alpha": 0.8}
                if name.startswith("pressed"):  # other shapes, hollow: there are more arms than colours
                    style |= {"markerfacecolor": "none", "marker": "Pv<>"[number % 4]}
                apart = 0.012 * (number - len(ARMS) / 2)  # arms that end alike stand side by side
                axes.plot(of_this["entropy"], of_this["test_accuracy"] + apart, label=name, **style)
            axes.set(xlabel="lowest normalised entropy\nat the end of training", xlim=(-0.04, 1.04))
            axes.set_title(f"{_CONDITION[problem[0]]}, k={problem[1]}", fontsize=10)
        grid[0].set(ylabel="test accuracy, all tokens right\n(arms set apart by 0.01)", ylim=(-0.09, 1.09))
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", fontsize=8)
    return figure
