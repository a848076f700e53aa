"""Do the explorers work in a real browser: controls that change what is shown, text as text?"""

from tests.interp.report.browsing import needs_chromium, saved
from tests.interp.report.synthetic import CONDITIONS, HOSTILE

pytestmark = needs_chromium


def cells(tab, plot: str) -> list:
    """The numbers of a heatmap as Plotly has them."""
    return tab.evaluate("id => document.getElementById(id).data[0].z", plot)


def test_the_heatmap_follows_its_controls(tab):
    seen = [cells(tab, "pt-map")]
    for control, value in (("metric", "mean"), ("scope", "answer"), ("first", "shuffled_tokens")):
        tab.select_option(f"#pt-{control}", value)
        seen.append(cells(tab, "pt-map"))
    assert len({str(one) for one in seen}) == 4
    assert "shuffled_tokens: mean" in tab.inner_text("#pt-map-title")


def test_significance_is_marked_and_told(tab):
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


def test_a_click_chooses_a_head(tab):
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


def test_the_explorer_begins_with_the_statistic_of_the_board(tab):
    chosen = {name: tab.input_value(f"#pt-{name}") for name in ("metric", "scope", "first", "second")}
    assert chosen == {"metric": "min", "scope": "all", "first": "cot", "second": "no_cot"}
    assert tab.inner_text("#pt-difference-note") == tab.inner_text("#pt-published-note")
    tab.select_option("#pt-scope", "answer")
    assert tab.inner_text("#pt-difference-note") != tab.inner_text("#pt-published-note")  # which stays as published
    assert tab.inner_text("#pt-published-title") == "As published: plain minimum, all tokens"
    assert tab.inner_text("#pt-controlled-title") == "Controlled: length-matched minimum, answer tokens"


def test_a_head_has_an_address(tab, open_page, page):
    assert "#" not in tab.url  # nothing was chosen yet
    tab.select_option("#pt-layer", "2")
    tab.select_option("#pt-head", "1")
    tab.select_option("#pt-scope", "answer")
    tab.select_option("#pt-second", CONDITIONS[3])
    address = tab.url
    assert address == tab.evaluate("document.getElementById('pt-link').href")
    other = open_page(address[address.index("#") :])
    assert "Layer 2, head 1" in other.inner_text("#pt-problems-title")
    assert (other.input_value("#pt-scope"), other.input_value("#pt-second")) == ("answer", CONDITIONS[3])
    assert 0 <= other.locator("#pretrained").bounding_box()["y"] < 100
    assert other.locator("#contents a[aria-current]").evaluate_all("a => a.map(one => one.hash)") == ["#pretrained"]
    other.goto(f"{page.as_uri()}#pretrained?layer=99&head=0&model=unknown")  # what there is not is passed over
    other.wait_for_selector("#pt-problems-title:has-text('Layer 2, head 0')")


def test_a_toy_head_has_an_address(tab, open_page):
    tab.select_option("#toy-run", "1")
    tab.select_option("#toy-scope", "input 1")
    tab.select_option("#toy-head", "1")
    tab.focus("#toy-step")
    tab.keyboard.press("ArrowLeft")
    tab.wait_for_function("location.hash.includes('checkpoint=1')")
    address, shown = tab.url, cells(tab, "toy-map")
    assert "seed+1" in address
    other = open_page(address[address.index("#") :])
    assert cells(other, "toy-map") == shown
    assert "head 1 at 2,000 samples" in other.inner_text("#toy-map-title")
    assert 0 <= other.locator("#toy").bounding_box()["y"] < 100


def test_the_entropy_curve_says_that_it_is_a_minimum(tab):
    assert "minimum entropy over positions, layer 0 head 0" in tab.inner_text("#toy-readout")
    assert tab.evaluate("document.getElementById('toy-curves').layout.yaxis3.title.text") == "min. entropy"


def test_hostile_text_stays_text(tab):
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


def test_the_slider_goes_through_the_checkpoints(tab):
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


def test_the_toy_map_follows_its_controls(tab):
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
