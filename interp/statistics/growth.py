"""How does sample complexity grow with problem size: exponentially, linearly or as a power?

Lognormal errors: log y = mu(k) + sigma * normal, with two parameters in mu and one sigma for every law:
    exponential  mu = a + b k            growth factor exp(b) per unit of k
    linear       mu = log(a + b k)       a, b >= 0: at most proportional to k, never falling
    power        mu = log a + p log k

A run that exhausted its budget is a right-censored observation: it enters through P(y > budget).
Log-likelihoods are in nats, of densities of log y, so they compare across laws; parameter counts are equal,
so there is no penalty.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Real
from scipy.special import ndtr, stdtrit

from interp.statistics.growth_laws import LawFits, Runs, fit_laws
from interp.statistics.interval import Interval, Number, check_level
from interp.statistics.means import Rng, central_range


@dataclass(frozen=True)
class GrowthFit:
    """One law's fit: parameters as in the module, sigma in log units, log-likelihood in nats.

    If all uncensored runs share one k, the data do not bound the growth: b or p is infinite and a is NaN.
    """

    law: str
    parameters: Mapping[str, float]
    sigma: float
    log_likelihood: float

    def median(self, k: Real[np.ndarray, "size"]) -> Float[np.ndarray, "size"]:
        """The fitted median sample complexity exp(mu(k)), in samples."""
        a = self.parameters["a"]
        if self.law == "power":
            return a * k ** self.parameters["p"]
        line = a + self.parameters["b"] * k
        return np.exp(line) if self.law == "exponential" else line


@dataclass(frozen=True)
class GrowthComparison:
    """The three fits, and bootstrap intervals over seeds.

    `exponential_over_linear`, `exponential_over_power`: log-likelihood differences in nats, positive if exponential
    growth fits better.
    `power_exponent`: p, 1 for proportional growth. `growth_factor`: exp(b), the factor per unit of k.
    `n_unidentified`: resamples without any uncensored run. They say nothing of a law: they count as -inf below and
    +inf above, and have no part in a standard error, which is infinite where they are more than a tail's share.
    """

    exponential: GrowthFit
    linear: GrowthFit
    power: GrowthFit
    exponential_over_linear: Interval
    exponential_over_power: Interval
    power_exponent: Interval
    growth_factor: Interval
    n_censored: int
    n_unidentified: int


def growth_fits(
    k: Real[np.ndarray, "run"],
    y: Real[np.ndarray, "_"],
    censored: Bool[np.ndarray, "_"],
    *,
    resolution: Number,
) -> dict[str, GrowthFit]:
    """The fits of the three laws by name; y is the sample complexity, or the budget where censored.

    `resolution` is the spacing of evaluations in samples (2048 by default in training). It sets the floor of
    sigma, resolution / (sqrt(12) median y), the error of rounding up to that grid (at least 1e-4): seeds
    that agree to the grid cannot make a likelihood infinite.
    """
    runs = Runs.checked(k, y, censored, resolution)
    fits = fit_laws(runs, np.ones((1, len(runs.k))))
    return {law: _first(law, fit) for law, fit in fits.items()}


def growth_comparison(
    k: Real[np.ndarray, "run"],
    y: Real[np.ndarray, "_"],
    censored: Bool[np.ndarray, "_"],
    *,
    resolution: Number,
    rng: Rng,
    level: Number = 0.95,
    n_resamples: int = 999,
) -> GrowthComparison:
    """The three fits and their bootstrap over seeds, stratified by k; input as in `growth_fits`.

    n_k - 1 of the n_k seeds of each k are drawn with weight n_k / (n_k - 1) (Rao and Wu 1988), because
    drawing n_k understates the variance by (n_k - 1) / n_k: a fifth with five seeds. The interval of the
    log-likelihood difference is value +- t * bootstrap standard error: percentiles inherit the difference's
    upward bootstrap bias (simulated coverage 0.83 to 0.98 against 0.92 to 0.98). At least 2 seeds per k.
    """
    runs, weights, t = _resampling(k, y, censored, resolution, rng, level, n_resamples)
    fits = fit_laws(runs, np.ones((1, len(runs.k))))
    resampled = fit_laws(runs, weights)
    point = {law: _first(law, fit) for law, fit in fits.items()}
    with np.errstate(over="ignore"):
        factor, factors = np.exp(point["exponential"].parameters["b"]), np.exp(resampled["exponential"].slope)
    return GrowthComparison(
        **point,
        exponential_over_linear=_over("linear", fits, resampled, len(runs.k), t, level),
        exponential_over_power=_over("power", fits, resampled, len(runs.k), t, level),
        power_exponent=_percentiles(point["power"].parameters["p"], resampled["power"].slope, len(runs.k), t, level),
        growth_factor=_percentiles(float(factor), factors, len(runs.k), t, level),
        n_censored=int(runs.censored.sum()),
        n_unidentified=int(np.isnan(resampled["power"].slope).sum()),
    )


def exponential_over_power(
    k: Real[np.ndarray, "run"],
    y: Real[np.ndarray, "_"],
    censored: Bool[np.ndarray, "_"],
    *,
    resolution: Number,
    rng: Rng,
    level: Number = 0.95,
    n_resamples: int = 999,
) -> Interval:
    """`growth_comparison(...).exponential_over_power` alone, the same number twenty times as fast."""
    runs, weights, t = _resampling(k, y, censored, resolution, rng, level, n_resamples)
    laws = ("exponential", "power")
    fits = fit_laws(runs, np.ones((1, len(runs.k))), laws)
    return _over("power", fits, fit_laws(runs, weights, laws), len(runs.k), t, level)


def power_exponent(
    k: Real[np.ndarray, "run"],
    y: Real[np.ndarray, "_"],
    censored: Bool[np.ndarray, "_"],
    *,
    resolution: Number,
    rng: Rng,
    level: Number = 0.95,
    n_resamples: int = 999,
) -> Interval:
    """`growth_comparison(...).power_exponent` alone, the same number thirty times as fast."""
    runs, weights, t = _resampling(k, y, censored, resolution, rng, level, n_resamples)
    value = fit_laws(runs, np.ones((1, len(runs.k))), ("power",))["power"].slope[0]
    replicates = fit_laws(runs, weights, ("power",))["power"].slope
    return _percentiles(float(value), replicates, len(runs.k), t, level)


def _resampling(
    k: np.ndarray, y: np.ndarray, censored: np.ndarray, resolution: Number, rng: Rng, level: Number, n_resamples: int
) -> tuple[Runs, Float[np.ndarray, "resample run"], float]:
    """The checked runs, their bootstrap weights and the t quantile of the level."""
    check_level(level)
    runs = Runs.checked(k, y, censored, resolution)
    sizes, counts = np.unique(runs.k, return_counts=True)
    if counts.min() < 2:
        raise ValueError(
            f"growth_comparison: one seed at k = {sizes[counts.argmin()]:g}; "
            "the bootstrap needs at least 2 per k, so add seeds, or use growth_fits for the fits alone"
        )
    if n_resamples < 100:
        raise ValueError(f"growth_comparison: n_resamples {n_resamples}; expected at least 100")
    generator = np.random.default_rng(rng)
    weights = np.empty((n_resamples, len(runs.k)))
    for size, n in zip(sizes, counts):
        draws = generator.multinomial(n - 1, np.full(n, 1 / n), size=n_resamples)
        weights[:, runs.k == size] = draws * (n / (n - 1))
    return runs, weights, float(stdtrit(len(runs.k) - len(sizes), (1 + level) / 2))


def _percentiles(
    value: float, replicates: Float[np.ndarray, "resample"], n: int, t: float, level: Number
) -> Interval:
    low, high = central_range(replicates, float(ndtr(-t)))
    return Interval(
        value, min(low, value), max(high, value), level, n, "expanded percentile bootstrap of seeds within k"
    )


def _over(
    law: str, fits: Mapping[str, LawFits], resampled: Mapping[str, LawFits], n: int, t: float, level: Number
) -> Interval:
    """The log-likelihood of exponential growth over that of `law`."""
    gap = float(fits["exponential"].log_likelihood[0] - fits[law].log_likelihood[0])
    known = ~np.isnan(resampled["exponential"].slope)  # a resample without an uncensored run has no likelihood
    gaps = (resampled["exponential"].log_likelihood - resampled[law].log_likelihood)[known]
    half = t * float(gaps.std(ddof=1)) if known.mean() > (1 + level) / 2 else np.inf
    return Interval(gap, gap - half, gap + half, level, n, "bootstrap standard error over seeds within k")


def _first(law: str, fits: LawFits) -> GrowthFit:
    names = ("a", "p") if law == "power" else ("a", "b")
    values = (float(fits.start[0]), float(fits.slope[0]))
    return GrowthFit(law, dict(zip(names, values)), float(fits.sigma[0]), float(fits.log_likelihood[0]))
