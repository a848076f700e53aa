"""What does a claim's test conclude? A verdict, and how verdicts are stored and printed."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from interp.statistics import Interval, Outcome, decide
from probes.base.atomic import read_json

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Verdict:
    """One pre-declared test of one claim, decided."""

    claim: str
    """The claim's id, such as wen2024/fig2."""
    part: str
    """Which of the claim's tests this is; a claim with one test has one part."""
    outcome: Outcome
    quantity: str
    """What was estimated, with its unit."""
    estimate: float
    low: float
    """Lower end of the confidence interval."""
    high: float
    level: float
    threshold: float
    """The smallest effect of interest, fixed before the data were seen."""
    direction: Literal["above", "below"]
    """On which side of the threshold the claim says the quantity lies."""
    n: int
    unit: Literal["seeds", "problems", "runs"]
    note: str = ""

    def record(self) -> dict[str, Any]:
        """The verdict as plain JSON, which has no infinity: an open end is the text "inf" or "-inf"."""
        return {k: str(v) if isinstance(v, float) and math.isinf(v) else v for k, v in asdict(self).items()}


def judged(
    interval: Interval,
    *,
    claim: str,
    part: str,
    quantity: str,
    threshold: float,
    direction: Literal["above", "below"],
    unit: Literal["seeds", "problems", "runs"],
    note: str = "",
    refuted_at: float | None = None,
) -> Verdict:
    """The verdict that `interval` implies under the declared threshold and direction.

    `refuted_at` is for quantities whose zero means "no evidence", such as a likelihood ratio: short of the threshold
    alone does not refute, the whole interval must lie beyond this other value.
    """
    outcome = decide(interval, threshold=threshold, direction=direction)
    if outcome == "refuted" and refuted_at is not None:
        outcome = (
            "refuted" if decide(interval, threshold=refuted_at, direction=direction) == "refuted" else "inconclusive"
        )
    return Verdict(
        claim=claim,
        part=part,
        outcome=outcome,
        quantity=quantity,
        estimate=float(interval.value),
        low=float(interval.low),
        high=float(interval.high),
        level=float(interval.level),
        threshold=threshold,
        direction=direction,
        n=interval.n,
        unit=unit,
        note=note,
    )


def read_verdicts(path: Path) -> list[dict[str, Any]]:
    """The runs in a verdicts.json: claim, preset, command and its verdicts."""
    try:
        found = read_json(path)
        if not isinstance(found, list):
            raise TypeError(f"it holds a {type(found).__name__}")
        return [{**run, "verdicts": [_verdict(v) for v in run["verdicts"]]} for run in found]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is not a list of verdicts: {error}") from error


def _verdict(record: dict[str, Any]) -> Verdict:
    values: dict[str, Any] = {k: float(v) if v in ("inf", "-inf") else v for k, v in record.items()}
    return Verdict(**values)


def verdict_table(verdicts: Sequence[Verdict]) -> "Table":
    """The verdicts as a rich table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Verdicts")
    for column in ("verdict", "claim and test", "estimate \\[interval], claimed, n"):
        table.add_column(column)
    colours = {"supported": "green", "refuted": "red", "inconclusive": "yellow"}
    for v in verdicts:
        interval = f"{v.estimate:.3g} [{v.low:.3g}, {v.high:.3g}]"
        claimed = f"{'>' if v.direction == 'above' else '<'} {v.threshold:.3g}"
        table.add_row(  # Text, because part and quantity may hold the brackets of rich's markup
            Text(v.outcome, style=colours[v.outcome]),
            Text(f"{v.claim} {v.part}\n{v.quantity}"),
            Text(f"{interval}\n{claimed}, {v.n} {v.unit}"),
        )
    return table
