"""What do the theorems' models look like? Figures of wen2024/thm1 and wen2024/thm3 from rows."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from interp.figures.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, new_figure, styled


def draw_representation(
    found: pd.DataFrame, least: pd.DataFrame, shares: Sequence[float], formats: Mapping[str, int]
) -> Figure:
    """How many dimensions and how many bits the construction needs.

    `least` are the rows of the fewest bits along k = n/4, `shares` the dimensions tried as shares of the proof's.
    """
    exact = found[found["metric"] == "exact"]
    bits = found[found["metric"] == "least_bits"]
    with styled():
        figure = new_figure(10.0, 4.2)
        dimension, precision = figure.subplots(1, 2)
        styles = list(zip((BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, "0.25", "0.6"), "os^Dv*PX"))
        for (n, group), (colour, marker) in zip(exact.groupby("n"), itertools.cycle(styles)):
            right = group.groupby("share")["value"].mean()
            dimension.plot(16 * right.index, right, color=colour, marker=marker, alpha=0.8, label=f"n={n}")
        dimension.set_xscale("log", base=2)
        dimension.set_xticks([16 * s for s in shares], [f"{16 * s:g}" for s in shares])
        dimension.set(
            xlabel="dimension d / (k log(4n/δ))",
            ylabel="share of constructions right on every input",
            ylim=(-0.03, 1.03),
            title="float64; 16 is what the proof needs",
        )
        dimension.legend(fontsize=8, ncols=2)
        for (k, group), (colour, marker) in zip(bits.groupby("k"), itertools.cycle(styles)):
            jitter = 1 + 0.02 * (pd.to_numeric(group["unit"]) % 10 - 2)
            precision.plot(group["n"] * jitter, group["value"], marker, color=colour, alpha=0.8, label=f"k={k}")
        along = least.groupby("n")["value"].mean()
        precision.plot(along.index, along, color="0.4", linestyle="--", label="mean along k=n/4")
        ns = sorted(bits["n"].unique())
        between = np.sqrt(np.prod(ns[(len(ns) - 1) // 2 :][:2]))
        for name in ("float16", "bfloat16"):
            precision.axhline(formats[name], color="0.6", linewidth=0.8)
            precision.text(between, formats[name] + 0.1, name, ha="center", fontsize=8, color="0.35")
        precision.set_xscale("log", base=2)
        precision.set_xticks(ns, [str(n) for n in ns], fontsize=7)
        precision.minorticks_off()
        precision.set(
            xlabel="n, number of input bits",
            ylabel="least significant bits without an error",
            ylim=(0, max(12.5, bits["value"].max() + 1)),
            title="every weight and activation rounded",
        )
        precision.legend(fontsize=8, ncols=2, loc="lower right")
    return figure


def draw_phases(found: pd.DataFrame, n: int, exponent: float) -> Figure:
    """What each of three steps changes, seed by seed."""
    with styled():
        figure = new_figure(10.5, 3.8)
        knows, attends, answers = figure.subplots(1, 3)

        def curves(axes: Any, metric: str, colour: str, style: str, marker: str, label: str) -> None:
            by_seed = found[found["metric"] == metric].pivot(index="phase", columns="unit", values="value")
            axes.plot(by_seed, color=colour, linestyle=style, linewidth=0.8, alpha=0.4)
            axes.plot(by_seed.mean(axis=1), color=colour, linestyle=style, marker=marker, label=label)

        curves(knows, "parity_hit", BLUE, "-", "o", "given the running parity")
        curves(knows, "hit", VERMILION, "--", "s", "against every key (phase 1)")
        knows.set(title="Phase 1: hidden weights", ylabel="share of steps where S[i] stands out", ylim=(-0.03, 1.03))
        curves(attends, "exponent", GREEN, "-", "o", "mean over seeds")
        attends.axhline(exponent, color="0.4", linestyle=":", label=f"the theorem's n^-{exponent:g}")
        attends.set(title=f"Phase 2: attention (n={n})", ylabel="x; the distance to one-hot is n^-x")
        curves(answers, "accuracy", BLUE, "-", "o", "sequences without an error")
        curves(answers, "margin", VERMILION, "--", "s", "worst margin, proven")
        answers.set(title="Phase 3: output", ylabel="share; output T(b)")
        for axes in (knows, attends, answers):
            axes.set_xticks(range(4))
            axes.set_xlabel("SGD steps taken")
            axes.legend(fontsize=8)
    return figure


def draw_batch_sizes(found: pd.DataFrame, n: int, exponent: float) -> Figure:
    """Accuracy and distance to one-hot attention after three steps, against the batch size."""
    last = found[found["phase"] == 3]
    with styled():
        figure = new_figure(8.5, 3.6)
        accuracy, distance = figure.subplots(1, 2)
        panels = ((accuracy, "accuracy", BLUE), (distance, "exponent", GREEN))
        for axes, metric, colour in panels:
            values = last[last["metric"] == metric]
            axes.plot(values["B"], values["value"], "o", color=colour, alpha=0.5, label="seeds")
            axes.plot(values.groupby("B")["value"].median(), color=colour, label="median")
            axes.set_xscale("log", base=2)
            axes.set_xlabel("B, sequences in each of three steps")
        accuracy.set(ylabel="share of sequences without an error", ylim=(-0.03, 1.03), title="after three steps")
        distance.axhline(exponent, color="0.4", linestyle=":", label=f"the theorem's n^-{exponent:g}")
        distance.set(ylabel="x; the distance to one-hot is n^-x", title=f"after three steps (n={n})")
        for axes in (accuracy, distance):
            axes.legend(fontsize=8)
    return figure


def draw_growth(enough: pd.DataFrame, bits: pd.DataFrame) -> Figure:
    """The smallest batch and the fewest bits against n, seed by seed."""
    with styled():
        figure = new_figure(8.5, 3.6)
        batches, precision = figure.subplots(1, 2)
        for (width, group), colour, marker, push in zip(
            sorted(enough.groupby("wide"), reverse=True), (BLUE, VERMILION), "os", (0.98, 1.02)
        ):
            middle = group.groupby("n")["value"].median()
            batches.plot(group["n"] * push, group["value"], marker, color=colour, alpha=0.25, ms=4)
            batches.plot(middle.index * push, middle, color=colour, marker=marker, label=f"m = {width} n, median")
            if colour == BLUE:
                ns = np.array(sorted(middle.index), dtype=float)
                batches.plot(ns, middle.iloc[0] * ns / ns[0], color="0.4", linestyle=":", label="in proportion to n")
        batches.set_yscale("log", base=2)
        batches.set(ylabel="smallest batch that is enough", title="three steps, right and one-hot (k=2)")
        jitter = 1 + 0.004 * (pd.to_numeric(bits["unit"]) % 10 - 5)
        precision.plot(bits["n"] * jitter, bits["value"], "o", color=GREEN, alpha=0.4, ms=4, label="seeds")
        precision.plot(bits.groupby("n")["value"].mean(), color=GREEN, marker="s", label="mean")
        precision.set(ylabel="fewest significant bits without an error", title="trained block, rounded")
        precision.set_ylim(0, bits["value"].max() + 1.5)
        for axes, ns in ((batches, enough["n"]), (precision, bits["n"])):
            axes.set_xscale("log", base=2)
            axes.set_xticks(sorted(ns.unique()), [str(n) for n in sorted(ns.unique())])
            axes.minorticks_off()
            axes.set_xlabel("n, number of input bits")
            axes.legend(fontsize=8)
    return figure


def draw_one_pass(best: pd.DataFrame, nontrivial: float) -> Figure:
    """Held-out accuracy after one pass without CoT, by the number of secret bits."""
    with styled():
        figure = new_figure(5.4, 3.4)
        axes = figure.subplots()
        ks = sorted(best["k"].unique())
        place = best["k"].map({k: at for at, k in enumerate(ks)}) + 0.02 * (pd.to_numeric(best["unit"]) % 10 - 4.5)
        axes.plot(place, best["value"], "o", color=BLUE, alpha=0.5, label="seeds, best learning rate")
        axes.axhline(0.5, color="0.4", linestyle=":", label="chance")
        axes.axhline(nontrivial, color=VERMILION, linestyle="--", linewidth=0.9, label="learned, if above")
        axes.set_xticks(range(len(ks)), [str(k) for k in ks])
        axes.set_xlim(-0.5, len(ks) - 0.5)
        axes.set(xlabel="k, number of secret bits", ylabel="held-out accuracy", ylim=(-0.03, 1.03))
        axes.legend(fontsize=8)
    return figure
