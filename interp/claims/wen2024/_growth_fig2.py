"""How do samples to solution grow with k, and what does CoT save? The estimators of wen2024/fig2.

Lognormal errors. The power law is a + b k^p with a, b >= 0: an overhead bends a power upwards at small k, where it
passes for an exponential. Its third parameter costs one nat, as in Akaike's criterion.
"""

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import stdtrit

from interp.core.judging import mean_over
from interp.core.parts import NotMeasurable
from interp.statistics import Interval, power_exponent

OVERHEADS = np.array([0.0, *np.geomspace(0.1, 1000, 17)])
"""a / b of the power law."""
POWERS = np.linspace(0.0, 8.0, 33)
N_RESAMPLES = 499
SIZES = 3
"""Sizes that every run must solve before two growth laws of two parameters each can be told apart."""
FIRST = (1, 2, 3)
"""The sizes over which growth is compared with a power law."""


def of_model(runs: pd.DataFrame, layers: int, heads: int) -> pd.DataFrame:
    """The runs of one architecture."""
    return runs[(runs["layers"] == layers) & (runs["heads"] == heads)]


def beyond_power(runs: pd.DataFrame, level: float, *, layers: int, heads: int) -> Interval | NotMeasurable:
    """By seed, how much more k=3 takes than the power law through k=1 and 2; a censored run opens its side."""
    of = of_model(runs[runs["condition"] == "no_cot"], layers, heads)
    if not set(FIRST) <= set(of["k"]):
        return NotMeasurable(f"it takes the sizes {', '.join(map(str, FIRST))}")
    one, two, three = (np.log2(of[of["k"] == k].set_index("unit")["value"]) for k in FIRST)
    cut = of.groupby("k")["censored"].any()
    return mean_over(
        (three - one) - np.log2(3) * (two - one), level, open_above=bool(cut[1] or cut[3]), open_below=bool(cut[2])
    )


def exponential_growth(runs: pd.DataFrame, level: float, *, layers: int, heads: int) -> Interval | NotMeasurable:
    """Exponential over power-law growth among sizes without a censored run, with the largest of them and without.

    A single hard size at the end (a cliff) would speak for the law that bends most. The interval therefore covers
    both answers, and there is none unless enough sizes remain without the largest.
    """
    of = of_model(runs[runs["condition"] == "no_cot"], layers, heads)
    of = of[~of.groupby("k")["censored"].transform("any")]
    sizes = sorted(of["k"].unique())
    if len(sizes) <= SIZES:
        return NotMeasurable(
            f"every run solves {len(sizes)} of the sizes; telling the laws apart takes {SIZES} without the largest"
        )
    if of["k"].value_counts().min() < 2:
        return NotMeasurable("a size has one seed only")
    whole = exponential_over_powers(of, level)
    shorter = exponential_over_powers(of[of["k"] < sizes[-1]], level)
    low, high = min(whole.low, shorter.low), max(whole.high, shorter.high)
    return Interval(whole.value, low, high, level, whole.n, f"{whole.method}, with the largest k and without")


def cot_exponent(
    runs: pd.DataFrame, level: float, *, layers: int, heads: int, least: int = 1
) -> Interval | NotMeasurable:
    """The exponent of growth with CoT from k = `least` on, by censored likelihood."""
    of = of_model(runs[(runs["condition"] == "cot") & (runs["k"] >= least)], layers, heads)
    if of.loc[~of["censored"], "k"].nunique() < 2:
        return NotMeasurable("fewer than two sizes have a run that ends before its budget")
    if of["k"].value_counts().min() < 2:
        return NotMeasurable("a size has one seed only")
    k, samples, censored = (of[name].to_numpy() for name in ("k", "value", "censored"))
    options = {"resolution": float(of["eval_every"].max()), "rng": 0, "n_resamples": 499}
    return power_exponent(k.astype(float), samples, censored.astype(bool), level=level, **options)


def saving(runs: pd.DataFrame, level: float, *, layers: int, heads: int, k: int) -> Interval | NotMeasurable:
    """How many times fewer samples CoT takes at size k, paired by seed; a censored run opens its side."""
    of = of_model(runs[runs["k"] == k], layers, heads)
    paired = of.pivot(index="unit", columns="condition", values="value")
    censored = of.groupby("condition")["censored"].any()
    logs = np.log10(paired["no_cot"] / paired["cot"])
    return mean_over(logs, level, open_above=bool(censored["no_cot"]), open_below=bool(censored["cot"]))


def exponential_over_powers(runs: pd.DataFrame, level: float) -> Interval:
    """Log-likelihood of exponential over power-law growth (nats), bootstrapped over seeds within k; no run is cut.

    As in `interp.statistics.growth`, n - 1 of the n seeds of each k are drawn, with weight n / (n - 1), and sigma is
    at least the error of rounding up to the grid of evaluations.
    """
    runs = runs.sort_values("k")
    k, samples = runs["k"].to_numpy(float), runs["value"].to_numpy(float)
    floor = max(float(runs["eval_every"].max()) / (12**0.5 * np.median(samples)), 1e-4)
    generator, weights = np.random.default_rng(0), [np.ones((1, len(k)))]
    drawn = []
    for n in np.unique(k, return_counts=True)[1]:
        drawn.append(generator.multinomial(n - 1, np.full(n, 1 / n), size=N_RESAMPLES) * (n / (n - 1)))
    weights.append(np.concatenate(drawn, axis=1))
    gaps = _gaps(k, np.log(samples), np.concatenate(weights), floor)
    t = float(stdtrit(len(k) - len(drawn), (1 + level) / 2))
    value, half = float(gaps[0]), t * float(gaps[1:].std(ddof=1))
    return Interval(value, value - half, value + half, level, len(k), "bootstrap standard error over seeds within k")


def _gaps(
    k: Float[np.ndarray, "run"], logs: Float[np.ndarray, "run"], weights: Float[np.ndarray, "draw run"], floor: float
) -> Float[np.ndarray, "draw"]:
    n, shares = len(k), weights / weights.sum(1, keepdims=True)
    centred_k, centred = k - (shares @ k)[:, None], logs - (shares @ logs)[:, None]
    slope = (shares * centred_k * centred).sum(1) / (shares * centred_k**2).sum(1)
    exponential = (shares * (centred - slope[:, None] * centred_k) ** 2).sum(1)
    laws = np.log(OVERHEADS[:, None, None] + k ** POWERS[:, None])  # [overhead, power, run]
    left = (logs - laws).reshape(-1, n)
    left = left - left.mean(1, keepdims=True)
    spread = shares @ (left**2).T - (shares @ left.T) ** 2  # [draw, law]
    without, with_overhead = spread[:, : len(POWERS)].min(1), spread.min(1)
    power = np.maximum(_likelihood(without, n, floor), _likelihood(with_overhead, n, floor) - 1)
    return _likelihood(exponential, n, floor) - power


def _likelihood(variance: Float[np.ndarray, "draw"], n: int, floor: float) -> Float[np.ndarray, "draw"]:
    """The normal log-likelihood of n runs at the best sigma, up to a constant."""
    sigma2 = np.maximum(variance, floor**2)
    return -n / 2 * (np.log(sigma2) + variance / sigma2)
