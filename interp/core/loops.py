"""What does an item of a claim repeat? Named, so that a few repetitions tell what all of them would cost.

A training repeats steps and evaluations, a measurement repeats problems. The cost of an item is taken to be what it
does once, plus so much for each repetition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Loop:
    """Something that an item repeats, at its own sizes, as often as its parameters say."""

    unit: str
    """What is repeated, in the plural: steps, problems."""
    count: Callable[[Parameters], float]
    """How often, at most; 0 for items that have no such loop."""
    cut: Callable[[Parameters, int], Parameters]
    """The parameters that change if it is to be repeated only so often."""
    least: int = 1
    """Repetitions of a rehearsal, which also does twice as many."""


def loop(parameter: str, unit: str, *, size: int = 1, least: int = 1) -> Loop:
    """A loop that one parameter counts; one repetition takes `size` of it, such as a batch of a budget of samples."""
    return Loop(
        unit,
        lambda p: (p.get(parameter) or 0) / size,
        lambda p, n: {parameter: n * size},
        least,
    )


def evaluations(every: str, of: str, inputs: str, few: int = 64) -> Loop:
    """Evaluations on `inputs` after each `every` of the parameter `of`, whose own loop stands before this one.

    They are cut to `few` inputs, and counted so.
    """
    return Loop(
        f"evaluations on {few} inputs",
        lambda p: p[of] / p[every] * p[inputs] / few if p.get(every) else 0,
        lambda p, n: {every: -(-p[of] // n), inputs: few},
    )


def shortened(parameters: Parameters, loops: Sequence[Loop], doubled: int = 0) -> dict[str, Any]:
    """The parameters with every loop cut to its least, and the first `doubled` of them to twice as much."""
    found = dict(parameters)
    for place, one in enumerate(loops):
        found |= one.cut(found, one.least * (2 if place < doubled else 1))
    return found
