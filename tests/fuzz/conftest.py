"""Counts the generated cases, for the last line of a test session, and lets none take longer than ten seconds."""

import signal

import pytest

LONGEST = 10.0
"""Seconds of a case: what takes longer, hangs."""


def _hangs(_signal, _frame) -> None:
    pytest.fail(f"a case took longer than {LONGEST:g} seconds")


@pytest.fixture
def cases(request):
    """A function to call once for each generated case, at its beginning."""
    counted = [0]
    request.node.user_properties.append(("generated cases", counted))  # read when the test has ended
    timed = hasattr(signal, "setitimer")
    before = signal.signal(signal.SIGALRM, _hangs) if timed else None

    def case() -> None:
        counted[0] += 1
        if timed and counted[0] > 1:  # the first one may have to import what it needs
            signal.setitimer(signal.ITIMER_REAL, LONGEST)

    yield case
    if timed:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
