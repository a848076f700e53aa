"""How does a right-censored response depend on covariates? Normal maximum likelihood, many fits at once.

The response of a run is known (z_i ~ N(x_i beta, sigma^2)) or only known to exceed its limit, which
contributes P(z > limit). In Olsen's parameters theta = 1/sigma, gamma = beta/sigma the log-likelihood is
concave (Olsen 1978), so Newton's method finds its maximum from any start. One call fits all bootstrap
resamples, given as weights.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import erfcx, log_ndtr

_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
_MAX_STEPS = 200
_TOLERANCE = 1e-10  # in nats of log-likelihood still to gain


@dataclass(frozen=True)
class CensoredFits:
    """One maximum-likelihood fit per resample; log-likelihoods in nats, of densities of the response."""

    coefficients: Float[np.ndarray, "resample covariate"]
    sigma: Float[np.ndarray, "resample"]
    log_likelihood: Float[np.ndarray, "resample"]


def censored_fits(
    design: Float[np.ndarray, "run covariate"],
    response: Float[np.ndarray, "resample run"],
    censored: Bool[np.ndarray, "run"],
    weights: Float[np.ndarray, "resample run"],
    *,
    sigma_floor: float,
) -> CensoredFits:
    """Fit every resample with sigma >= sigma_floor > 0; `response` holds the limit where a run is censored.

    Each resample needs an uncensored run of positive weight. Where the maximum lies at infinity (all
    uncensored runs share one covariate), the log-likelihood returned is its supremum and the coefficients are
    merely large.
    """
    rows = np.concatenate([-np.broadcast_to(design, (*response.shape, design.shape[1])), response[..., None]], -1)
    # Censored runs stay among the observed ones with weight zero: one shape for all, and nothing to reorder.
    problem = _Problem(rows, np.where(censored, 0.0, weights), rows[:, censored], weights[:, censored])
    point = _start(rows, weights, sigma_floor)
    likelihood = problem.log_likelihood(point)
    active, n_failed = np.arange(len(point)), 0
    for _ in range(_MAX_STEPS):
        part = problem.take(active)
        step, gain = _newton_step(part, point[active], 1 / sigma_floor)
        moved, reached = _line_search(part, point[active], likelihood[active], step, gain)
        point[active], improved = moved, reached - likelihood[active]
        likelihood[active] = reached
        # A predicted gain at the level of rounding can neither be verified nor matter; a larger one must be realised.
        stuck = improved <= 1e-13 * np.maximum(1, np.abs(reached))
        n_failed += int((stuck & (gain > 1e-6)).sum())
        active = active[(gain > _TOLERANCE) & ~stuck]
        if not len(active):
            break
    n_failed += len(active)
    if n_failed:
        raise RuntimeError(f"censored_fits: {n_failed} of {len(point)} fits did not converge; please report it")
    theta = point[:, -1]
    return CensoredFits(point[:, :-1] / theta[:, None], 1 / theta, likelihood)


@dataclass(frozen=True)
class _Problem:
    """Log-likelihoods as functions of points (gamma, theta); a run's standardised residual is row @ point."""

    rows: Float[np.ndarray, "resample run p"]
    known: Float[np.ndarray, "resample run"]
    limits: Float[np.ndarray, "resample limit p"]
    limit_weights: Float[np.ndarray, "resample limit"]

    def take(self, index: np.ndarray) -> "_Problem":
        if len(index) == len(self.rows):
            return self
        return _Problem(self.rows[index], self.known[index], self.limits[index], self.limit_weights[index])

    def log_likelihood(self, point: Float[np.ndarray, "resample p"]) -> Float[np.ndarray, "resample"]:
        log_density = np.log(point[:, -1:]) - _HALF_LOG_2PI - 0.5 * _residuals(self.rows, point) ** 2
        log_beyond = log_ndtr(-_residuals(self.limits, point))
        return (self.known * log_density).sum(1) + (self.limit_weights * log_beyond).sum(1)

    def derivatives(
        self, point: Float[np.ndarray, "resample p"]
    ) -> tuple[Float[np.ndarray, "resample p"], Float[np.ndarray, "resample p p"]]:
        """The gradient and minus the Hessian."""
        # erfcx overflows beyond -37, where the hazard is zero to double precision anyway.
        beyond = np.maximum(_residuals(self.limits, point), -36.0)
        hazard = np.sqrt(2 / np.pi) / erfcx(beyond / np.sqrt(2))
        bend = np.clip(hazard * (hazard - beyond), 0, 1) * self.limit_weights
        gradient = -_moments(self.known * _residuals(self.rows, point), self.rows)
        gradient -= _moments(hazard * self.limit_weights, self.limits)
        curvature = _squares(self.known, self.rows) + _squares(bend, self.limits)
        gradient[:, -1] += self.known.sum(1) / point[:, -1]
        curvature[:, -1, -1] += self.known.sum(1) / point[:, -1] ** 2
        return gradient, curvature


