"""What do the kim2024 claims decide alike? Shares of seeds at the worst of several sizes, and exponents in d."""

import numpy as np
import pandas as pd

from interp.core.judging import counts_by_group, growth_exponent, least_share
from interp.core.parts import NotMeasurable
from interp.statistics import Interval

HIGH_PROBABILITY = 0.9
"""The share of seeds above which a theorem holds with high probability, however many seeds there are."""
WHY_HIGH_PROBABILITY = (
    "the theorem's probability tends to 1 as d grows (Theorem 5: 1 - exp(-d^(eps/2))); nine in ten is the least that "
    "high probability can mean"
)
MOST = 0.5
WHY_MOST = "ours, and the least that the words can mean: it fails more often than not"


def greatest_share(successes: pd.Series, groups: pd.Series, level: float) -> Interval | NotMeasurable:
    """The share of seeds that succeed, in the group where it is largest."""
    found = least_share(~successes.astype(bool), groups, level)
    if isinstance(found, NotMeasurable):
        return found
    method = found.method.replace("least", "greatest")
    return Interval(1 - found.value, 1 - found.high, 1 - found.low, level, found.n, method)


def grid_exponent(points: pd.DataFrame, values: str, ratio: float, level: float) -> Interval | NotMeasurable:
    """The exponent in d of a limit that is looked for on a grid with a given ratio of neighbours; columns as follows.

    `censored`: the grid ended first, `values` is its end. `capped`: the limit lies anywhere below the first value of
    the grid. Else the limit lies between the value found and the one before: their geometric mean stands for it,
    since the value itself would be too large beside those that are censored. A cap opens the interval on the side to
    which it may move the exponent.
    """
    censored, capped, d = points["censored"].astype(bool), points["capped"].astype(bool), points["d"]
    limits = points[values].where(censored, points[values] / ratio**0.5)
    found = growth_exponent(d, limits, censored, ratio, level)
    if isinstance(found, NotMeasurable) or not capped.any():
        return found
    middle = np.log(d).mean()
    return found.opened(up=bool((np.log(d[capped]) < middle).any()), down=bool((np.log(d[capped]) > middle).any()))


def seed_exponents(sizes: pd.Series, values: pd.Series, *runs: pd.Series, least: int = 2) -> pd.Series:
    """By run (seed, or model and seed): the exponent p of values ~ size^p, least squares of the logarithms over its
    sizes, of which it has `least` or more."""
    x, y = np.log(sizes.astype(float)), np.log(values)
    by_run = pd.DataFrame({"x": x, "y": y, "xy": x * y, "xx": x * x}).groupby(list(runs))
    mean = by_run.mean()[by_run["x"].nunique() >= least]
    return (mean["xy"] - mean["x"] * mean["y"]) / (mean["xx"] - mean["x"] ** 2)


def counted(successes: pd.Series, groups: pd.Series) -> str:
    """Successes by group: "10 of 10 at d=16, 9 of 10 at d=32"."""
    return ", ".join(f"{int(n)} of {size} at d={d}" for d, n, size in counts_by_group(successes, groups))
