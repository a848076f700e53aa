"""One page with everything hostile in it, built once for all tests of the report."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interp.report import write_report
from interp.site.printed import ARGUMENTS, CHROMIUM
from tests.interp.report.browsing import REMEMBER, opening, restored
from tests.interp.report.synthetic import entropy_run, toy_run


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """A directory with one toy and one entropy run."""
    parent = tmp_path_factory.mktemp("runs")
    for make, name in ((toy_run, "fig3b"), (entropy_run, "entropy")):
        (parent / name).mkdir()
        make(parent / name)
    return parent


@pytest.fixture(scope="session")
def page(runs, tmp_path_factory) -> Path:
    """The report of `runs`."""
    out = tmp_path_factory.mktemp("report") / "report.html"
    write_report([runs], out)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=300_000)
        yield started
        started.close()


@pytest.fixture
def open_page(browser, page) -> Iterator:
    """Opens the report; afterwards nothing may have gone wrong in it, and nothing may have left it."""
    with opening(browser, page) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_tab(browser, page) -> Iterator:
    with opening(browser, page) as opened:
        tab = opened()
        tab.evaluate(REMEMBER)
        yield tab


@pytest.fixture
def tab(shared_tab):
    """The report, opened once for the tests of a file and put back in order for each."""
    return restored(shared_tab)
