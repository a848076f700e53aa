"""Which items are alike? Items of one kind do the same work at the same sizes, on other seeds or problems.

Real numbers, such as learning rates, are no sizes. Kinds that differ in whole numbers only are a family: its largest
member costs at least as much as any other.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from interp.core.claim import Claim, Item
from interp.core.loops import Loop, shortened

UNITS = ("seed", "start", "first_unit")
"""Parameters that say which unit an item measures."""


def active(parameters: Mapping[str, Any], loops: Sequence[Loop]) -> list[Loop]:
    """The loops that an item has, and that are longer than a rehearsal of them."""
    return [one for one in loops if one.count(parameters) > one.least]


def kind_of(claim: Claim, item: Item) -> str:
    """A short name of the item's kind."""
    return _digest(_sizes(claim, item))


def family_of(claim: Claim, item: Item) -> str:
    """A short name of the item's family."""
    return _digest(_without_numbers(_sizes(claim, item)))


def largest(claim: Claim, items: Sequence[Item]) -> Item:
    """The item with the largest sizes."""
    return max(items, key=lambda item: size_of(claim, item))


def size_of(claim: Claim, item: Item) -> float:
    """A number that is larger for larger items of a family."""
    return _magnitude(_sizes(claim, item))


def is_within(claim: Claim, item: Item, other: Item) -> bool:
    """Whether `item` differs from `other` in whole numbers alone, and none of them is larger."""
    return _no_larger(_sizes(claim, item), _sizes(claim, other))


def _sizes(claim: Claim, item: Item) -> Any:
    cut = shortened(item.parameters, active(item.parameters, claim.loops))
    return {name: _size(name, value) for name, value in cut.items() if name not in UNITS}


def _size(name: str, value: Any) -> Any:
    if name == "seeds":
        return len(value) if isinstance(value, Sequence) else 0
    if isinstance(value, Mapping):
        return {key: _size(key, of) for key, of in value.items() if key not in UNITS}
    if isinstance(value, list | tuple):
        return [_size("", of) for of in value]
    return 0.0 if isinstance(value, float) else value


def _without_numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_numbers(of) for key, of in value.items()}
    if isinstance(value, list):
        return [_without_numbers(of) for of in value]
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value


def _no_larger(value: Any, other: Any) -> bool:
    if isinstance(value, Mapping):
        alike = isinstance(other, Mapping) and value.keys() == other.keys()
        return alike and all(_no_larger(of, other[key]) for key, of in value.items())
    if isinstance(value, list):
        alike = isinstance(other, list) and len(value) <= len(other)
        return alike and all(map(_no_larger, value, other))
    if type(value) is int and type(other) is int:
        return value <= other
    return value == other


def _magnitude(value: Any) -> float:
    """A product of all whole numbers, each plus one."""
    if isinstance(value, Mapping | list):
        product = 1.0
        for of in value.values() if isinstance(value, Mapping) else value:
            product *= _magnitude(of)
        return product
    return 1.0 + abs(value) if isinstance(value, int) and not isinstance(value, bool) else 1.0


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
