"""Does the page work in a real browser: no error, no request, controls that change what is shown, text as text?"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interp.report.synthetic import CONDITIONS, HOSTILE

ARTIFACTS = Path(__file__).parents[3] / "artifacts"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ("background-networking", "component-update", "sync", "default-apps", "extensions")
ARGUMENTS = ["--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in QUIET)]

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser, page) -> Iterator:
    """Opens the report; afterwards nothing may have gone wrong in it, and nothing may have left it."""
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


def saved(tab, name: str, selector: str | None = None) -> None:
    """Keeps a picture for whoever looks at the artefacts."""
    ARTIFACTS.mkdir(exist_ok=True)
    (tab.locator(selector) if selector else tab).screenshot(path=ARTIFACTS / f"{name}.png")


def cells(tab, plot: str) -> list:
    """The numbers of a heatmap as Plotly has them."""
    return tab.evaluate("id => document.getElementById(id).data[0].z", plot)


SHOWN = ".claim:not([hidden]) tr.test:not([hidden]), li.claim:not([hidden])"


def test_the_board_filters(open_page):
    tab = open_page()
    shown = tab.locator(f"#board :is({SHOWN})")
    everything = shown.count()
    tab.click("button[data-verdict=refuted]")
    assert 0 < shown.count() < everything
    assert set(shown.evaluate_all("rows => rows.map(row => row.dataset.outcome)")) == {"refuted"}
    assert f"of {everything} shown" in tab.inner_text("#board-count")
    tab.click("button[data-verdict='not run']")
    assert shown.first.is_visible()  # the folded line is open
    assert set(shown.evaluate_all("rows => rows.map(row => row.dataset.outcome)")) == {"not run"}
    tab.click("button[data-verdict=all]")
    assert shown.count() == everything
    tab.select_option("#paper-filter", "wen2024")
    of_papers = tab.locator("#board .claim:not([hidden])")
    assert of_papers.count() > 1
    assert of_papers.evaluate_all("g => g.every(one => one.dataset.paper === 'wen2024')")
    saved(tab, "report-board")


def test_search_finds_ids_and_sentences(open_page):
    tab = open_page()
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


def test_a_link_leads_to_its_claim(open_page):
    tab = open_page()
    claim = tab.locator("#claim-wen2024-fig3b")
    assert not tab.locator("#claim-wen2024-fig3b table").is_visible()
    tab.click("#contents a[href='#claim-wen2024-fig3b']")
    tab.wait_for_selector("#claim-wen2024-fig3b[open]")
    assert claim.locator("h4").is_visible()
    assert claim.locator("img").evaluate_all("found => found.every(i => i.naturalWidth > 100)")
    box = claim.bounding_box()
    assert 0 <= box["y"] < 100
    assert box["height"] < 900  # one screen
    saved(tab, "report-claim", "#claim-wen2024-fig3b")
    claim.locator("summary").first.click()
    tab.click("button[data-verdict='not run']")
    assert not claim.is_visible()
    tab.click("#contents a[href='#claim-wen2024-fig3b']")  # though a filter hides it, and the address is the same
    assert claim.locator("table").is_visible()


def test_the_address_opens_a_claim(open_page, page):
    tab = open_page()
    for anchor in ("claim-wen2024-fig3b", "claim-wen2024-fig2"):  # judged; not run, in the folded line
        tab.goto("about:blank")
        tab.goto(f"{page.as_uri()}#{anchor}")
        tab.wait_for_selector(f"#{anchor} .sentence:visible")
        assert tab.locator(f"#{anchor}").evaluate("e => e.closest('details').open")
        tab.wait_for_selector("html[data-ready]")
    tab.goto("about:blank")
    tab.goto(page.as_uri())
    summary = tab.locator("#claim-wen2024-fig3b > summary")
    summary.focus()
    tab.keyboard.press("Enter")
    assert tab.locator("#claim-wen2024-fig3b table").is_visible()
    assert tab.evaluate("location.hash") == "#claim-wen2024-fig3b"
    tab.wait_for_selector("html[data-ready]")


def test_explorers_are_one_click_away(open_page):
    tab = open_page()
    for name in ("toy", "pretrained"):
        tab.evaluate("scrollTo(0, 0)")
        tab.click(f"header a[href='#{name}']")
        tab.wait_for_function(
            "id => Math.abs(document.getElementById(id).getBoundingClientRect().top) < 100", arg=name
        )
        assert tab.locator("#search").is_visible()  # the navigation stays


def test_contents_fold_on_a_small_screen(open_page):
    tab = open_page(viewport={"width": 400, "height": 800})
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
    assert tab.locator("#claim-wen2024-fig3b table").is_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    saved(tab, "report-400-claim")


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


def test_the_heatmap_follows_its_controls(open_page):
    tab = open_page()
    seen = [cells(tab, "pt-map")]
    for control, value in (("metric", "mean"), ("scope", "all"), ("first", "shuffled_tokens")):
        tab.select_option(f"#pt-{control}", value)
        seen.append(cells(tab, "pt-map"))
    assert len({str(one) for one in seen}) == 4
    assert "shuffled_tokens: mean" in tab.inner_text("#pt-map-title")


def test_significance_is_marked_and_told(open_page):
    tab = open_page()
    assert "Significantly lower ▼ in 12 and higher ▲ in 0 of 12 heads" in tab.inner_text("#pt-published-note")
    assert "lower ▼ in 0 and higher ▲ in 0" in tab.inner_text("#pt-controlled-note")
    assert "cot has 100 tokens on average and no_cot 7" in tab.inner_text("#pt-length-text")
    marks = tab.evaluate("document.getElementById('pt-published').data.map(trace => (trace.x || []).length)")
    assert marks == [0, 12, 0]
    tab.select_option("#pt-second", CONDITIONS[3])
    tab.select_option("#pt-first", "shuffled_tokens")
    assert "no test" in tab.inner_text("#pt-difference-note")
    tab.select_option("#pt-first", "no_cot")
    tab.select_option("#pt-second", "cot")
    assert "higher ▲ in 12" in tab.inner_text("#pt-difference-note")  # the pair turned round
    saved(tab, "report-pretrained", "#pretrained")


def test_a_click_chooses_a_head(open_page):
    tab = open_page()
    before = tab.inner_text("#pt-problems-title")
    wanted = "Layer 2, head 3"
    assert wanted not in before
    area = tab.locator("#pt-map .nsewdrag")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    area.click(position={"x": box["width"] * 3.5 / 4, "y": box["height"] * 2.5 / 3}, force=True)
    tab.wait_for_selector(f"#pt-problems-title:has-text('{wanted}')")
    assert wanted in tab.inner_text("#pt-problems-title")
    assert (tab.input_value("#pt-layer"), tab.input_value("#pt-head")) == ("2", "3")
    assert "of 8 problems" in tab.inner_text("#pt-problems-note")
    tab.select_option("#pt-layer", "0")
    assert "Layer 0, head 3" in tab.inner_text("#pt-problems-title")


def test_hostile_text_stays_text(open_page):
    tab = open_page()
    elements = tab.locator("#pt-view *").count()
    for number, text in enumerate(HOSTILE):
        tab.select_option("#pt-problem", index=number)
        assert tab.locator("#pt-view *").count() == elements  # tokens add no element of their own
        wanted = text.replace("\u202e", "[U+202E]").replace("\u202c", "[U+202C]").replace("\u2028", "")
        assert wanted in tab.inner_text("#pt-view").replace("\u2028", "")
    assert "\u202e" not in tab.content()
    assert tab.locator("#pretrained :is(img, b, i, u, script)").count() == 0
    shown = tab.evaluate("document.getElementById('pt-problems').data.at(-1).text")
    assert any("&lt;script&gt;" in name for name in shown)  # Plotly shows entities as characters


def test_tokens_are_read_with_the_keyboard(open_page):
    tab = open_page()
    tab.focus("#pt-view")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    told = tab.inner_text("#pt-token")
    assert told.startswith("Token 2 (question)")
    assert "normalised entropy 0." in told
    colours = tab.locator("#pt-view .token").evaluate_all("spans => spans.map(span => span.style.background)")
    assert len(set(colours)) > 3
    tab.select_option("#pt-head", "1")
    assert tab.locator("#pt-view .token").evaluate_all("spans => spans.map(span => span.style.background)") != colours


def test_the_slider_goes_through_the_checkpoints(open_page):
    tab = open_page()
    assert "3,000 samples (3 of 3)" in tab.inner_text("#toy-step-text")
    last = cells(tab, "toy-map")
    tab.focus("#toy-step")
    tab.keyboard.press("ArrowLeft")
    assert "2,000 samples (2 of 3)" in tab.inner_text("#toy-step-text")
    assert "2,000 samples" in tab.inner_text("#toy-map-title")
    assert cells(tab, "toy-map") != last
    line = "document.getElementById('toy-curves').layout.shapes[0].x0"
    assert tab.evaluate(line) == 2000
    tab.click("#toy-play")
    tab.wait_for_selector("#toy-step-text:has-text('3 of 3')")
    tab.wait_for_selector("#toy-play:text-is('Play')")
    assert cells(tab, "toy-map") == last


def test_the_toy_map_follows_its_controls(open_page):
    tab = open_page()
    seen = [cells(tab, "toy-map")]
    for control, value in (("head", "1"), ("scope", "input 1"), ("run", "1")):
        tab.select_option(f"#toy-{control}", value)
        seen.append(cells(tab, "toy-map"))
    assert len({str(one) for one in seen}) == 4
    labels = tab.evaluate("document.getElementById('toy-map').layout.xaxis.ticktext")
    assert set(labels) == {"0", "1"}
    circles = "document.getElementById('toy-map').data[1].x.length"
    assert tab.evaluate(circles) == 4
    tab.uncheck("#toy-mask")
    assert tab.evaluate(circles) == 0
    saved(tab, "report-toy", "#toy")


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


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (400, "dark"), (768, "dark"), (1280, "light")])
def test_small_screens_do_not_scroll_sideways(open_page, width, scheme):
    tab = open_page(viewport={"width": width, "height": 800}, is_mobile=width < 500, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.locator("details").evaluate_all("found => found.forEach(one => { one.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    ends = "[...document.querySelectorAll('.plot, select, img, table')].map(e => e.getBoundingClientRect().right)"
    assert max(tab.evaluate(ends)) <= width
    saved(tab, f"report-{width}")
    saved(tab, f"report-{width}-pretrained", "#pretrained")


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
