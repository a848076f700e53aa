"""When does a curve change? Its largest jump, and where its fall or rise begins."""

import numpy as np
from jaxtyping import Real

from interp.statistics.interval import Number, checked


def change_point(steps: Real[np.ndarray, "point"], values: Real[np.ndarray, "_"]) -> float:
    """Where two constant levels fit the curve best (least squares), half-way between the steps on either side.

    The classical estimate of a single change; on a gradual curve, about the middle of the change.
    """
    steps, values = _checked(steps, values)
    n = np.arange(1, len(values))
    left, total = values.cumsum()[:-1], values.sum()
    explained = left**2 / n + (total - left) ** 2 / (len(values) - n)  # squares the two means account for
    split = int(explained.argmax())
    return float(steps[split] + steps[split + 1]) / 2


def onset(steps: Real[np.ndarray, "point"], values: Real[np.ndarray, "_"], share: Number = 0.1) -> float:
    """The first step after which the curve stays beyond `share` of the way from its first to its last value."""
    steps, values = _checked(steps, values)
    if not 0 < share < 1:
        raise ValueError(f"onset: share {share}; expected a number in (0, 1)")
    way = values[-1] - values[0]
    before = np.flatnonzero((values - values[0]) * np.sign(way) <= share * abs(way))
    return float(steps[min(int(before[-1]) + 1, len(steps) - 1)])


def _checked(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if len(steps) != len(values) or (np.diff(steps) <= 0).any():
        raise ValueError(f"{len(steps)} steps for {len(values)} values; expected one each, steps ascending")
    return checked(steps, "change_point", 2), checked(values, "change_point", 2)
