"""Which of many dependent heads differ? Familywise control by sign flips, and false discovery rates."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Real

from interp.statistics.interval import checked
from interp.statistics.means import Rng

Alternative = Literal["two-sided", "greater", "less"]
_CHUNK = 1 << 21  # flipped statistics held at once: 16 MB
_ROUNDING = 1e-10  # a flip that reproduces the data must count as a tie however the sum was ordered


@dataclass(frozen=True)
class MaxT:
    """Per head: paired t statistic and p-value adjusted for all heads together; and the number of sign flips used.

    `exact` says that all 2^n flips were enumerated. No p-value can lie below `smallest_p`.
    """

    t: Float[np.ndarray, "head"]
    p_adjusted: Float[np.ndarray, "head"]
    n_flips: int
    exact: bool
    smallest_p: float


def sign_flip_max_t(
    differences: Real[np.ndarray, "problem head"],
    *,
    rng: Rng,
    n_flips: int = 9999,
    alternative: Alternative = "two-sided",
) -> MaxT:
    """Step-down max-T test that each head's paired difference is symmetric about zero.

    Flips the sign of whole problems (rows), so every dependence between heads is kept; the familywise error
    is at most the level for any such dependence (Westfall and Young 1993; Romano and Wolf 2005). p-values are
    in (0, 1], adjusted: compare them with 0.05 as they are. All 2^n flips are used where that is at most
    n_flips + 1.
    """
    data = checked(differences, "sign_flip_max_t", at_least=2)
    n, n_heads = data.shape
    if n_heads == 0:
        raise ValueError("sign_flip_max_t: no heads arrived; expected an array [problem, head]")
    if n_flips < 1:
        raise ValueError(f"sign_flip_max_t: n_flips {n_flips}; expected at least 1, and about 10000 for p near 0.001")
    scale = np.sqrt((data**2).mean(0))
    unit = np.divide(data, scale, out=np.zeros_like(data), where=scale > 0)
    # t = u sqrt(n - 1) / sqrt(1 - u^2) rises with u = mean / rms, and flips leave the rms as it is: u is
    # compared in place of t because it needs one matrix product and stays finite when all differences are
    # equal.
    observed = unit.mean(0)
    order = np.argsort(-_extremeness(observed, alternative), kind="stable")
    ranked = _extremeness(observed, alternative)[order]
    exact = n < 63 and 2**n <= n_flips + 1
    total = 2**n if exact else n_flips
    generator = np.random.default_rng(rng)
    counts = np.zeros(n_heads, dtype=np.int64)
    rows = max(1, _CHUNK // max(n, n_heads))
    for start in range(0, total, rows):
        signs = _signs(start, min(start + rows, total), n, exact, generator)
        flipped = _extremeness(signs @ unit / n, alternative)[:, order]
        # Step down: head number j is compared with the largest statistic among the heads ranked j or lower.
        largest = np.maximum.accumulate(flipped[:, ::-1], axis=1)[:, ::-1]
        counts += (largest >= ranked - _ROUNDING).sum(0)
    p_ranked = counts / total if exact else (counts + 1) / (total + 1)  # the data are one of the flips
    p_adjusted = np.empty(n_heads)
    p_adjusted[order] = np.maximum.accumulate(p_ranked)
    smallest = (1 if alternative != "two-sided" else 2) / total if exact else 1 / (total + 1)
    return MaxT(_t_statistics(data), p_adjusted, total, exact, smallest)


def benjamini_hochberg(p_values: Float[np.ndarray, "test"]) -> Float[np.ndarray, "test"]:
    """p-values adjusted to control the false discovery rate of independent or positively dependent tests."""
    return _false_discovery(p_values, "bh")


def benjamini_yekutieli(p_values: Float[np.ndarray, "test"]) -> Float[np.ndarray, "test"]:
    """p-values adjusted to control the false discovery rate under any dependence: BH times sum_{i<=m} 1/i."""
    return _false_discovery(p_values, "by")


def _false_discovery(p_values: Float[np.ndarray, "test"], method: Literal["bh", "by"]) -> Float[np.ndarray, "test"]:
    from scipy.stats import (
        false_discovery_control,
    )  # here because importing scipy.stats takes most of a second

    p = checked(p_values, "false discovery rate", at_least=1)
    if p.min() < 0 or p.max() > 1:
        raise ValueError(f"false discovery rate: p-values in [{p.min()}, {p.max()}]; expected [0, 1]")
    return np.asarray(false_discovery_control(p, method=method))


def _extremeness(statistic: Float[np.ndarray, "*shape"], alternative: str) -> Float[np.ndarray, "*shape"]:
    if alternative == "two-sided":
        return np.abs(statistic)
    if alternative in ("greater", "less"):
        return statistic if alternative == "greater" else -statistic
    raise ValueError(f"alternative {alternative!r}; expected two-sided, greater or less")


def _signs(
    start: int, stop: int, n: int, exact: bool, generator: np.random.Generator
) -> Float[np.ndarray, "flip problem"]:
    """Rows of +-1: flips number start to stop in binary order, or random ones."""
    if exact:
        bits = (np.arange(start, stop)[:, None] >> np.arange(n)) & 1
    else:
        bits = generator.random((stop - start, n)) < 0.5  # one draw per sign: the same in chunks of any size
    return bits * 2.0 - 1.0


def _t_statistics(data: Float[np.ndarray, "problem head"]) -> Float[np.ndarray, "head"]:
    """mean / (s / sqrt(n)); 0 where all differences are zero, +-inf where they are equal and not zero."""
    mean, error = data.mean(0), data.std(0, ddof=1) / np.sqrt(len(data))
    constant = np.ptp(data, axis=0) == 0  # rounding in the mean would leave a tiny standard deviation
    limit = np.where(mean == 0, 0.0, np.copysign(np.inf, mean))
    return np.divide(mean, error, out=limit, where=~constant)
