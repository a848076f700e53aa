"""What the tests of commands and runs share: no figures where nobody looks at them."""

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
