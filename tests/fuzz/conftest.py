"""Counts the generated cases, for the last line of a test session."""

import pytest


@pytest.fixture
def cases(request):
    """A function to call once for each generated case."""
    counted = [0]
    request.node.user_properties.append(("generated cases", counted))  # read when the test has ended

    def case() -> None:
        counted[0] += 1

    return case
