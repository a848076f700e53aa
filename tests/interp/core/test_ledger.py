"""The ledger: every verdict once, other text untouched."""

import math
import threading
from dataclasses import replace

import pytest

from interp.core.ledger import END, START, enter, ledger_table, stored, with_table
from interp.core.verdict import judged
from interp.statistics import Interval
from probes.base.atomic import write_json


def run(claim: str, command: str = "cotlens claims run", low: float = 1.5):
    verdict = judged(
        Interval(2.0, low, math.inf, 0.95, 5), claim=claim, part="with | bar", quantity="a < b",
        threshold=1.0, direction="above", unit="seeds",
    )  # fmt: skip
    return {"claim": claim, "preset": "cpu", "command": command, "verdicts": [verdict]}


def cells(line: str) -> list[str]:
    return line.replace("\\|", "¦").strip("| ").split(" | ")


def test_the_ledger_has_a_line_for_each_claim_and_for_each_test():
    text = ledger_table([run("wen2024/fig2", "make A"), run("wen2024/fig3b", "make B", low=-1.0)])
    claims, tests = (part.splitlines() for part in text.split("<details>"))
    claims, tests = ([cells(line) for line in lines if line.startswith("| `")] for lines in (claims, tests))
    assert [line[::2] for line in claims] == [["`wen2024/fig2`", "✅"], ["`wen2024/fig3b`", "❔"]]
    assert claims[0][1].startswith("Without CoT the sample complexity")
    assert tests[0] == ["`wen2024/fig2`", "with ¦ bar: a &lt; b", "✅ supported", "2 [1.5, ∞]", "> 1", "5 seeds"]
    assert len(tests) == 2
    assert "`make A`, `make B`" in text


@pytest.mark.parametrize(
    ("part", "counts"),
    [
        ("control, no evidence about CoT", False),
        ("check: the arm learned", False),
        ("signal (control)", False),
        ("controlled: equal length", True),
    ],
)
def test_controls_and_checks_are_not_counted_as_evidence(part, counts):
    found = run("wen2024/fig2")
    found["verdicts"] = [replace(v, part=part) for v in found["verdicts"]]
    line = next(line for line in ledger_table([found]).splitlines() if line.startswith("| `"))
    assert cells(line)[-1] == ("✅" if counts else "a control only")


def test_the_table_replaces_what_is_between_the_markers_only():
    text = f"# Title\n{START}\nold\n{END}\nrest\n"
    once = with_table(text, "| new |")
    assert once == f"# Title\n{START}\n| new |\n{END}\nrest\n"
    assert with_table(once, "| new |") == once


@pytest.mark.parametrize("text", ["", START, END, f"{END}{START}", f"{START}{END}{START}{END}"])
def test_a_file_without_its_two_markers_is_refused(text):
    with pytest.raises(ValueError, match="once each and in this order"):
        with_table(text, "| new |")


def test_new_verdicts_replace_those_of_the_same_claim(tmp_path):
    for name, claim in (("x", "b2024/fig1"), ("y", "a2024/fig1")):
        write_json(tmp_path / name / "verdicts.json", [{"claim": claim, "verdicts": [], "command": "new"}])
    ledger = tmp_path / "ledger" / "verdicts.json"
    old = {"verdicts": [], "command": "old"}
    write_json(ledger, [{"claim": "c2024/fig1", **old}, {"claim": "b2024/fig1", **old}])
    enter(ledger, [tmp_path / "x", tmp_path / "y"])
    assert [(r["claim"], r["command"]) for r in stored(ledger)] == [
        ("a2024/fig1", "new"), ("b2024/fig1", "new"), ("c2024/fig1", "old"),
    ]  # fmt: skip


def test_commands_that_end_at_once_lose_nothing(tmp_path):
    names = [f"a2024/fig{i}" for i in range(12)]
    for i, claim in enumerate(names):
        write_json(tmp_path / str(i) / "verdicts.json", [{"claim": claim, "verdicts": [], "command": "new"}])
    ledger = tmp_path / "verdicts.json"
    threads = [threading.Thread(target=enter, args=(ledger, [tmp_path / str(i)])) for i in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(run["claim"] for run in stored(ledger)) == sorted(names)
