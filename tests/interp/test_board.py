"""The board: every verdict once, other text untouched."""

import math

import pytest

from interp.board import END, START, board, entered, with_board
from interp.statistics import Interval
from interp.verdict import judged
from probes.atomic import write_json


def run(claim: str, command: str = "cotlens claims run", low: float = 1.5):
    verdict = judged(
        Interval(2.0, low, math.inf, 0.95, 5), claim=claim, part="with | bar", quantity="a < b",
        threshold=1.0, direction="above", unit="seeds",
    )  # fmt: skip
    return {"claim": claim, "preset": "cpu", "command": command, "verdicts": [verdict]}


def test_the_table_has_a_line_for_each_verdict():
    text = board([run("wen2024/fig2", "make A"), run("wen2024/fig3b", "make B")])
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(lines) == 2
    cells = lines[0].replace("\\|", "¦").strip("| ").split(" | ")
    assert cells == ["`wen2024/fig2`", "with ¦ bar: a &lt; b", "✅ supported", "2 [1.5, ∞]", "> 1", "5 seeds"]
    assert "`make A`, `make B`" in text
    assert "“Without CoT the sample complexity" in text


def test_the_board_replaces_what_is_between_the_markers_only():
    text = f"# Title\n{START}\nold\n{END}\nrest\n"
    once = with_board(text, "| new |")
    assert once == f"# Title\n{START}\n| new |\n{END}\nrest\n"
    assert with_board(once, "| new |") == once


@pytest.mark.parametrize("text", ["", START, END, f"{END}{START}", f"{START}{END}{START}{END}"])
def test_a_file_without_its_two_markers_is_refused(text):
    with pytest.raises(ValueError, match="once each and in this order"):
        with_board(text, "| new |")


def test_new_verdicts_replace_those_of_the_same_claim(tmp_path):
    for name, claim in (("x", "b2024/fig1"), ("y", "a2024/fig1")):
        write_json(tmp_path / name / "verdicts.json", [{"claim": claim, "verdicts": [], "command": "new"}])
    earlier = [{"claim": "c2024/fig1", "command": "old"}, {"claim": "b2024/fig1", "command": "old"}]
    found = entered(earlier, [tmp_path / "x", tmp_path / "y"])
    assert [(r["claim"], r["command"]) for r in found] == [
        ("a2024/fig1", "new"), ("b2024/fig1", "new"), ("c2024/fig1", "old"),
    ]  # fmt: skip
