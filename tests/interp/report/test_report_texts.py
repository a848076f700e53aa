"""Are the two texts of a problem shown side by side, and their closing sentence aligned token by token?"""

import json
from collections.abc import Callable, Iterator

import pandas as pd
import pytest

from interp.report import write_report
from tests.interp.report.browsing import needs_chromium, saved
from tests.interp.report.synthetic import CLOSED, HOSTILE, entropy_run

pytestmark = needs_chromium
TOKENS = (" The", " answer", f" <b>{HOSTILE[0]} 0</b>", ".")


def shown(tab) -> list[list[str]]:
    """The cells of the closing sentence's table, head and foot included."""
    rows = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    return tab.locator("#pt-closing tr").evaluate_all(rows)


def expected(runs, first: str, second: str, statistic: str, head: tuple[int, int] | None = None) -> list[list[str]]:
    """The same from the table of tokens: values, differences and their means, of one head or over all."""
    table = pd.read_parquet(runs / "entropy" / "tokens.parquet")
    mine = table[(table["part"] == "closing") & (table["statistic"] == statistic)]
    mine = mine[mine["problem"] == f"{HOSTILE[0]} 0"]
    if head is not None:
        mine = mine[(mine["layer"] == head[0]) & (mine["head"] == head[1])]
    means = mine.groupby(["condition", "position"])["value"].mean()
    a, b = (list(means[name]) for name in (first, second))
    names = [json.dumps(token) for token in TOKENS]
    rows = [*zip(names, a, b), ("mean over tokens", sum(a) / 4, sum(b) / 4)]
    return [[name, f"{x:.3f}", f"{y:.3f}", f"{x - y:+.3f}".replace("-", "−")] for name, x, y in rows]


def assert_close(found: list[list[str]], wanted: list[list[str]]) -> None:
    """Equal but for the last digit: values are packed in steps of 0.0001."""
    assert [row[0] for row in found] == [row[0] for row in wanted]
    for row, other in zip(found, wanted):
        numbers, others = ([float(cell.replace("−", "-")) for cell in one[1:]] for one in (row, other))
        assert numbers == pytest.approx(others, abs=0.0011)


def test_the_texts_of_the_board_stand_side_by_side_with_their_closing_sentence(tab, runs):
    assert (tab.input_value("#pt-text"), tab.input_value("#pt-text-second")) == ("cot_clean", "no_cot")
    left, right = (tab.locator(f"#pt-view{end}").bounding_box() for end in ("", "-second"))
    assert left["x"] + left["width"] <= right["x"]
    assert left["y"] == right["y"]
    for end, condition in (("", "cot_clean"), ("-second", "no_cot")):
        text = tab.inner_text(f"#pt-view{end}")
        assert f"<u>{condition}</u>" in text
        assert f"CLOSING SENTENCE ({condition.upper()})" in text
    head, *rows = shown(tab)
    assert head == ["Token", "cot_clean", "no_cot", "difference"]
    assert_close(rows, expected(runs, "cot_clean", "no_cot", "normalised_entropy"))
    about = tab.inner_text("#pt-closing-about")
    assert "The same 4 tokens, beginning at token 8 of cot_clean and at token 8 of no_cot" in about
    assert "mean over all heads" in about
    saved(tab, "report-texts", "#pt-tokens")


def test_the_closing_sentence_follows_statistic_head_and_texts(tab, runs):
    tab.select_option("#pt-closing-heads", "one")
    tab.select_option("#pt-layer", "2")
    tab.select_option("#pt-head", "1")
    assert_close(shown(tab)[1:], expected(runs, "cot_clean", "no_cot", "normalised_entropy", (2, 1)))
    tab.select_option("#pt-metric", "sink_mass")  # a metric above chooses its statistic here
    assert tab.input_value("#pt-closing-statistic") == "sink_mass"
    assert "Higher values mean attention on fewer tokens" in tab.inner_text("#pt-closing-about")
    assert_close(shown(tab)[1:], expected(runs, "cot_clean", "no_cot", "sink_mass", (2, 1)))
    tab.select_option("#pt-closing-statistic", "effective_keys")
    tab.select_option("#pt-text", "<i>filler</i>")
    assert "effective number of keys (keys), layer 2, head 1" in tab.inner_text("#pt-closing-about")
    assert_close(shown(tab)[1:], expected(runs, "<i>filler</i>", "no_cot", "effective_keys", (2, 1)))


