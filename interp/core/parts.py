"""What does a claim say, part by part, and what would decide each? Declared as data, before any row is read.

A part names its role, what is estimated, and which values support it; the estimator is a plain function of the
claim's summary of its rows and a confidence level. `interp.core.judgement` turns rows into one outcome per part and
one conclusion per claim.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from interp.statistics import Interval

Role = Literal["paper", "precondition", "control", "ours"]
"""paper: the paper says or implies it. precondition: must hold for the others to mean anything. control: a comparison
that an alternative explanation must survive. ours: beyond the paper; never enters its conclusion."""
Direction = Literal["above", "below", "within"]
Unit = Literal["seeds", "problems", "runs", "clusters", "inputs"]


@dataclass(frozen=True)
class NotMeasurable:
    """Why there is no estimate: nothing solved, nothing left after a cut, a budget that ended too early."""

    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError("NotMeasurable needs a reason")


Estimator = Callable[[Any, float], Interval | NotMeasurable]
"""(summary of the rows, confidence level) -> the estimate with its two-sided interval at that level."""


@dataclass(frozen=True)
class Part:
    """One statement that rows can support or refute."""

    key: str
    """Short name in lower case, unique within the claim; what `finding` refers to."""
    name: str
    """The statement in words."""
    role: Role
    quantity: str
    """What is estimated, with its unit."""
    estimate: Estimator
    direction: Direction
    """The statement holds if the quantity is above or below `threshold`, or within `margin` of it."""
    threshold: float
    why: str
    """Why this number: the paper's own words, a bound, or the smallest effect of interest."""
    unit: Unit
    """The unit of replication that n counts."""
    source: str = ""
    """Where the paper says it: "Figure 2", "Theorem 3". Required of parts with role paper."""
    primary: bool = False
    """Whether it decides the claim's conclusion (role paper only)."""
    margin: float | None = None
    """With direction within: the largest difference that is too small to matter."""
    needs: tuple[str, ...] = ()
    """Keys of preconditions; unless each is supported, the part is not testable here."""
    refuted_at: float | None = None
    """For quantities whose zero means "no evidence", such as a likelihood ratio: refuted only beyond this value."""
    note: Callable[[Any], str] | None = None
    """Facts of the summary that belong beside the estimate."""
    added_later: bool = False
    """Whether it was thought of after the data: then it stands in no protocol, its name says so, and it is ours."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.key):
            raise ValueError(f"part key {self.key!r}: use lower case letters, digits and _")
        if self.role == "paper" and not self.source:
            raise ValueError(f"part {self.key}: role paper needs `source`, the place in the paper that says it")
        if self.primary and self.role != "paper":
            raise ValueError(f"part {self.key}: only parts with role paper can be primary, not {self.role}")
        if self.added_later and self.role != "ours":
            raise ValueError(f"part {self.key}: added later, so its role is ours, not {self.role}")
        if not math.isfinite(self.threshold):
            raise ValueError(f"part {self.key}: threshold {self.threshold}; expected a finite number")
        if (self.direction == "within") != (self.margin is not None):
            raise ValueError(f"part {self.key}: direction within goes with a margin, the others without one")
        if self.margin is not None and not self.margin > 0:
            raise ValueError(f"part {self.key}: margin {self.margin}; expected a positive number")
        if not self.why.strip():
            raise ValueError(f"part {self.key}: say in `why` where the threshold comes from")

    @property
    def claimed(self) -> str:
        """The values that support the part."""
        return claimed(self.direction, self.threshold, self.margin)

    def record(self) -> dict[str, Any]:
        """The part as a protocol declares it: plain JSON, without its functions."""
        left_out = ("estimate", "note", "added_later")
        found = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in left_out}
        return {**found, "needs": list(self.needs)}


def claimed(direction: Direction, threshold: float, margin: float | None) -> str:
    """The values that support a part: "> 0.5", "2 ± 0.3"."""
    if direction == "within":
        return f"{threshold:.3g} ± {margin:.3g}"
    return f"{'>' if direction == 'above' else '<'} {threshold:.3g}"


def check_parts(claim: str, parts: Sequence[Part]) -> None:
    """Refuses parts that could not be judged together."""
    keys = [part.key for part in parts]
    if len(set(keys)) != len(keys) or len({part.name for part in parts}) != len(parts):
        raise ValueError(f"claim {claim} has two parts of one key or name: {sorted(keys)}")
    if not any(part.primary for part in parts):
        raise ValueError(f"claim {claim} needs at least one primary part")
    roles = {part.key: part.role for part in parts}
    for part in parts:
        strange = [key for key in part.needs if roles.get(key) != "precondition"]
        if strange:
            raise ValueError(f"claim {claim}, part {part.key}: needs {strange[0]!r}, which is no precondition of it")
        if part.needs and part.role == "precondition":
            raise ValueError(f"claim {claim}, part {part.key}: a precondition cannot need another")
