"""What do the rows of kim2024/lemmas say? Quantities over their bounds, and the declared parts."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.kim2024._parts import HIGH_PROBABILITY, least_share, seed_exponents
from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

if TYPE_CHECKING:
    from interp.claims.kim2024.lemmas import Lemmas

EPS = 0.5
"""n = 2 d^(2 + EPS)."""
PROBABILITY = 0.1
"""p of Lemma 9: the probability with which its bound may be exceeded."""
ROUNDING = 1 + 1e-6
STATEMENTS = {
    "lemma4": ("Lemma 4", "the teacher-forced gradient is bounded by 2 |phi'| sqrt(k - 1)"),
    "lemma6": ("Lemma 6", "the chain's gradient is bounded by O(d^(log2 |phi'| + 1/2)), with the proof's constant"),
    "lemma9": ("Lemma 9", "interactions of up to four nodes concentrate"),
    "lemma10": ("Lemma 10", "augmented inputs are informative, and their mean is small at every level"),
}
WHY = (
    "a lemma for all weights, or with probability 1 - p, p being at most 0.1; nine seeds in ten is a lower bar, and "
    "the least that it can mean"
)


@dataclass(frozen=True)
class Summary:
    """What the parts read."""

    worst: pd.DataFrame
    """By lemma, size and seed: the largest quantity over its bound."""
    leading: pd.DataFrame
    """By size and seed: what the gradient has beyond its leading term."""


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Quantities over their bounds, the largest over links and scales, by lemma, size and seed."""
    found = with_settings(rows[rows["metric"] == "over_bound"])
    return found.groupby(["condition", "d", "k", "unit"], as_index=False)["value"].max()


def summary(rows: pd.DataFrame) -> Summary:
    """Bounds by seed, and the leading term."""
    return Summary(ratios(rows), with_settings(rows[rows["metric"] == "beyond_leading"]))


def parts(preset: "Lemmas") -> list[Part]:
    """One part for each lemma, and one for the leading term."""
    bounds = [
        Part(
            key=key,
            name=words,
            role="paper",
            source=source,
            primary=True,
            quantity="share of seeds within the bound, least over sizes",
            estimate=partial(share_within, lemma=key),
            direction="above",
            threshold=HIGH_PROBABILITY,
            why=WHY,
            unit="seeds",
            note=partial(_note, lemma=key),
        )
        for key, (source, words) in STATEMENTS.items()
    ]
    mean = Part(
        key="lemma8",
        name="the mean of all parities is within the proof's bound at typical inputs",
        role="paper",
        source="Lemma 8 and its proof",
        primary=True,
        quantity="share of sizes (d, k) at which |E_p p(x)| is at most (d/2) / C(d/4, k/4) for all typical x",
        estimate=share_of_sizes,
        direction="above",
        threshold=HIGH_PROBABILITY,
        why="an exact inequality for every size: nine in ten is a lower bar",
        unit="problems",
        note=partial(_note, lemma="lemma8"),
    )
    leading = Part(
        key="leading",
        name="beyond its leading term the first gradient vanishes faster than d^-2",
        role="paper",
        source="proof of Theorem 5, after (10): O(d^(-2-eps/8))",
        quantity="exponent p of the largest entry beyond the leading term, in units of 1/d^2, ~ d^p, mean over seeds",
        estimate=leading_exponent,
        direction="below",
        threshold=-EPS / 8,
        why="the stated exponent at eps = 1/2",
        unit="seeds",
        note=_leading_note,
    )
    return [*bounds, mean, leading]


def share_within(summary: Summary, level: float, *, lemma: str) -> Interval | NotMeasurable:
    """The share of seeds within a lemma's bound, at the size where it is smallest."""
    found = summary.worst[summary.worst["condition"] == lemma]
    return least_share(found["value"] <= ROUNDING, found.groupby(["d", "k"]).ngroup(), level)


def share_of_sizes(summary: Summary, level: float) -> Interval | NotMeasurable:
    """The share of sizes at which Lemma 8's bound holds."""
    return share_of(summary.worst.loc[summary.worst["condition"] == "lemma8", "value"] <= ROUNDING, level)


def leading_exponent(summary: Summary, level: float) -> Interval | NotMeasurable:
    """The exponent in d of what the gradient has beyond its leading term."""
    found = summary.leading
    return mean_over(seed_exponents(found["d"], found["value"], found["unit"]), level)


def _note(summary: Summary, lemma: str) -> str:
    found = summary.worst[summary.worst["condition"] == lemma].groupby("d")["value"].max()
    few = found if len(found) < 5 else found.iloc[[0, len(found) // 2, -1]]
    return "largest over its bound: " + ", ".join(f"{value:.2g} at d={d}" for d, value in few.items())


def _leading_note(summary: Summary) -> str:
    medians = summary.leading.groupby("d")["value"].median()
    return "median, in units of 1/d^2: " + ", ".join(f"{value:.2g} at d={d}" for d, value in medians.items())
