"""Traces in the page: the numbers of the rows, text that stays text, a bounded size, and what a browser shows."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from interp.report import write_report
from interp.report.page import SCRIPTS
from interp.report.sources import read_runs
from interp.report.templates import asset
from interp.report.trace_page import trace_page, write_trace_page
from interp.report.traces import SMALLEST, trace_data
from probes import rows
from tests.interp.report.browsing import needs_chromium, opening, saved
from tests.interp.report.elements import Elements
from tests.interp.report.made_traces import trace_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trace_run(tmp_path_factory.mktemp("traces") / "run")


def unpacked(column) -> np.ndarray:
    kind = {"u2": "<u2", "f4": "<f4"}[column["dtype"]]
    raw = np.frombuffer(base64.b64decode(column["data"]), kind)
    return np.where(raw == 65535, np.nan, column["offset"] + column["step"] * raw.astype(float))


def test_matrices_bars_and_curves_are_those_of_the_rows(run):
    (data,) = trace_data(read_runs([run]))
    table = rows.read(run / "rows.parquet")
    assert [one["id"] for one in data["traces"]] == ["plain", "<b>bad</b>"]
    trace, mine = data["traces"][0], table[table["unit"] == "plain"]
    n = len(trace["units"])
    for name in ("attention_mean", "suppression_effect"):
        found = unpacked(trace["matrices"][name]).reshape(n, n)
        part = mine[(mine["metric"] == name) & (mine["layer"] == -1) & (mine["condition"] != "control")]
        expected = np.full((n, n), np.nan)
        for row in part.itertuples():
            expected[row.query, row.key] = row.value
        expected = np.log10(np.maximum(expected, SMALLEST)) if name == "attention_mean" else expected
        np.testing.assert_allclose(found, expected, atol=1e-4)
    by_head = unpacked(trace["by_head"]["values"]).reshape(12, -1)
    assert trace["by_head"]["heads"] == list(range(12))
    part = mine[(mine["metric"] == "attention_mean") & (mine["layer"] == 1) & (mine["head"] == 2)]
    assert 10 ** by_head[6, 3 * 4 // 2 + 1] == pytest.approx(
        part[(part["query"] == 3) & (part["key"] == 1)]["value"].item(), rel=1e-3
    )
    assert data["traces"][1]["by_head"] is None, "only the first keeps every head"
    early = mine[(mine["condition"] == "early") & (mine["metric"] == "answer_log_prob")]
    assert [one[0] for one in trace["curves"]["early"]] == early["key"].tolist()
    np.testing.assert_allclose([one[1] for one in trace["curves"]["early"]], early["value"], atol=1e-4)
    gain = mine[mine["metric"] == "answer_log_odds_gain"].set_index("key")["value"]
    assert trace["bars"]["answer_gain"][2] == pytest.approx(gain[2], rel=1e-5)
    assert [one["key"] for one in trace["continued"]] == [1, 3, 4]
    assert [one["condition"] for one in trace["written"]] == ["intact", "hidden", "control"]


def test_no_text_can_leave_its_place(run):
    text = trace_page(run)
    assert trace_page(run) == text, "the same files, the same page"
    elements = Elements(text).found
    assert [tag for tag, _ in elements].count("script") == 2
    assert not {"img", "b", "i"} & {tag for tag, _ in elements}
    assert "\u202e" not in text
    assert "\u2028" not in text
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL)
    assert not set("<>&") & set(data)
    shown = [unit[1] for unit in json.loads(data)["traces"][0]["traces"][1]["units"]]
    assert any("<script>alert(1)</script>" in one for one in shown)


def test_what_does_not_fit_is_left_out_and_told(run):
    runs = read_runs([run])
    n, other = (len(one["units"]) for one in trace_data(runs)[0]["traces"])
    (data,) = trace_data(runs, cells=6 * n**2 + 5 * other**2)
    assert [one["no_room_for"] for one in data["traces"]] == [[], ["suppression_log_kl"]]
    (data,) = trace_data(runs, cells=6 * n**2 + 6 * other**2 + 5 * n * (n + 1) // 2)
    kept = data["traces"][0]["by_head"]["heads"]
    assert len(kept) == 5
    assert {one["layer"] * 4 + one["head"] for one in data["receivers"]} < set(kept), "receiver heads first"
    (data,) = trace_data(runs, cells=0, characters=1)
    assert data["left_out"] == 1
    assert data["traces"][0]["matrices"] == {}
    assert data["traces"][0]["by_head"]["heads"] == []


@pytest.mark.parametrize(("lost", "content"), [("trace.json", None), ("trace.json", "{}"), ("passages.jsonl", "[1")])
def test_damaged_files_are_one_line(run, lost, content):
    kept = (run / lost).read_bytes()
    try:
        (run / lost).unlink() if content is None else (run / lost).write_text(content)
        with pytest.raises(ValueError, match=f"--out {run} --resume with the options of the run writes it again"):
            read_runs([run])
    finally:
        (run / lost).write_bytes(kept)


def test_the_page_needs_no_torch(run):
    code = (
        "import sys; from pathlib import Path; from interp.report.trace_page import write_trace_page\n"
        "print(write_trace_page(Path(sys.argv[1])).name, 'torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["trace.html", "False"]


@pytest.fixture
def open_trace(browser, run) -> Iterator[Callable]:
    with opening(browser, write_trace_page(run)) as opened:
        yield opened


def value(run, query: int, key: int, layer: int = -1, head: int = -1) -> float:
    table = rows.read(run / "rows.parquet")
    place = (table["metric"] == "attention_mean") & (table["query"] == query) & (table["key"] == key)
    return table[place & (table["unit"] == "plain") & (table["layer"] == layer) & (table["head"] == head)][
        "value"
    ].item()


@needs_chromium
def test_a_sentence_is_pointed_at_pinned_and_has_an_address(open_trace, run):
    tab = open_trace()
    links = tab.locator("#tr-sentences .link")
    tab.hover("#tr-unit-3")
    assert tab.inner_text("#tr-told").startswith("Sentence 3 reads most:")
    assert links.nth(1).inner_text() == f"▲ {value(run, 3, 1):.3g}"
    assert links.nth(5).inner_text() == f"▼ {value(run, 5, 3):.3g}"
    assert tab.locator("#tr-arcs path.reads").count() == 3
    assert tab.locator("#tr-arcs path.read").count() == 3
    assert "#" not in tab.url  # pointing is not choosing
    tab.click("#tr-unit-2")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    assert tab.locator("#tr-sentences [aria-selected=true]").get_attribute("id") == "tr-unit-4"
    tab.mouse.move(0, 0)
    tab.select_option("#tr-head", "1.2")
    assert links.nth(2).inner_text() == f"▲ {value(run, 4, 2, 1, 2):.3g}"
    assert "layer 1, head 2" in tab.inner_text("#tr-matrix-title")
    address = tab.url
    assert address == tab.evaluate("document.getElementById('tr-link').href")
    assert "sentence=4&head=1.2" in address
    saved(tab, "trace-1280")
    other = open_trace()
    other.goto("about:blank")
    other.goto(address)
    other.wait_for_selector("html[data-ready]")
    assert other.locator("#tr-sentences .link").nth(2).inner_text() == f"▲ {value(run, 4, 2, 1, 2):.3g}"
    other.select_option("#tr-trace", "1")
    assert "first traces only (--keep)" in other.inner_text("#tr-matrix-note")
    assert other.locator("#tr-view :is(script, img, b)").count() == 0
    assert "<img src=x onerror=alert(3)>" in other.inner_text("#tr-sentences")
    other.select_option("#tr-matrix", "suppression_effect")
    assert "is changed most by hiding" in other.inner_text("#tr-told")


@needs_chromium
def test_heads_curves_and_texts_on_a_small_dark_screen(open_trace):
    tab = open_trace(viewport={"width": 400, "height": 800}, is_mobile=True, has_touch=True, color_scheme="dark")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    tab.tap("#tr-unit-3 .said")
    assert "sentence=3" in tab.url
    assert tab.locator("#tr-receivers tbody tr").count() == 4
    first = tab.locator("#tr-receivers tbody tr").first
    assert "< 0.001" in first.inner_text()
    first.locator("button").tap()
    assert f"head={first.locator('button').inner_text()}" in tab.url
    assert tab.locator("#tr-curve circle").count() == 6
    assert tab.locator("#tr-curve .mistake").count() == 3
    assert tab.locator("#tr-continued tbody tr").count() == 3
    assert tab.locator("#tr-written .panel h4").all_inner_texts()[0] == "Intact"
    ends = "[...document.querySelectorAll('select, canvas, table, li')].map(e => e.getBoundingClientRect().right)"
    assert max(tab.evaluate(ends)) <= 400
    pixels = "c => [...new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)].length"
    assert tab.locator("#tr-cells").evaluate(pixels) > 20
    saved(tab, "trace-400")


@needs_chromium
def test_the_report_has_a_section_of_them(browser, run, tmp_path):
    out = tmp_path / "report.html"
    assert write_report([run], out) < 2_000_000, "Plotly is not needed for it"
    with opening(browser, out) as opened:
        tab = opened()
        tab.click("header a[href='#traces']")
        tab.focus("#tr-sentences")
        tab.keyboard.press("End")
        assert tab.inner_text("#tr-told").startswith("The answer reads most:")
        assert tab.url.split("#")[1].startswith("traces?run=")
        tab.click("#theme")
        assert tab.locator("#tr-sentences .current").count() == 1


def test_no_two_scripts_of_the_report_use_one_name():
    """They share one function: the later of two functions of a name would silently take the place of the earlier."""
    names = [
        name
        for script in SCRIPTS
        for name in re.findall(r"^(?:async )?(?:function|const|let) +(\w+)", asset(script), re.MULTILINE)
    ]
    assert len(names) > 50
    assert len(names) == len(set(names))
