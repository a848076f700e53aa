"""Where do estimate, interval and threshold of one test lie? Places on a small plot that `claim.html` draws."""

import math
from dataclasses import dataclass

from interp.core.verdict import Verdict
from interp.report.pack import number

WIDTH, HEIGHT, MARGIN = 220, 30, 12


@dataclass(frozen=True)
class Forest:
    """One test on a scale of its own; horizontal places lie between 0 and `WIDTH`."""

    label: str
    """The plot in words, for those who do not see it."""
    threshold: float
    claimed: tuple[float, float]
    """Where the claim says that the quantity lies: left end and width."""
    low: float
    high: float
    ends: tuple[str, str]
    """SVG paths: a bar where the interval ends, an arrow where it does not."""
    estimate: float | None
    """None where it is not finite."""
    width: int = WIDTH
    height: int = HEIGHT


def forest(v: Verdict) -> Forest:
    """The plot of one test."""
    finite = [x for x in (v.estimate, v.low, v.high, v.threshold) if math.isfinite(x)]
    least, most = min(finite), max(finite)
    spread = (most - least) or abs(most) or 1.0
    least, most = least - 0.12 * spread, most + 0.12 * spread

    def place(x: float) -> float:
        inside = min(max(x, least), most)
        return round(MARGIN + (inside - least) / (most - least) * (WIDTH - 2 * MARGIN), 1)

    threshold, low, high = place(v.threshold), place(v.low), place(v.high)
    return Forest(
        label=f"estimate {number(v.estimate)}, interval {number(v.low)} to {number(v.high)}, "
        f"claimed to be {v.direction} {number(v.threshold)}",
        threshold=threshold,
        claimed=(threshold, round(WIDTH - threshold, 1)) if v.direction == "above" else (0.0, threshold),
        low=low,
        high=high,
        ends=(_end(low, v.low), _end(high, v.high)),
        estimate=place(v.estimate) if math.isfinite(v.estimate) else None,
    )


def _end(x: float, end: float) -> str:
    middle = HEIGHT / 2
    if math.isinf(end):
        tail = round(x - math.copysign(5, end), 1)
        return f"M{tail} {middle - 5}L{x} {middle}L{tail} {middle + 5}"
    return f"M{x} {middle - 5}V{middle + 5}"
