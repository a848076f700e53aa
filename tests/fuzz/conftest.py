"""Counts the generated cases, for the last line of a test session, and lets none take longer than ten seconds."""

import signal

import pytest

LONGEST = 10.0
"""Seconds of a case on a processor: what takes longer, hangs."""
WAITING = 300.0
"""Seconds by the clock: what takes longer, waits for what does not come. A busy machine is no failure."""


def _hangs(_signal, _frame) -> None:
    pytest.fail(f"a case took longer than {LONGEST:g} seconds of computing, or {WAITING:g} by the clock")


@pytest.fixture
def cases(request):
    """A function to call once for each generated case, at its beginning."""
    counted = [0]
    request.node.user_properties.append(("generated cases", counted))  # read when the test has ended
    timed = hasattr(signal, "setitimer")
    before = {by: signal.signal(by, _hangs) for by in (signal.SIGPROF, signal.SIGALRM)} if timed else {}

    def case() -> None:
        counted[0] += 1
        if timed and counted[0] > 1:  # the first one may have to import what it needs
            signal.setitimer(signal.ITIMER_PROF, LONGEST)
            signal.setitimer(signal.ITIMER_REAL, WAITING)

    yield case
    if timed:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    for by, handler in before.items():
        signal.signal(by, handler)
