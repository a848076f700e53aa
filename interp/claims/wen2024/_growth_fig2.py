"""Do samples to solution grow exponentially with k, or as a power beside an overhead? The estimator of wen2024/fig2.

Lognormal errors. The power law is a + b k^p with a, b >= 0: an overhead bends a power upwards at small k, where it
passes for an exponential. Its third parameter costs one nat, as in Akaike's criterion.
"""

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import stdtrit

from interp.statistics import Interval

OVERHEADS = np.array([0.0, *np.geomspace(0.1, 1000, 17)])
"""a / b of the power law."""
POWERS = np.linspace(0.0, 8.0, 33)
N_RESAMPLES = 499


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
