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
    alone: bool = True
    """Whether there may be many while all other loops are cut to their least."""
    holds: Callable[[Parameters], float] = lambda _: 0.0
    """Bytes that each repetition keeps in memory while others are done; added for those that are not rehearsed."""


def loop(
    parameter: str,
    unit: str,
    *,
    size: int = 1,
    least: int = 1,
    alone: bool = True,
    holds: Callable[[Parameters], float] = lambda _: 0.0,
) -> Loop:
    """A loop that one parameter counts; one repetition takes `size` of it, such as a batch of a budget of samples."""
    return Loop(
        unit,
        lambda p: (p.get(parameter) or 0) / size,
        lambda p, n: {parameter: n * size},
        least,
        alone,
        holds,
    )


def nested(outer: str, inner: str, unit: str, *, least: int = 1, alone: bool = True) -> Loop:
    """A loop within one over the list `outer`: `inner` repetitions for each of its entries, which all cost the same.

    It is cut to the first entry, so that what is done for each entry beside the repetitions is taken to be done once.
    """
    return Loop(
        unit,
        lambda p: len(p.get(outer) or ()) * (p.get(inner) or 0),
        lambda p, n: {outer: p[outer][:1], inner: n},
        least,
        alone,
    )


def entries(parameter: str, unit: str, *, least: int = 1) -> Loop:
    """A loop over the list `parameter`, whose entries all cost the same; it is cut to the first of them."""
    return Loop(unit, lambda p: len(p.get(parameter) or ()), lambda p, n: {parameter: p[parameter][:n]}, least)


def evaluations(every: str, of: str, inputs: str, few: int = 64) -> Loop:
    """Evaluations on `inputs` after each `every` of the parameter `of`, whose own loop stands before this one.

    They are cut to `few` inputs, and counted so.
    """
    return Loop(
        f"evaluations on {few} inputs",
        lambda p: p[of] / p[every] * p[inputs] / few if p.get(every) else 0,
        lambda p, n: {every: -(-p[of] // n), inputs: few},
        alone=False,
    )


SEEDS = entries("seeds", "seeds")
"""For items that take one seed after the other, and repeat nothing else."""


def shortened(parameters: Parameters, loops: Sequence[Loop], doubled: int = 0) -> dict[str, Any]:
    """The parameters with every loop cut to its least, and the first `doubled` of them to twice as much."""
    return repeated(parameters, loops, [2] * doubled + [1] * (len(loops) - doubled))


def repeated(parameters: Parameters, loops: Sequence[Loop], times: Sequence[int]) -> dict[str, Any]:
    """The parameters with every loop cut to so many times its least."""
    found = dict(parameters)
    for one, n in zip(loops, times):
        found |= one.cut(found, one.least * n)
    return found
