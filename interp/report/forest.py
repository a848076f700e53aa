"""Where do estimate, interval and claimed values of one part lie? Places on a small plot that `claim.html` draws."""

import math
from dataclasses import dataclass

from interp.core.verdict import Verdict
from interp.report.pack import number

WIDTH, HEIGHT, MARGIN = 220, 26, 12


@dataclass(frozen=True)
class Forest:
    """One part on a scale of its own; horizontal places lie between 0 and `WIDTH`."""

    label: str
    """The plot in words, for those who do not see it."""
    bounds: tuple[float, ...]
    """Where the claimed values end: the threshold, or the two ends of an equivalence margin."""
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


def forest(v: Verdict) -> Forest | None:
    """The plot of one part; None where nothing was estimated, so that nothing is invented."""
    if v.estimate is None or v.low is None or v.high is None or v.level is None:
        return None
    limits = [v.threshold] if v.margin is None else [v.threshold - v.margin, v.threshold + v.margin]
    finite = [x for x in (v.estimate, v.low, v.high, *limits) if math.isfinite(x)]
    least, most = min(finite), max(finite)
    spread = (most - least) or abs(most) or 1.0
    least, most = least - 0.12 * spread, most + 0.12 * spread

    def place(x: float) -> float:
        inside = min(max(x, least), most)
        return round(MARGIN + (inside - least) / (most - least) * (WIDTH - 2 * MARGIN), 1)

    bounds, low, high = tuple(map(place, limits)), place(v.low), place(v.high)
    left = 0.0 if v.direction == "below" else bounds[0]
    right = WIDTH if v.direction == "above" else bounds[-1]
    return Forest(
        label=f"estimate {number(v.estimate)}, {percent(v.level)} interval {number(v.low)} to {number(v.high)}, "
        f"claimed to be {v.claimed}",
        bounds=bounds,
        claimed=(left, round(right - left, 1)),
        low=low,
        high=high,
        ends=(_end(low, v.low), _end(high, v.high)),
        estimate=place(v.estimate) if math.isfinite(v.estimate) else None,
    )


def percent(level: float) -> str:
    """A confidence level as it is printed: "97.5%", "98.33%"."""
    return f"{100 * level:.4g}%"


def _end(x: float, end: float) -> str:
    middle = HEIGHT / 2
    if math.isinf(end):
        tail = round(x - math.copysign(5, end), 1)
        return f"M{tail} {middle - 5}L{x} {middle}L{tail} {middle + 5}"
    return f"M{x} {middle - 5}V{middle + 5}"
