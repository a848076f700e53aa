"""What turns the mean of two +-1 values into their product? Link functions phi (kim2024, section 2.2).

phi(0) = -1 and phi(+-1) = 1, so phi((a + b) / 2) = a b; even, with phi'(0) = phi'(+-1) = 0; near zero
phi(t) = -1 + c t^2, and the first gradient's signal is 2 c / (m - 1)^2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, cos, sin, where

Values = Float[Tensor, "*shape"]

BEND = 0.25
"""The piecewise link is quadratic within this distance of 0 and of +-1, and straight between."""


@dataclass(frozen=True)
class Link:
    """A link function with its derivative; both come from one call, because training always needs both."""

    name: str
    value_and_slope: Callable[[Tensor], tuple[Tensor, Tensor]]
    steepest: float
    """The largest |phi'|: above 2 for any link; Lemma 6 bounds gradients by d^(log2(steepest) + 1/2)."""
    curvature: float
    """c in phi(t) = -1 + c t^2 + ..."""

    def __call__(self, mean: Values) -> Values:
        return self.value_and_slope(mean)[0]


def _piecewise(mean: Values) -> tuple[Values, Values]:
    """Quadratic at 0 and +-1, straight lines of slope 2 / (1 - BEND) between."""
    steepest = 2 / (1 - BEND)
    size = mean.abs()
    near = where(size < 0.5, size, 1 - size)  # distance from the nearest of 0 and +-1, where the slope vanishes
    bent = near.clamp(max=BEND)
    rise = (steepest / BEND) * bent * (near - bent / 2)
    return where(size < 0.5, rise - 1, 1 - rise), (steepest / BEND) * bent * mean.sign()


def _quartic(mean: Values) -> tuple[Values, Values]:
    square = mean * mean
    return -1 + 4 * square - 2 * square * square, 8 * mean * (1 - square)


def _cosine(mean: Values) -> tuple[Values, Values]:
    return -cos(math.pi * mean), math.pi * sin(math.pi * mean)


LINKS = {
    link.name: link
    for link in (
        Link("piecewise", _piecewise, steepest=2 / (1 - BEND), curvature=1 / (BEND * (1 - BEND))),
        Link("quartic", _quartic, steepest=16 / (3 * math.sqrt(3)), curvature=4.0),
        Link("cosine", _cosine, steepest=math.pi, curvature=math.pi**2 / 2),
    )
}


def find_link(name: str) -> Link:
    """The link called `name`; an unknown name lists the known ones."""
    if name not in LINKS:
        raise ValueError(f"unknown link {name!r}; the links are {', '.join(LINKS)}")
    return LINKS[name]
