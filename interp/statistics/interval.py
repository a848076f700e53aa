"""How certain is an estimate, and what follows? A confidence interval, and the decision rule for verdicts."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Real

Number = float | int  # beartype, unlike pyright, does not read `float` as "float or int"
Outcome = Literal["supported", "refuted", "inconclusive"]
ALPHA = 0.05
"""The error rate that tests and families of tests keep."""
ROUNDING = 1e-6
"""How far an estimate may lie outside its interval, absolutely or as a share of it: that of float32."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its two-sided confidence interval.

    `low` and `high` are in the unit of `value` and may be infinite; `level` is the confidence in (0, 1); `n`
    counts units of replication (problems or seeds; never tokens, never heads); `method` names the interval. The
    estimate lies in its interval, up to rounding.
    """

    value: Number
    low: Number
    high: Number
    level: Number
    n: int
    method: str = ""

    def __post_init__(self) -> None:
        if any(math.isnan(number) for number in (self.value, self.low, self.high)):
            raise ValueError(f"Interval: NaN in ({self.value}, {self.low}, {self.high}); drop undefined units first")
        if self.low > self.high:
            raise ValueError(f"Interval: low {self.low} above high {self.high}; swap them")
        nearest = min(max(self.value, self.low), self.high)
        if not math.isclose(self.value, nearest, rel_tol=ROUNDING, abs_tol=ROUNDING):
            raise ValueError(
                f"Interval: {self.value} is not in [{self.low}, {self.high}]; check the bounds of what was estimated"
            )
        check_level(self.level)
        if self.n < 0:
            raise ValueError(f"Interval: n = {self.n}; expected a count of units of replication")

    def opened(self, *, up: bool = False, down: bool = False) -> "Interval":
        """The interval with an infinite upper (up) or lower (down) end, for censored data that bound one side."""
        return replace(self, low=-math.inf if down else self.low, high=math.inf if up else self.high)


def decide(estimate: Interval, *, threshold: Number, direction: Literal["above", "below"]) -> Outcome:
    """The verdict on "the effect is `direction` `threshold`", the pre-declared smallest effect of interest.

    Supported if the whole interval lies on the claimed side of the threshold, refuted if it lies on the other
    side, else inconclusive. An end that touches the threshold lies on neither side.
    """
    if not math.isfinite(threshold):
        raise ValueError(f"decide: threshold {threshold}; expected a finite, pre-declared number")
    above, below = estimate.low > threshold, estimate.high < threshold
    if direction == "below":
        above, below = below, above
    elif direction != "above":
        raise ValueError(f"decide: direction {direction!r}; expected 'above' or 'below'")
    return "supported" if above else "refuted" if below else "inconclusive"


def check_level(level: Number) -> None:
    """Raise unless `level` is a probability strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level {level}; expected a number in (0, 1), such as 0.95")


def checked(values: Real[np.ndarray, "*shape"], name: str, at_least: int) -> Real[np.ndarray, "*shape"]:
    """`values` as float64, after checking that the first axis is long enough and every number is finite."""
    n = values.shape[0] if values.ndim else 0
    if n < at_least:
        raise ValueError(f"{name}: {n} units arrived, at least {at_least} are needed; add problems or seeds")
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise ValueError(f"{name}: {bad} of {values.size} values are NaN or infinite; drop those units or fix them")
    return values.astype(np.float64)
