"""What do the rows of wen2024/thm1 say? Constructions that are right, bits, sizes, and the declared parts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

DELTA = 0.1
"""The theorem allows a failure in this share of the random embeddings."""
BITS_PER_DOUBLING = 3.0
"""Precision may grow by this many bits when n doubles and k with it. The neurons cancel numbers of order k^2, which
costs two; the scores of order log n and the evenness of attention cost less than one more."""
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Dimensions tried, as shares of the one that the proof needs."""
FEWEST_BITS, MOST_BITS = 2, 24
"""Significant bits between which the fewest is searched; one above the largest stands for more."""
DTYPES = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Formats tried, with their significant bits."""


@dataclass(frozen=True)
class Representation:
    """What the parts read: metrics at the proof's dimension, and the fewest bits along k = n/4."""

    whole: pd.DataFrame
    bits: pd.DataFrame


def summary(rows: pd.DataFrame) -> Representation:
    """The constructions at the proof's dimension, and the fewest bits without an error."""
    found = with_settings(rows)
    return Representation(found[found["share"] == 1], fewest_bits(found))


def parts(preset: Any) -> list[Part]:
    """How often every input is answered correctly, and how fast the precision grows with n."""
    return [
        Part(
            key="exact",
            name="every input is answered rightly",
            role="paper",
            source="Theorem 1: with probability at least 1 - delta over the embedding, perfect accuracy",
            primary=True,
            quantity="share of random embeddings whose construction is right on all 2^n inputs, float64",
            estimate=share_exact,
            direction="above",
            threshold=1 - DELTA,
            why=f"the theorem's 1 - delta, with the delta = {DELTA:g} for which the dimension is chosen; over all "
            "sizes together, since six embeddings of one size could not show it",
            unit="runs",
            note=_sizes,
        ),
        Part(
            key="bits",
            name="about log n bits are enough",
            role="paper",
            source="Theorem 1: Theta(log n) precision of the weights and activations",
            primary=True,
            quantity="significant bits needed more when n doubles, k = n/4, mean over seeds",
            estimate=bits_per_doubling,
            direction="below",
            threshold=BITS_PER_DOUBLING,
            why="numbers of order k^2 cancel, which costs two bits; scores of order log n and even attention cost "
            "less than one more",
            unit="seeds",
            note=_formats,
        ),
        Part(
            key="size",
            name="the construction has fewer than n k / log n parameters, counted as d^2 + d m, at an n that was run",
            role="ours",
            quantity="(d^2 + d m) log n / (n k) at the proof's d, least over sizes",
            estimate=least_size,
            direction="below",
            threshold=1.0,
            why="the theorem has o(n k / log n): from some n on below any constant, 1 too. That it is above at "
            "these n does not contradict the theorem; it says that its regime is not reached",
            unit="runs",
            note=_counts,
        ),
    ]


def least_size(found: Representation, level: float) -> Interval | NotMeasurable:
    """The smallest (d^2 + d m) log n / (n k) of all sizes; exact, so the interval has no width."""
    sizes = found.whole.loc[found.whole["metric"] == "size_ratio", "value"]
    if sizes.empty:
        return NotMeasurable("no size was measured")
    least = float(sizes.min())
    return Interval(least, least, least, level, len(sizes), "exact")


def share_exact(found: Representation, level: float) -> Interval | NotMeasurable:
    """The share of embeddings with which no input is answered wrongly."""
    return share_of(found.whole.loc[found.whole["metric"] == "exact", "value"] == 1, level)


def bits_per_doubling(found: Representation, level: float) -> Interval | NotMeasurable:
    """The slope of the fewest bits against log2 n, by seed; open where a search ended at its first or last step."""
    bits = found.bits.pivot(index="n", columns="unit", values="value")
    if len(bits) < 2 or bits.isna().any(axis=None):
        return NotMeasurable("fewer than two sizes along k = n/4 were measured by every seed")
    centred = np.log2(bits.index.to_numpy(float)) - np.log2(bits.index.to_numpy(float)).mean()
    above, below = (bits >= MOST_BITS + 1).any(axis=1), (bits <= FEWEST_BITS).any(axis=1)
    return mean_over(
        centred @ bits.to_numpy() / np.square(centred).sum(),
        level,
        open_above=bool((above & (centred > 0)).any() or (below & (centred < 0)).any()),
        open_below=bool((above & (centred < 0)).any() or (below & (centred > 0)).any()),
    )


def _sizes(found: Representation) -> str:
    of = {
        metric: found.whole.loc[found.whole["metric"] == metric, "value"]
        for metric in ("largest_overlap", "size_ratio")
    }
    overlap, sizes = of["largest_overlap"], of["size_ratio"]
    return (
        f"n = {found.whole['n'].min()} to {found.whole['n'].max()}, d = 16 k log(4 n / {DELTA:g}), width 2(k + 1); "
        f"Lemma 4's bound of 1/2 holds in {(overlap <= 0.5).sum()} of {len(overlap)}; "
        f"(d^2 + d m) log n / (n k) is {sizes.min():.0f} to {sizes.max():.0f}"
    )


def _counts(found: Representation) -> str:
    sizes = found.whole[found.whole["metric"].isin(["trained", "frozen"])]
    largest = sizes[sizes["n"] == sizes["n"].max()].groupby("metric")["value"].max()
    if largest.empty:
        return ""
    return (
        f"at n = {sizes['n'].max()}: {largest['trained']:.3g} weights in A, W and h (d^2 + 4 d m + 2 m, where the "
        f"theorem counts d^2 + d m) and {largest['frozen']:.3g} frozen ones in the embedding, which it leaves out"
    )


def _formats(found: Representation) -> str:
    bits, whole = found.bits, found.whole
    formats = whole[(whole["metric"] == "accuracy") & whole["scope"].isin(list(DTYPES))]
    right = (formats["value"] == 1).groupby(formats["scope"]).agg(["sum", "size"])
    shown = ", ".join(f"{name}: {right['sum'][name]} of {right['size'][name]}" for name in DTYPES)
    return (
        f"least bits {bits['value'].min():.0f} to {bits['value'].max():.0f} at n = {bits['n'].min()} to "
        f"{bits['n'].max()}; no error in {shown}"
    )


def fewest_bits(found: pd.DataFrame) -> pd.DataFrame:
    """The fewest bits without an error, along k = n/4, where the growth with n is judged."""
    bits = found[found["metric"] == "least_bits"]
    return bits[bits["n"] == 4 * bits["k"]].sort_values(["unit", "n"])