def test_the_bar_of_a_difference_says_its_sign_by_its_side(tab):
    bars = "bars => bars.map(b => [b.className, b.getBoundingClientRect(), b.parentNode.getBoundingClientRect()])"
    signs = [row[3][0] for row in shown(tab)[1:]]
    for sign, (name, bar, frame) in zip(signs, tab.locator("#pt-closing .gap span").evaluate_all(bars), strict=True):
        middle = frame["x"] + frame["width"] / 2
        assert name == ("less" if sign == "−" else "more")
        assert (bar["x"] + bar["width"] <= middle + 1) if sign == "−" else (bar["x"] >= middle - 1)


def test_texts_without_a_common_sentence_are_told_in_one_line(tab):
    tab.select_option("#pt-text", "cot")
    assert tab.inner_text("#pt-closing-about").startswith("No closing sentence in common: cot has none here")
    assert not tab.locator("#pt-closing").is_visible()
    assert not tab.locator("#pt-closing-controls").is_visible()
    tab.select_option("#pt-text-second", "cot")
    assert tab.inner_text("#pt-closing-about") == "Choose two different texts to compare their closing sentences."
    tab.select_option("#pt-text-second", "no_cot")
    tab.select_option("#pt-text", "cot_clean")
    assert tab.locator("#pt-closing").is_visible()


def test_the_second_text_is_read_with_the_keyboard_too(open_page):
    tab = open_page()
    tab.focus("#pt-view-second")
    for _ in range(9):
        tab.keyboard.press("ArrowRight")
    assert tab.inner_text("#pt-token-second").startswith(
        'Token 9 (closing sentence) " answer": normalised entropy 0.'
    )
    assert tab.inner_text("#pt-token") == "Point at a token to read its value."


@pytest.fixture
def opened(browser, tmp_path) -> Iterator[Callable]:
    """Opens the page of a run whose tokens were changed, or that has none."""
    context = browser.new_context()
    complaints: list[str] = []

    def open_changed(changed: Callable[[pd.DataFrame], pd.DataFrame] | None):
        entropy_run(tmp_path, tokens=changed is not None)
        if changed is not None:
            changed(pd.read_parquet(tmp_path / "tokens.parquet")).to_parquet(tmp_path / "tokens.parquet")
        write_report([tmp_path], tmp_path / "report.html")
        tab = context.new_page()
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto((tmp_path / "report.html").as_uri())
        tab.wait_for_selector("html[data-ready]")
        return tab

    yield open_changed
    context.close()
    assert complaints == []


def test_a_run_without_tokens_says_how_to_keep_them(opened):
    tab = opened(None)
    assert "measure with --keep-tokens 2" in tab.inner_text("#pt-no-texts")
    assert not tab.locator("#pt-texts").is_visible()


def test_other_tokens_a_single_text_and_unknown_statistics_are_no_failure(opened):
    def changed(tokens: pd.DataFrame) -> pd.DataFrame:
        first, second, *_ = tokens["problem"].unique()
        closing = tokens["part"] == "closing"
        other = closing & (tokens["problem"] == first) & (tokens["condition"] == "no_cot")
        tokens = tokens.assign(token=tokens["token"].mask(other & (tokens["token"] == "."), "!"))
        unknown = tokens[closing & (tokens["statistic"] == "sink_mass")].assign(statistic="of a missing plug-in")
        kept = (tokens["problem"] != second) | (tokens["condition"] == CLOSED[0])
        return pd.concat([tokens[kept], unknown[unknown["problem"] == first]], ignore_index=True)

    tab = opened(changed)
    about = "#pt-closing-about"
    assert tab.inner_text(about) == "No closing sentence in common: the two texts do not end in the same tokens."
    tab.select_option("#pt-problem", index=1)
    assert tab.inner_text(about) == "Only one text of this problem was kept: there is nothing to compare."
    tab.select_option("#pt-problem", index=2)
    tab.select_option("#pt-text", "cot_clean")
    assert tab.locator("#pt-closing").is_visible()
    assert tab.locator("#pt-closing-statistic option").count() == 3


def test_tokens_of_an_older_run_have_no_closing_sentence(opened):
    tab = opened(lambda tokens: tokens[tokens["statistic"] == "normalised_entropy"].assign(
        part=tokens["part"].replace("closing", "answer")).drop(columns=["run", "statistic"]))  # fmt: skip
    told = tab.inner_text("#pt-closing-about")
    assert told.startswith("No closing sentence in common: cot_clean and no_cot have none here (another ending")
    assert tab.locator("#pt-view .token").count() == 11
