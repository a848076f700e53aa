"""Does the page around the explorers work in a real browser: filters, search, links, keyboard, light, dark, paper?"""

import pytest

from tests.interp.report.browsing import needs_chromium, saved

pytestmark = needs_chromium
SHOWN = ".claim:not([hidden])"


def test_the_board_filters(tab):
    shown = tab.locator(f"#board {SHOWN}")
    everything = shown.count()
    conclusions = "claims => claims.map(claim => claim.dataset.conclusion)"
    tab.click("button[data-conclusion=undecided]")
    assert 0 < shown.count() < everything
    assert set(shown.evaluate_all(conclusions)) == {"undecided"}
    assert f"of {everything} claims shown" in tab.inner_text("#board-count")
    tab.click("button[data-conclusion='not run']")
    assert shown.first.is_visible()  # the folded line is open
    assert set(shown.evaluate_all(conclusions)) == {"not run"}
    tab.click("button[data-conclusion=all]")
    assert shown.count() == everything
    tab.select_option("#paper-filter", "wen2024")
    of_papers = tab.locator("#board .claim:not([hidden])")
    assert of_papers.count() > 1
    assert of_papers.evaluate_all("g => g.every(one => one.dataset.paper === 'wen2024')")
    saved(tab, "report-board")


def test_search_finds_ids_and_sentences(tab):
    links = tab.locator("#contents li[data-for]:visible")
    everything = links.count()
    tab.fill("#search", "wen2024/FIG3B")
    assert links.evaluate_all("found => found.map(one => one.dataset.for)") == ["claim-wen2024-fig3b"]
    assert tab.locator("#board .claim:visible").count() == 1
    tab.fill("#search", "secret  attends")  # words of its sentence, in any order
    assert "claim-wen2024-fig3b" in links.evaluate_all("found => found.map(one => one.dataset.for)")
    tab.fill("#search", "no such claim <b>")
    assert links.count() == 0
    assert tab.inner_text("#board-count") == "No claim fits."
    tab.fill("#search", "")
    assert links.count() == everything
    assert tab.locator("#board details[open]").count() == 0


def test_a_link_leads_to_its_claim(tab):
    claim = tab.locator("#claim-wen2024-fig3b")
    assert not tab.locator("#claim-wen2024-fig3b table.tests").is_visible()
    tab.click("#contents a[href='#claim-wen2024-fig3b']")
    tab.wait_for_selector("#claim-wen2024-fig3b[open]")
    assert claim.locator("h4").is_visible()
    assert claim.locator("img").evaluate_all("found => found.every(i => i.naturalWidth > 100)")
    box = claim.bounding_box()
    assert 0 <= box["y"] < 100
    assert box["height"] < 900  # one screen
    assert claim.locator(".finding").is_visible()
    for part in ("paper", "★ primary", "inconclusive", "95% interval", "exploratory", "Scale.", "Clarity."):
        assert part in claim.inner_text()
    folded = claim.locator(".folds details")
    assert folded.count() == 4
    assert not claim.locator("table.compared").is_visible()
    folded.first.locator("summary").click()
    assert claim.locator("table.compared").is_visible()
    folded.first.locator("summary").click()
    saved(tab, "report-claim", "#claim-wen2024-fig3b")
    claim.locator("summary").first.click()
    tab.click("button[data-conclusion='not run']")
    assert not claim.is_visible()
    tab.click("#contents a[href='#claim-wen2024-fig3b']")  # though a filter hides it, and the address is the same
    assert claim.locator("table.tests").is_visible()


@pytest.mark.parametrize("anchor", ["claim-wen2024-fig3b", "claim-wen2024-fig2"], ids=["judged", "not run, folded"])
def test_the_address_opens_a_claim(open_page, anchor):
    tab = open_page(f"#{anchor}")
    assert tab.locator(f"#{anchor} .sentence").first.is_visible()
    assert tab.locator(f"#{anchor}").evaluate("e => e.closest('details').open")


def test_a_claim_opened_by_key_has_its_address(tab):
    tab.locator("#claim-wen2024-fig3b > summary").focus()
    tab.keyboard.press("Enter")
    assert tab.locator("#claim-wen2024-fig3b table.tests").is_visible()
    assert tab.evaluate("location.hash") == "#claim-wen2024-fig3b"


