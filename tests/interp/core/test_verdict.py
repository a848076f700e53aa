"""Verdicts: what an interval implies, and that they survive the disk."""

import json
import math

import pytest
from rich.console import Console

from interp.core.verdict import Verdict, judged, read_verdicts, verdict_table
from interp.statistics import Interval
from probes.base.atomic import write_json


def verdict(low: float, high: float, direction="above", threshold=1.0) -> Verdict:
    estimate = (low + high) / 2 if math.isfinite(low + high) else 0.0
    return judged(
        Interval(estimate, low, high, 0.95, 5), claim="wen2024/fig2", part="part [a]", quantity="nats",
        threshold=threshold, direction=direction, unit="seeds", note="ü",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "direction", "outcome"),
    [
        (1.1, 2.0, "above", "supported"),
        (0.1, 0.9, "above", "refuted"),
        (0.5, 1.5, "above", "inconclusive"),
        (1.1, 2.0, "below", "refuted"),
        (0.1, 0.9, "below", "supported"),
        (0.5, 1.5, "below", "inconclusive"),
        (-math.inf, math.inf, "above", "inconclusive"),
        (1.5, math.inf, "above", "supported"),
    ],
)
def test_the_whole_interval_must_be_on_one_side(low, high, direction, outcome):
    assert verdict(low, high, direction).outcome == outcome


def test_verdicts_come_back_from_json_with_open_ends(tmp_path):
    kept = [verdict(1.1, 2.0), verdict(-math.inf, math.inf)]
    run = {"claim": "wen2024/fig2", "preset": "cpu", "command": "c", "verdicts": [v.record() for v in kept]}
    write_json(tmp_path / "v.json", [run])
    assert "Infinity" not in (tmp_path / "v.json").read_text()
    (found,) = read_verdicts(tmp_path / "v.json")
    assert found["verdicts"] == kept


@pytest.mark.parametrize(
    "content", ["", "{}x", "3", '[{"claim": "a"}]', '[{"verdicts": [{"claim": "a"}]}]', '[{"verdicts": 3}]']
)
def test_other_files_are_named(content, tmp_path):
    path = tmp_path / "v.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"v\.json is not a list of verdicts"):
        read_verdicts(path)


def test_records_are_plain_json():
    assert json.loads(json.dumps(verdict(1.1, 2.0).record(), allow_nan=False))["outcome"] == "supported"


def test_the_table_shows_everything_brackets_included():
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(verdict_table([verdict(1.1, 2.0), verdict(-math.inf, math.inf)]))
    text = console.export_text()
    for expected in (
        "supported",
        "inconclusive",
        "wen2024/fig2 part [a]",
        "1.55 [1.1, 2]",
        "> 1, 5 seeds",
        "[-inf, inf]",
    ):
        assert expected in text
