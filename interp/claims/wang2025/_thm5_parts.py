"""What do the rows of wang2025/thm5 say? The declared parts, and the samples of training on k-fold data alone."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wang2025._bounds import HIGH_PROBABILITY, bound_part, bounded
from interp.claims.wang2025._thm5 import PROOFS_CONSTANT
from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from interp.claims.wang2025.thm5 import Thm5

WORDS = {
    "lemma10": "Lemma 10: deviation / rounding",
    "lemma12": "Lemma 12: inner product",
    "query": "one query sets apart",
    "signal": "answers, RMS",
}
WHY = "an identity or a bound without exception: nine seeds in ten is a lower bar, and the least that it can mean"
BY_TOLERANCE = 0.5
"""The proof's tolerance, tau^2 of order N^(-k/2) up to logarithms, makes n ~ 1/tau^2 grow as N^(k/2)."""


@dataclass(frozen=True)
class Summary:
    """What the parts read."""

    bounds: pd.DataFrame
    """By condition, size and seed: a quantity over its bound."""
    packing: pd.DataFrame
    """By size: log of the packing number over k N log N."""
    alone: pd.DataFrame
    """By size and seed: samples, and whether the budget ended first."""


def summary(rows: pd.DataFrame) -> Summary:
    """Bounds, packing numbers, samples."""
    alone = with_settings(rows[rows["condition"] == "alone"])
    return Summary(
        bounded(rows),
        with_settings(rows[rows["metric"] == "packing"]),
        alone.assign(censored=alone["metric"] == "censored_at"),
    )


def parts(preset: "Thm5") -> list[Part]:
    """Each lemma, what queries can tell, and one learner."""
    return [
        bound_part(
            "lemma10", "the inner product is the product over hidden permutations", "Lemma 10, as its proof has it",
            "no pair further from the count over all inputs than 1e-12", WHY, primary=True,
        ),
        bound_part(
            "lemma12", "there are (r!/4)^(k/2) functions with inner products of at most (2r/N)^(k/2)", "Lemma 12",
            "a set of that size within the bound", WHY, primary=True,
        ),
        Part(
            key="corollary13",
            name="log packing numbers are at least k N log N / 16, by a counting bound of ours",
            role="paper",
            source="Corollary 13",
            quantity="share of sizes (k, N) with a packing number, from below, of at least exp(k N log N / 16)",
            estimate=share_packed,
            direction="above",
            threshold=HIGH_PROBABILITY,
            why="1/16 is what the proof's own r = N/8 tends to; said of all sizes: nine in ten is a lower bar. "
            "Computed exactly, not sampled; the proof's own set is far smaller at these N",
            unit="problems",
            note=_least_packing,
        ),
        bound_part(
            "query", "one query sets apart at most 1/(tau^2 - c) nearly orthogonal functions of each sign",
            "Appendix B, proof of Theorem 5", "every tried query within the bound at every tolerance", WHY,
            primary=True,
        ),
        bound_part(
            "signal", "over all hidden permutations a query answers at most (N-1)^-k in root mean square",
            "", "every tried query within sqrt((N-1)/N) (N-1)^-k",
            "ours: an eigenvalue, checked by enumeration", role="ours",
        ),
        Part(
            key="alone",
            name="from k-fold data alone, samples grow at least as N^(k/2)",
            role="ours",
            quantity="slope of log_N of the samples until learned against k, N = 3, mean over seeds; censored runs "
            "open it above",
            estimate=growth_in_k,
            direction="above",
            threshold=BY_TOLERANCE,
            why="the large-N exponent of the proof's tolerance; at N = 3 its own logarithm leaves 0.14; a "
            "heuristic of ours",
            unit="seeds",
            note=_typical_samples,
        ),
    ]  # fmt: skip


def share_packed(found: Summary, level: float) -> Interval | NotMeasurable:
    """The share of sizes at which the packing number is as large as the proof's constant has it."""
    return share_of(found.packing["value"] >= PROOFS_CONSTANT, level)


def growth_in_k(found: Summary, level: float) -> Interval | NotMeasurable:
    """The slope by seed over the sizes with the least N; a censored run can only have taken more."""
    of = found.alone[found.alone["n"] == found.alone["n"].min()]
    if of["k"].nunique() < 2:
        return NotMeasurable("fewer than two k")
    samples = (np.log(of["value"]) / np.log(of["n"])).groupby([of["unit"], of["k"]]).mean().unstack("k").dropna()
    slopes = np.polyfit(samples.columns.to_numpy(float), samples.to_numpy().T, 1)[0]
    return mean_over(slopes, level, open_above=bool(of["censored"].any()))


def _least_packing(found: Summary) -> str:
    least = found.packing.loc[found.packing["value"].idxmin()]
    return f"least constant {least['value']:.2f}, at k={least['k']:.0f}, N={least['n']:.0f}"


def _typical_samples(found: Summary) -> str:
    medians = found.alone.groupby(["k", "n"])["value"].median()
    shown = ", ".join(f"{value:,.0f} at k={k:.0f}, N={n:.0f}" for (k, n), value in medians.items())
    return f"median samples: {shown}; learning all inputs by heart would grow as (N!)^k, 1.6 at N = 3"


def samples_figure(alone: pd.DataFrame) -> "Figure":
    """Samples until learned against k, by N, with the slopes of the bound and of learning by heart."""
    from interp.figures.style import SERIES, new_figure, styled

    with styled():
        figure = new_figure(5.4, 4.0)
        axes = figure.subplots()
        for style, (n, of) in zip(SERIES, alone.groupby("n")):
            typical = of.groupby("k")["value"].median()
            axes.plot(of["k"], of["value"], **{**style, "linestyle": "", "alpha": 0.35})
            axes.plot(typical.index, typical, **style, label=f"N={n:.0f}")
        n = alone["n"].min()
        first = alone[alone["n"] == n].groupby("k")["value"].median()
        ks = np.array([first.index.min(), first.index.max()], dtype=float)
        axes.plot(
            ks, first.iloc[0] * n ** ((ks - ks[0]) / 2), color="0.4", linestyle="--", label=f"slope of {n:.0f}^(k/2)"
        )
        axes.set_xticks(sorted(alone["k"].unique()))
        axes.set(
            yscale="log", xlabel="k", ylabel="samples until accuracy 0.9", title="k-fold data alone, a perceptron"
        )
        axes.legend(fontsize=8)
    return figure
