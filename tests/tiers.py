"""Which of a test's parameters does `make test` leave to `make test-slow`?"""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def slow_but(quick: Container[Any], values: Iterable[Any]) -> list:
    """All `values` as parameters, marked slow but for those in `quick`."""
    return [pytest.param(value, marks=() if value in quick else pytest.mark.slow) for value in values]
