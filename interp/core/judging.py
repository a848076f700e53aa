"""How do the values of seeds become verdicts? Means, shares and growth exponents for any paper."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from interp.core.verdict import Verdict, judged
from interp.statistics import Interval, binomial_interval, cautious_mean, growth_comparison

NEARLY_ALL, HARDLY_ANY = 0.65, 0.35
"""With ten seeds the exact interval of a share lies above 0.65 only for 10 of 10, and below 0.35 only for 0 of 10."""


def seed_verdict(
    claim: str,
    part: str,
    by_seed: pd.Series,
    quantity: str,
    threshold: float,
    direction: Literal["above", "below"],
    note: str = "",
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Verdict:
    """The verdict on the mean over seeds, whose interval is open with fewer than two of them, within `bounds`."""
    return judged(
        cautious_mean(by_seed.to_numpy(float), rng=0, bounds=bounds),
        claim=claim,
        part=part,
        quantity=quantity,
        threshold=threshold,
        direction=direction,
        unit="seeds",
        note=note,
    )


def share_verdict(
    successes: Sequence[bool] | pd.Series,
    *,
    claim: str,
    part: str,
    quantity: str,
    expected: Literal["nearly all", "hardly any"],
    note: str = "",
) -> Verdict:
    """The share of seeds that succeed, with its exact interval, judged against NEARLY_ALL or HARDLY_ANY."""
    above = expected == "nearly all"
    return judged(
        binomial_interval(int(sum(successes)), len(successes)),
        claim=claim,
        part=part,
        quantity=quantity,
        threshold=NEARLY_ALL if above else HARDLY_ANY,
        direction="above" if above else "below",
        unit="seeds",
        note=note,
    )


def growth_exponent(sizes: pd.Series, values: pd.Series, censored: pd.Series, ratio: float) -> Interval:
    """The exponent p of values ~ sizes^p by censored likelihood; `ratio` is that of neighbours on the values' grid.

    The interval is open if fewer than two sizes have a value that is not censored, or a size has one seed only.
    """
    if sizes[~censored].nunique() < 2 or sizes.value_counts().min() < 2:
        return Interval(0.0, -np.inf, np.inf, 0.95, max(len(values), 1))
    found = growth_comparison(
        sizes.to_numpy(float),
        values.to_numpy(float),
        censored.to_numpy(bool),
        resolution=(ratio - 1) * float(values.median()),
        rng=0,
    )
    return found.power_exponent
