"""What are the maximum-likelihood parameters of each growth law? Many bootstrap resamples are fitted at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from interp.statistics.censored import CensoredFits, censored_fits
from interp.statistics.interval import Number, checked

LAWS = ("exponential", "linear", "power")
_SIGMA_MIN = 1e-4  # keeps double precision ample however fine the resolution
_GRID = np.linspace(0, 1, 17)
_GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Runs:
    """Checked runs: log_y is the log of the sample complexity, or of the budget where censored."""

    k: Float[np.ndarray, "run"]
    log_y: Float[np.ndarray, "run"]
    censored: Bool[np.ndarray, "run"]
    sigma_floor: float

    @classmethod
    def checked(cls, k: np.ndarray, y: np.ndarray, censored: np.ndarray, resolution: Number) -> "Runs":
        """The runs, after checks for everything that would make a fit meaningless."""
        if not k.shape == y.shape == censored.shape:
            raise ValueError(
                f"growth: shapes {k.shape}, {y.shape}, {censored.shape}; expected one k, y, censored per run"
            )
        k, y = checked(k, "growth: k", 2), checked(y, "growth: y", 2)
        if k.min() <= 0 or y.min() <= 0:
            raise ValueError(f"growth: smallest k {k.min():g}, smallest y {y.min():g}; expected positive numbers")
        if not (np.isfinite(resolution) and resolution > 0):
            raise ValueError(
                f"growth: resolution {resolution}; expected the positive spacing of evaluations in samples"
            )
        if len(np.unique(k)) < 2:
            raise ValueError(f"growth: all runs have k = {k[0]:g}; expected at least 2 values of k")
        if censored.all():
            raise ValueError(f"growth: all {len(k)} runs exhausted their budget; raise the budget or add smaller k")
        return cls(k, np.log(y), censored, max(float(resolution / (np.sqrt(12) * np.median(y))), _SIGMA_MIN))


@dataclass(frozen=True)
class LawFits:
    """One law fitted to every resample: `start` and `slope` are its two parameters."""

    start: Float[np.ndarray, "resample"]
    slope: Float[np.ndarray, "resample"]
    sigma: Float[np.ndarray, "resample"]
    log_likelihood: Float[np.ndarray, "resample"]


def fit_laws(
    runs: Runs, weights: Float[np.ndarray, "resample run"], laws: Sequence[str] = LAWS
) -> dict[str, LawFits]:
    """The named laws on all resamples; one without an uncensored run has log-likelihood 0 and NaN parameters."""
    defined = (weights[:, ~runs.censored] > 0).any(1)
    fitters = {
        "exponential": lambda used: _log_linear(runs, runs.k, used),
        "linear": lambda used: _linear(runs, used),
        "power": lambda used: _log_linear(runs, np.log(runs.k), used),
    }
    found = {law: fitters[law](weights[defined]) for law in laws}
    if "power" in found:
        with np.errstate(over="ignore"):
            found["power"] = replace(found["power"], start=np.exp(found["power"].start))

    def spread(values: Float[np.ndarray, "fit"], missing: float) -> Float[np.ndarray, "resample"]:
        full = np.full(len(weights), missing)
        full[defined] = values
        return full

    return {
        law: LawFits(
            spread(fit.start, np.nan),
            spread(fit.slope, np.nan),
            spread(fit.sigma, np.nan),
            spread(fit.log_likelihood, 0.0),
        )
        for law, fit in found.items()
    }


def _log_linear(
    runs: Runs, covariate: Float[np.ndarray, "run"], weights: Float[np.ndarray, "resample run"]
) -> LawFits:
    """log y = start + slope * covariate: a concave log-likelihood, maximised directly."""
    centre, middle = covariate.mean(), runs.log_y.mean()  # centred only for the sake of rounding
    design = np.stack([np.ones_like(covariate), covariate - centre], 1)
    fits = _fits(runs, design, np.broadcast_to(runs.log_y - middle, weights.shape), weights)
    start, slope = fits.coefficients[:, 0] + middle, fits.coefficients[:, 1]
    start = start - slope * centre
    escape = _escape(runs, weights)
    slope = np.where(escape == 0, slope, np.copysign(np.inf, escape))
    return LawFits(np.where(escape == 0, start, np.nan), slope, fits.sigma, fits.log_likelihood)


def _escape(runs: Runs, weights: Float[np.ndarray, "resample run"]) -> Float[np.ndarray, "resample"]:
    """+1 (-1) where the likelihood only rises as the slope goes to +inf (-inf), else 0.

    That is so if all uncensored runs share one k and all censored ones lie on one side of it or at it.
    """

    def ends(kind: Bool[np.ndarray, "run"]) -> tuple[np.ndarray, np.ndarray]:
        used = kind & (weights > 0)
        return np.where(used, runs.k, np.inf).min(1), np.where(used, runs.k, -np.inf).max(1)

    (solved_low, solved_high), (missed_low, missed_high) = ends(~runs.censored), ends(runs.censored)
    alone = solved_low == solved_high
    upwards, downwards = missed_high > solved_high, missed_low < solved_low
    return np.where(alone & (upwards != downwards), np.where(upwards, 1.0, -1.0), 0.0)


def _linear(runs: Runs, weights: Float[np.ndarray, "resample run"]) -> LawFits:
    """y = a + b k as c ((1 - w) + w k / mean k), 0 <= w <= 1: concave in c, sigma; a search over w."""
    n, k_mean, middle = len(weights), runs.k.mean(), runs.log_y.mean()
    ones = np.ones((len(runs.k), 1))

    def fits(w: Float[np.ndarray, "resample"]) -> CensoredFits:
        shape = np.log1p(w[:, None] * (runs.k / k_mean - 1))
        return _fits(runs, ones, runs.log_y - middle - shape, weights)

    profile = np.stack([fits(np.full(n, w)).log_likelihood for w in _GRID], 1)
    best = profile.argmax(1)
    low, high = _GRID[np.maximum(best - 1, 0)], _GRID[np.minimum(best + 1, len(_GRID) - 1)]
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = fits(left).log_likelihood, fits(right).log_likelihood
    for _ in range(24):  # golden section: 24 steps narrow the bracket of 1/8 to 1e-6
        down = at_left >= at_right
        low, high = np.where(down, low, left), np.where(down, right, high)
        fresh = np.where(down, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_fresh = fits(fresh).log_likelihood
        left, right = np.where(down, fresh, right), np.where(down, left, fresh)
        at_left, at_right = np.where(down, at_fresh, at_right), np.where(down, at_left, at_fresh)
    w = (low + high) / 2
    # The grid holds the ends 0 and 1, which golden section only approaches.
    w = np.where(fits(w).log_likelihood >= profile.max(1), w, _GRID[best])
    found = fits(w)
    with np.errstate(over="ignore"):
        scale = np.exp(found.coefficients[:, 0] + middle)
    return LawFits(scale * (1 - w), scale * w / k_mean, found.sigma, found.log_likelihood)


def _fits(
    runs: Runs,
    design: Float[np.ndarray, "run covariate"],
    response: Float[np.ndarray, "resample run"],
    weights: Float[np.ndarray, "resample run"],
) -> CensoredFits:
    return censored_fits(design, response, runs.censored, weights, sigma_floor=runs.sigma_floor)
