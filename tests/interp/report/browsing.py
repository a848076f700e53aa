"""What tests in a real browser share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interp.site.printed import CHROMIUM

ARTIFACTS = Path(__file__).parents[3] / "artifacts"
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")


def saved(tab, name: str, selector: str | None = None) -> None:
    """Keeps a picture for whoever looks at the artefacts."""
    ARTIFACTS.mkdir(exist_ok=True)
    (tab.locator(selector) if selector else tab).screenshot(path=ARTIFACTS / f"{name}.png")


@contextmanager
def opening(browser, page: Path) -> Iterator[Callable]:
    """Opens a page as often as asked; at the end nothing may have gone wrong in it, and nothing may have left it."""
    contexts, complaints, requests = [], [], []

    def opened(address: str = "", **options):
        options.setdefault("viewport", {"width": 1280, "height": 900})
        context = browser.new_context(reduced_motion="reduce", **options)  # no smooth scrolling to wait for
        contexts.append(context)
        context.set_default_timeout(120_000)  # a busy machine is no failure
        tab = context.new_page()
        tab.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(page.as_uri() + address)
        tab.wait_for_selector("html[data-ready]")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url for url in requests if not url.startswith(("data:", "blob:"))} == {page.as_uri()}


REMEMBER = """() => {
    const controls = [...document.querySelectorAll('select, input')];
    const stateOf = control => control.type === 'checkbox' ? control.checked : control.value;
    window.stateOfControls = () => controls.map(stateOf);
    const first = window.stateOfControls();
    window.restoreControls = () => {
        for (const round of [1, 2, 3]) controls.forEach((control, i) => {  // one may choose what another offers
            if (stateOf(control) === first[i]) return;
            control[control.type === 'checkbox' ? 'checked' : 'value'] = first[i];
            for (const kind of ['input', 'change']) control.dispatchEvent(new Event(kind, { bubbles: true }));
        });
        document.querySelector('button[data-conclusion=all]')?.click();
        document.querySelectorAll('details').forEach(one => { one.open = false; });
        document.activeElement.blur();
        history.replaceState(null, '', location.pathname);
        scrollTo(0, 0);
        return JSON.stringify(window.stateOfControls()) === JSON.stringify(first);
    };
}"""
"""Loading a page takes seconds, so tests that only turn controls share one; `restored` turns them back."""


def restored(tab):
    """The shared page as it was when it was opened, but for what a pointer or a key has shown."""
    assert tab.evaluate("restoreControls()"), "a control did not go back to what it was"
    return tab
