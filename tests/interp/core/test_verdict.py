"""Verdicts: what an interval implies under a declaration, and that they survive the disk."""

import dataclasses
import json
import math

import pytest
from rich.console import Console

from interp.core.parts import Part
from interp.core.verdict import Verdict, decided, untestable, verdict_table
from interp.statistics import Interval

PART = Part(
    key="gain", name="part [a]", role="ours", quantity="nats", estimate=lambda *_: None, direction="above",
    threshold=1.0, why="one", unit="seeds",
)  # fmt: skip


def verdict(low: float, high: float, **changes) -> Verdict:
    estimate = (low + high) / 2 if math.isfinite(low + high) else max(low, min(high, 0.0))
    return decided("wen2024/fig2", dataclasses.replace(PART, **changes), Interval(estimate, low, high, 0.95, 5), "ü")


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
    assert verdict(low, high, direction=direction).outcome == outcome


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(0.9, 1.2, "supported"), (0.9, 1.4, "inconclusive"), (1.4, 2.0, "refuted"), (0.0, 3.0, "inconclusive")],
)
def test_no_difference_needs_the_interval_inside_the_margin(low, high, outcome):
    assert verdict(low, high, direction="within", margin=0.3).outcome == outcome


def test_a_ratio_without_evidence_is_not_refuted():
    assert verdict(-0.5, 0.5, refuted_at=-1.0).outcome == "inconclusive"
    assert verdict(-3.0, -2.0, refuted_at=-1.0).outcome == "refuted"


def test_what_cannot_be_estimated_has_no_number():
    found = untestable("wen2024/fig2", PART, "nothing solved")
    assert (found.outcome, found.estimate, found.low, found.level, found.n) == ("not testable here", *[None] * 3, 0)
    assert (found.interval, found.note) == ("no estimate", "nothing solved")


def test_verdicts_come_back_from_json_with_open_ends():
    kept = [verdict(1.1, 2.0), verdict(-math.inf, math.inf), untestable("wen2024/fig2", PART, "nothing solved")]
    text = json.dumps([v.record() for v in kept], allow_nan=False)
    assert [Verdict.read(found) for found in json.loads(text)] == kept


def test_the_table_shows_everything_brackets_included():
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    kept = [verdict(1.1, 2.0), verdict(-math.inf, math.inf), untestable("wen2024/fig2", PART, "nothing solved")]
    console.print(verdict_table(kept))
    text = console.export_text()
    for expected in (
        "supported",
        "inconclusive",
        "part [a] (ours)",
        "1.55 [1.1, 2]",
        "95% interval",
        "> 1",
        "5 seeds",
        "[−∞, ∞]",
        "no estimate",
    ):
        assert expected in text
