"""Are the numbers on the pages about speed and large runs those that were recorded?"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")


LARGE = (ROOT / "docs" / "how" / "large-runs.md").read_text(encoding="utf-8")


def recorded(bench: str) -> Any:
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


def test_a_sweep():
    found = {r["condition"]: r["cpu_ratio"] for r in recorded("sweep") if r["model"] == "1L1H d_model=128"}
    words = " ".join(PAGE.split())
    assert f"gets {found['cot']:.2f} times as many samples" in words
    assert f"with CoT and {found['no_cot']:.2f} times without" in words


def test_lego():
    found = {}
    for width in (32, 128):
        for peer in ("plain PyTorch", "answers' rows"):
            ratios = [r["ratio"][peer] for r in recorded("lego") if r["model"].endswith(f"d_token={width}")]
            assert len(ratios) == 4, "two blocks, two groups"
            found[peer, width] = f"{min(ratios):.2f} to {max(ratios):.2f}"
    words = " ".join(PAGE.split())
    plain, rows = ([found[peer, width] for width in (32, 128)] for peer in ("plain PyTorch", "answers' rows"))
    assert f"takes {plain[0]} times as long in plain PyTorch" in words
    assert f"and {plain[1]} times with width 128" in words
    assert f"without tables, take {rows[0]} and {rows[1]} times as long" in words


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


STAGES = ("write", "compare", "means over heads", "report")


def test_rows_that_memory_would_not_hold():
    found = recorded("large")
    assert found["rows"] == 50_000_000
    for stage in STAGES:
        (row,) = re.findall(rf"^\| {stage}[^|]* \|(.*)$", LARGE, re.MULTILINE)
        of = found[stage]
        expected = [f"{of['seconds']:.0f}", f"{of['cpu_seconds']:.0f}", f"{of['peak_gb']:.1f}"]
        assert re.findall(r"[\d.]+", row) == expected
    minutes = sum(found[stage]["seconds"] for stage in STAGES) / 60
    words = " ".join(LARGE.split())
    assert f"in {minutes:.1f} minutes with {max(found[stage]['peak_gb'] for stage in STAGES):.1f} GB" in words
    assert f"{found['bytes_on_disk'] / 1e6:.0f} MB on disk" in words
    assert f"(load {found['load_before']:.0f} to {found['load_after']:.0f} on {found['cores']} cores of an" in words
    assert minutes < 10
    assert max(found[stage]["peak_gb"] for stage in STAGES) < 4
