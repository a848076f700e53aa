"""Does the report fit small and large screens, in both themes?"""

from collections.abc import Iterator

import pytest

from tests.interp.report.browsing import needs_chromium, opening, saved

pytestmark = needs_chromium
SCREENS = [(360, "light"), (400, "dark"), (768, "dark"), (1280, "dark")]


@pytest.fixture(scope="module", params=SCREENS, ids=lambda screen: "-".join(map(str, screen)))
def screen(request, browser, page) -> Iterator:
    """The report on one screen, opened once: the page, its width and its theme."""
    width, scheme = request.param
    with opening(browser, page) as opened:
        yield (
            opened(viewport={"width": width, "height": 800}, is_mobile=width < 500, color_scheme=scheme),
            width,
            scheme,
        )


def test_the_table_fits_and_its_numbers_are_whole(screen):
    tab, width, scheme = screen
    ends = "rows => rows.map(e => [e.getBoundingClientRect().right, e.scrollWidth - e.clientWidth])"
    for right, hidden in tab.locator("#pt-closing :is(th, td)").evaluate_all(ends):
        assert right <= width
        assert hidden <= 1
    heights = tab.locator("#pt-closing td").evaluate_all("cells => cells.map(e => e.innerText.trim().split('\\n'))")
    assert all(len(lines) == 1 for lines in heights)
    saved(tab, f"report-texts-{width}-{scheme}", "#pt-tokens")


def test_nothing_scrolls_sideways(screen):
    tab, width, _ = screen
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.locator("details").evaluate_all("found => found.forEach(one => { one.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    ends = "[...document.querySelectorAll('.plot, select, img, table')].map(e => e.getBoundingClientRect().right)"
    assert max(tab.evaluate(ends)) <= width
    saved(tab, f"report-{width}")
    saved(tab, f"report-{width}-pretrained", "#pretrained")


def test_contents_fold_on_a_small_screen(screen):
    tab, width, _ = screen
    if width != 400:
        pytest.skip("one small screen is enough")
    tab.locator("details").evaluate_all("found => found.forEach(one => { one.open = false; })")
    tab.evaluate("scrollTo(0, 0)")
    link = tab.locator("#contents a[href='#claim-wen2024-fig3b']")
    assert not link.is_visible()
    tab.focus("#contents-toggle")
    tab.keyboard.press("Enter")
    assert link.is_visible()
    tab.keyboard.press("Escape")
    assert not link.is_visible()
    tab.click("#contents-toggle")
    link.click()
    assert not link.is_visible()
    assert tab.locator("#claim-wen2024-fig3b table.tests").is_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    saved(tab, "report-400-claim")
