"""What was found of one part of a claim? A verdict, and how verdicts are stored and printed."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from interp.core.parts import Direction, Part, Role, Unit, claimed
from interp.statistics import Interval, decide

if TYPE_CHECKING:
    from rich.table import Table

Outcome = Literal["supported", "refuted", "inconclusive", "not testable here"]
OUTCOMES: tuple[Outcome, ...] = ("supported", "refuted", "inconclusive", "not testable here")
COLOURS: dict[Outcome, str] = {
    "supported": "green",
    "refuted": "red",
    "inconclusive": "yellow",
    "not testable here": "bright_black",
}


@dataclass(frozen=True)
class Verdict:
    """One declared part, decided. Numbers are None where nothing could be estimated."""

    claim: str
    key: str
    name: str
    role: Role
    primary: bool
    quantity: str
    direction: Direction
    threshold: float
    margin: float | None
    why: str
    source: str
    outcome: Outcome
    estimate: float | None
    low: float | None
    high: float | None
    level: float | None
    """The real confidence level of [low, high], multiplicity included."""
    n: int
    unit: Unit
    note: str = ""

    @property
    def claimed(self) -> str:
        """The values that support the part."""
        return claimed(self.direction, self.threshold, self.margin)

    @property
    def interval(self) -> str:
        """Estimate and interval in words: "0.24 [0.19, 0.29]"."""
        if self.estimate is None or self.low is None or self.high is None:
            return "no estimate"
        return f"{number(self.estimate)} [{number(self.low)}, {number(self.high)}]"

    def record(self) -> dict[str, Any]:
        """The verdict as plain JSON, which has no infinity: an open end is the text "inf" or "-inf"."""
        return {k: str(v) if isinstance(v, float) and math.isinf(v) else v for k, v in asdict(self).items()}

    @classmethod
    def read(cls, record: dict[str, Any]) -> "Verdict":
        """The verdict that `record` came from."""
        if record["outcome"] not in OUTCOMES:
            raise ValueError(f"outcome {record['outcome']!r}; expected one of {', '.join(OUTCOMES)}")
        read: dict[str, Any] = {k: float(v) if v in ("inf", "-inf") else v for k, v in record.items()}
        return cls(**read)


def number(value: float) -> str:
    """Three significant digits; an open end as a sign."""
    return f"{value:.3g}" if math.isfinite(value) else ("∞" if value > 0 else "−∞")


def decided(claim: str, part: Part, found: Interval, note: str = "") -> Verdict:
    """The verdict that an interval implies under the part's declaration."""
    return _verdict(claim, part, _outcome(part, found), found, note)


def untestable(claim: str, part: Part, reason: str) -> Verdict:
    """The verdict on a part that these rows cannot speak about."""
    return _verdict(claim, part, "not testable here", None, reason)


def _outcome(part: Part, found: Interval) -> Outcome:
    if part.direction == "within":
        assert part.margin is not None
        low, high = part.threshold - part.margin, part.threshold + part.margin
        inside = low < found.low and found.high < high
        outside = found.high < low or found.low > high
        return "supported" if inside else "refuted" if outside else "inconclusive"
    outcome = decide(found, threshold=part.threshold, direction=part.direction)
    if outcome == "refuted" and part.refuted_at is not None:
        beyond = decide(found, threshold=part.refuted_at, direction=part.direction)
        return "refuted" if beyond == "refuted" else "inconclusive"
    return outcome


def _verdict(claim: str, part: Part, outcome: Outcome, found: Interval | None, note: str) -> Verdict:
    return Verdict(
        claim=claim,
        key=part.key,
        name=f"{part.name} (added after the data)" if part.added_later else part.name,
        role=part.role,
        primary=part.primary,
        quantity=part.quantity,
        direction=part.direction,
        threshold=float(part.threshold),
        margin=part.margin,
        why=part.why,
        source=part.source,
        outcome=outcome,
        estimate=None if found is None else float(found.value),
        low=None if found is None else float(found.low),
        high=None if found is None else float(found.high),
        level=None if found is None else float(found.level),
        n=0 if found is None else found.n,
        unit=part.unit,
        note=note,
    )


def verdict_table(verdicts: Sequence[Verdict], title: str = "Verdicts") -> "Table":
    """The verdicts as a rich table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title)
    for column in ("outcome", "part", "estimate \\[interval]", "claimed, n"):
        table.add_column(column)
    for v in verdicts:
        role = f"{v.role}, primary" if v.primary else v.role
        level = "" if v.level is None else f"{100 * v.level:.4g}% interval"
        table.add_row(  # Text, because names and quantities may hold the brackets of rich's markup
            Text(v.outcome, style=COLOURS[v.outcome]),
            Text(f"{v.name} ({role})\n{v.quantity}"),
            Text(f"{v.interval}\n{level}"),
            Text(f"{v.claimed}\n{v.n} {v.unit}"),
        )
    return table