def test_conclusions_are_on_the_first_screen(tab):
    cards = tab.locator("#overview li")
    assert cards.count() > 1
    assert "1 claim: 1 undecided; none confirmatory." in cards.first.inner_text()
    for place in (cards.first, tab.locator("header .explorers")):
        box = place.bounding_box()
        assert box["y"] + box["height"] < 900
    assert cards.first.locator(".bar .undecided").is_visible()
    saved(tab, "report-overview")


def test_explorers_are_one_click_away(tab):
    for name in ("toy", "pretrained"):
        tab.evaluate("scrollTo(0, 0)")
        tab.click(f"header a[href='#{name}']")
        tab.wait_for_function(
            "id => Math.abs(document.getElementById(id).getBoundingClientRect().top) < 100", arg=name
        )
        assert tab.locator("#search").is_visible()  # the navigation stays


def test_the_theme_is_chosen_by_hand_and_kept(open_page, page):
    tab = open_page(color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    ink = "document.getElementById('pt-map').layout.font.color"
    light = tab.evaluate(background), tab.evaluate(ink)
    tab.click("#theme")
    dark = tab.evaluate(background), tab.evaluate(ink)
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    assert tab.inner_text("#theme") == "Light theme"
    tab.reload()
    tab.wait_for_selector("html[data-ready]")
    assert (tab.evaluate(background), tab.evaluate(ink)) == dark
    tab.emulate_media(media="print")
    assert tab.evaluate(background) == light[0]
    tab.emulate_media(media="screen", color_scheme="dark")
    tab.click("#theme")
    assert tab.evaluate(background) == light[0]  # the choice holds against the system


CONTROLS = "[...document.querySelectorAll('a[href], button, select, input, summary, [tabindex=\"0\"]')]"
FOCUSED = """(() => {
    const e = document.activeElement, style = getComputedStyle(e);
    const outlined = style.outlineStyle !== 'none' && style.outlineWidth !== '0px';
    return [e.tagName, [...document.querySelectorAll('*')].indexOf(e), outlined];
})()"""


def test_every_control_is_reached_by_tab_and_named(open_page):
    tab = open_page()
    wanted = tab.evaluate(f"{CONTROLS}.filter(e => !e.disabled && e.checkVisibility()).length")
    reached = set()
    for _ in range(wanted + 2):
        tab.keyboard.press("Tab")
        tag, place, outlined = tab.evaluate(FOCUSED)
        if tag != "BODY":
            reached.add(place)
            assert outlined, f"no visible focus on {tag}"
    assert len(reached) == wanted
    unnamed = "filter(e => !e.labels?.length && !e.textContent && !e.getAttribute('aria-label'))"
    assert tab.evaluate(f"{CONTROLS}.{unnamed}.length") == 0


def test_dark_and_paper_change_the_colours(open_page):
    tab = open_page(color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    ink = "document.getElementById('pt-map').layout.font.color"
    dark = tab.evaluate(background), tab.evaluate(ink)
    saved(tab, "report-dark")
    saved(tab, "report-dark-pretrained", "#pretrained")
    tab.emulate_media(media="print")
    tab.wait_for_selector("html[data-print]")
    paper = tab.evaluate(background), tab.evaluate(ink)
    assert paper == ("rgb(255, 255, 255)", "#1a1f29")
    assert dark[0] != paper[0]
    assert dark[1] != paper[1]
    assert not tab.locator("nav").is_visible()
    assert tab.locator("#board table").first.is_visible()
    assert tab.locator("details").evaluate_all("found => found.every(one => one.open)")
    fits = "plots => plots.every(p => !p.clientWidth || p.querySelector('svg').clientWidth <= p.clientWidth)"
    assert tab.evaluate("document.getElementById('pt-map').clientWidth") < 350  # two beside each other on A4
    assert tab.locator(".plot").evaluate_all(fits)
    assert len(tab.pdf(format="A4")) > 20_000
    tab.emulate_media(media="screen", color_scheme="light")
    tab.wait_for_selector("html:not([data-print])")
    assert tab.locator("details[open]").count() == 0
    assert tab.evaluate(background) == "rgb(255, 255, 255)"


def test_the_policy_stops_injected_scripts(browser, page, tmp_path):
    injected = tmp_path / "injected.html"
    text = page.read_text(encoding="utf-8")
    injected.write_text(text.replace("<body>", "<body><script>window.harmed = true</script>", 1), encoding="utf-8")
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(injected.as_uri())
    tab.wait_for_selector("html[data-ready]")
    assert tab.evaluate("window.harmed") is None
    context.close()
