"""What the tests of commands and runs share: no figures where nobody looks at them."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess

import pytest


@pytest.fixture
def drawn() -> None:
    """Asked for by a test that looks at the figures of a run that it makes itself."""


@pytest.fixture(autouse=True)
def undrawn(request, monkeypatch) -> None:
    """A run that one test makes for itself draws nothing: figures take most of a small run's time.

    Runs that tests share are made before this, and have theirs.
    """
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("interp.figures.style.save_figures", lambda *_, **__: [])


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts are heeded, whatever whoever runs the tests does: a shell ignores them in its background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def terminated() -> Callable[[BaseProcess], bool]:
    """Whether a process is gone within 40 seconds by SIGTERM.

    Its exit status is known to whoever waits first, which may be the pool's own thread: then it is None here.
    """

    def of(process: BaseProcess) -> bool:
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            try:
                process.join(0.05)
                os.kill(process.pid or 0, 0)
            except ProcessLookupError:
                return process.exitcode in (-signal.SIGTERM, None)
        return False

    return of
