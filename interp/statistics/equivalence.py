"""Is an effect too small to matter, and how many problems does it take to detect one that is not?"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Real
from scipy.special import nctdtr, stdtr, stdtrit

from interp.statistics.interval import Interval, Number, check_level, checked


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests: the mean difference with its 1 - 2 alpha interval, p-value and conclusion."""

    difference: Interval
    p_value: float
    equivalent: bool


def paired_equivalence(
    differences: Real[np.ndarray, "problem"], *, low: Number, high: Number, alpha: Number = 0.05
) -> Equivalence:
    """TOST: is the mean paired difference inside (low, high), the range of effects too small to matter?

    p is the larger of the two one-sided t p-values, in [0, 1]; p < alpha exactly when the t interval of level
    1 - 2 alpha lies inside (low, high). Not equivalent does not mean different. alpha < 0.5; margins
    pre-declared.
    """
    data = checked(differences, "paired_equivalence", at_least=2)
    if not low < high:
        raise ValueError(f"paired_equivalence: margins ({low}, {high}); expected low < high")
    if not 0 < alpha < 0.5:
        raise ValueError(f"paired_equivalence: alpha {alpha}; expected a number in (0, 0.5), such as 0.05")
    n, mean = len(data), float(data.mean())
    error = 0.0 if np.ptp(data) == 0 else float(data.std(ddof=1) / np.sqrt(n))
    if error == 0:
        p_value = 0.0 if low < mean < high else 1.0
    else:
        p_value = float(max(stdtr(n - 1, -(mean - low) / error), stdtr(n - 1, -(high - mean) / error)))
    half = float(stdtrit(n - 1, 1 - alpha)) * error
    interval = Interval(mean, mean - half, mean + half, 1 - 2 * alpha, n, "t")
    return Equivalence(interval, p_value, p_value < alpha)


def power_of_paired_t(
    effect: Number,
    sd: Number,
    n: int,
    *,
    alpha: Number = 0.05,
    alternative: Literal["two-sided", "one-sided"] = "two-sided",
) -> float:
    """The power of a paired t-test over n problems against a true mean difference of `effect`.

    `sd` is the standard deviation of the differences, in the unit of `effect`; a one-sided test is in the
    direction of the effect. From the noncentral t distribution with noncentrality sqrt(n) |effect| / sd; in
    [0, 1].
    """
    if not (np.isfinite(effect) and np.isfinite(sd) and sd > 0):
        raise ValueError(f"power_of_paired_t: effect {effect}, sd {sd}; expected finite numbers with sd > 0")
    if n < 2:
        raise ValueError(f"power_of_paired_t: n = {n}; a paired t-test needs at least 2 problems")
    check_level(alpha)
    shift = np.sqrt(n) * abs(effect) / sd
    if alternative == "one-sided":
        return _above(stdtrit(n - 1, 1 - alpha), n, shift)
    if alternative != "two-sided":
        raise ValueError(f"power_of_paired_t: alternative {alternative!r}; expected two-sided or one-sided")
    critical = stdtrit(n - 1, 1 - alpha / 2)
    return min(1.0, _above(critical, n, shift) + _above(critical, n, -shift))


def n_for_power(
    effect: Number,
    sd: Number,
    *,
    power: Number = 0.8,
    alpha: Number = 0.05,
    alternative: Literal["two-sided", "one-sided"] = "two-sided",
) -> int:
    """The smallest number of problems at which a paired t-test detects `effect` with the given power; >= 2."""
    check_level(power)
    if effect == 0:
        raise ValueError("n_for_power: effect 0 is never found; pass the smallest effect of interest")

    def enough(n: int) -> bool:
        return power_of_paired_t(effect, sd, n, alpha=alpha, alternative=alternative) >= power

    low, high = 1, 2
    while not enough(high):  # power rises with n
        low, high = high, 2 * high
        if high > 2**31:
            raise ValueError(
                f"n_for_power: effect {effect} against sd {sd} needs over 2^31 problems; name a larger one"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _above(critical: float, n: int, shift: float) -> float:
    """P(T > critical) for noncentral T with n - 1 degrees of freedom."""
    return float(1.0 - nctdtr(n - 1, shift, critical))
