"""What tests in a real browser share."""

import shutil
from pathlib import Path

import pytest

ARTIFACTS = Path(__file__).parents[3] / "artifacts"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ("background-networking", "component-update", "sync", "default-apps", "extensions")
ARGUMENTS = ["--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in QUIET)]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")


def saved(tab, name: str, selector: str | None = None) -> None:
    """Keeps a picture for whoever looks at the artefacts."""
    ARTIFACTS.mkdir(exist_ok=True)
    (tab.locator(selector) if selector else tab).screenshot(path=ARTIFACTS / f"{name}.png")