def _residuals(
    rows: Float[np.ndarray, "resample run p"], point: Float[np.ndarray, "resample p"]
) -> Float[np.ndarray, "resample run"]:
    return (rows @ point[..., None])[..., 0]


def _moments(
    weights: Float[np.ndarray, "resample run"], rows: Float[np.ndarray, "resample run p"]
) -> Float[np.ndarray, "resample p"]:
    return (weights[:, None] @ rows)[:, 0]


def _squares(
    weights: Float[np.ndarray, "resample run"], rows: Float[np.ndarray, "resample run p"]
) -> Float[np.ndarray, "resample p p"]:
    return (weights[..., None] * rows).swapaxes(1, 2) @ rows


def _start(
    rows: Float[np.ndarray, "resample run p"], weights: Float[np.ndarray, "resample run"], sigma_floor: float
) -> Float[np.ndarray, "resample p"]:
    """Least squares with censoring limits taken as responses."""
    moments = _squares(weights, rows)
    beta = -np.linalg.solve(moments[:, :-1, :-1], moments[:, :-1, -1:])[..., 0]
    squares = moments[:, -1, -1] + np.einsum("bi,bi->b", beta, moments[:, :-1, -1])
    theta = 1 / np.maximum(np.sqrt(np.maximum(squares, 0) / weights.sum(1)), sigma_floor)
    return np.concatenate([beta * theta[:, None], theta[:, None]], 1)


def _newton_step(
    problem: _Problem, point: Float[np.ndarray, "resample p"], theta_max: float
) -> tuple[Float[np.ndarray, "resample p"], Float[np.ndarray, "resample"]]:
    """The Newton step, truncated where theta would leave (0, theta_max], and the gain predicted for a full step."""
    gradient, curvature = problem.derivatives(point)
    # Without a finite maximum the curvature fades away; a relative ridge keeps the step defined.
    diagonal = np.einsum("bii->bi", curvature)
    diagonal += 1e-12 * diagonal + 1e-300
    step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
    held = (point[:, -1] >= theta_max * (1 - 1e-9)) & (step[:, -1] > 0)  # theta stays, the others move
    if held.any():
        gradient[held, -1] = 0
        curvature[held, -1, :] = curvature[held, :, -1] = 0
        curvature[held, -1, -1] = 1
        step[held] = np.linalg.solve(curvature[held], gradient[held, :, None])[..., 0]
    gain = 0.5 * np.einsum("bi,bi->b", gradient, step)
    rise = np.abs(step[:, -1])
    room = np.where(step[:, -1] > 0, theta_max - point[:, -1], 0.9 * point[:, -1])
    return step * np.divide(room, rise, out=np.ones_like(rise), where=rise > room)[:, None], gain


def _line_search(
    problem: _Problem,
    point: Float[np.ndarray, "resample p"],
    likelihood: Float[np.ndarray, "resample"],
    step: Float[np.ndarray, "resample p"],
    gain: Float[np.ndarray, "resample"],
) -> tuple[Float[np.ndarray, "resample p"], Float[np.ndarray, "resample"]]:
    """Backtracking: halve the step of each resample until its log-likelihood rises; no step where it never does."""
    best, reached = point.copy(), likelihood.copy()
    waiting = np.arange(len(point))
    for halvings in range(40):
        trial = point[waiting] + 0.5**halvings * step[waiting]
        value = problem.take(waiting).log_likelihood(trial)
        better = value > likelihood[waiting]
        best[waiting[better]], reached[waiting[better]] = trial[better], value[better]
        waiting = waiting[~better & (gain[waiting] > _TOLERANCE)]
        if not len(waiting):
            break
    return best, reached
