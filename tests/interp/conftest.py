"""What the tests of commands and runs share: no figures where nobody looks at them."""

import signal
from collections.abc import Iterator

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
