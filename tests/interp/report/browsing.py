"""What tests in a real browser share."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def opening(browser, page: Path) -> Iterator[Callable]:
    """Opens a page as often as asked; at the end nothing may have gone wrong in it, and nothing may have left it."""
    contexts, complaints, requests = [], [], []

    def opened(**options):
        options.setdefault("viewport", {"width": 1280, "height": 900})
        context = browser.new_context(reduced_motion="reduce", **options)  # no smooth scrolling to wait for
        contexts.append(context)
        context.set_default_timeout(120_000)  # a busy machine is no failure
        tab = context.new_page()
        tab.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready]")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url for url in requests if not url.startswith(("data:", "blob:"))} == {page.as_uri()}
