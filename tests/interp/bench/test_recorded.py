"""Are the numbers on the page about speed those that were recorded?"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")


def recorded(bench: str) -> list[dict]:
    return json.loads((ROOT / "benchmarks" / f"{bench}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("tokens", [256, 1024, 2048, 8192])
def test_entropies(tokens):
    found = {record["contender"]: record for record in recorded("entropy") if record["tokens"] == tokens}
    ours, eager = found["cotlens"], found.get("eager")
    part = PAGE.split("exact entropies")[1].split("between all sentences")[0]
    (row,) = re.findall(rf"^\| {tokens:,} tokens \|.*$", part, re.MULTILINE)
    expected = [ours["over_bare"], ours["peak_over_bare"]]
    if eager is not None:
        expected = [expected[0], ours["eager_over_this"], expected[1], eager["peak_over_bare"]]
    assert re.findall(r"([\d.]+)x", row) == [f"{value:.2f}" for value in expected]


def test_generation():
    (found,) = recorded("generate")
    assert f"take {found['ratio']:.1f} times as long one after the other as in our batch" in PAGE


@pytest.mark.parametrize("tokens", [1024, 2048, 8192])
def test_sentences(tokens):
    found = {record["contender"]: record for record in recorded("trace") if record.get("tokens") == tokens}
    ours, eager = found["cotlens"], found.get("eager")
    (row,) = re.findall(rf"^\| {tokens:,} tokens \|.*$", PAGE.split("between all sentences")[1], re.MULTILINE)
    expected = [ours["over_bare"], ours["peak_over_bare"]]
    if eager is not None:
        expected = [expected[0], eager["over_bare"], expected[1], eager["peak_over_bare"]]
    assert re.findall(r"([\d.]+)x", row) == [f"{value:.2f}" for value in expected]


def test_suppression():
    (found,) = [record for record in recorded("trace") if record["bench"] == "trace suppression"]
    assert f"Hiding each of {found['sentences']} sentences of a trace in turn is {found['ratio']:.2f} times" in PAGE
