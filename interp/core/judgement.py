"""What follows from the rows? One verdict for each declared part, and one conclusion for the claim.

Multiplicity. The primary parts of a claim are one family: Holm's step-down procedure keeps the probability of any
wrong decision among them at 5%. All are first judged with intervals of level 1 - 0.05 / m; those decided, either way,
leave, and the rest are judged again with m reduced, until no more are decided. The level printed is the one that a
part was judged at last. Other parts are judged at 95% each.

The conclusion rests on the primary parts alone, all of which have the role `paper`:
    reproduced            every one is supported
    not reproduced        none is supported and at least one is refuted
    partly reproduced     some are supported and some are not
    undecided             none is supported and none is refuted
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from interp.core.parts import NotMeasurable, Part, check_parts
from interp.core.verdict import OUTCOMES, Verdict, decided, number, untestable
from interp.statistics import ALPHA

Conclusion = Literal["reproduced", "partly reproduced", "not reproduced", "undecided"]
CONCLUSIONS: tuple[Conclusion, ...] = ("reproduced", "partly reproduced", "not reproduced", "undecided")


@dataclass(frozen=True)
class Judgement:
    """What a claim's rows say."""

    claim: str
    verdicts: tuple[Verdict, ...]
    conclusion: Conclusion
    finding: str
    """One sentence, its numbers filled in from the estimates."""

    @property
    def counts(self) -> str:
        """How the primary parts were decided: "2 supported, 1 refuted, 1 inconclusive"."""
        outcomes = [v.outcome for v in self.verdicts if v.primary]
        return ", ".join(f"{outcomes.count(one)} {one}" for one in OUTCOMES if one in outcomes)

    def record(self) -> dict[str, Any]:
        """The judgement as plain JSON."""
        return {**asdict(self), "verdicts": [v.record() for v in self.verdicts]}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Judgement":
        """The judgement that `record` came from."""
        verdicts = tuple(Verdict.read(v) for v in record["verdicts"])
        if record["conclusion"] not in CONCLUSIONS:
            raise ValueError(f"conclusion {record['conclusion']!r}; expected one of {', '.join(CONCLUSIONS)}")
        return cls(record["claim"], verdicts, record["conclusion"], record["finding"])


def judge_parts(claim: str, parts: Sequence[Part], summary: Any) -> tuple[Verdict, ...]:
    """One verdict for each part, in order; preconditions come first and decide which of the others can be tested.

    `summary` is what the claim makes of its rows for all parts.
    """
    check_parts(claim, parts)
    found: dict[str, Verdict] = {}
    for part in parts:
        if part.role == "precondition":
            found[part.key] = _judged(claim, part, summary, 1 - ALPHA)
    for part in parts:
        failed = [found[key] for key in part.needs if found[key].outcome != "supported"]
        if failed:
            found[part.key] = untestable(claim, part, f"the precondition {failed[0].name!r} is {failed[0].outcome}")
    primary = [part for part in parts if part.primary and part.key not in found]
    found |= _holm(claim, primary, summary)
    for part in parts:
        if part.key not in found:
            found[part.key] = _judged(claim, part, summary, 1 - ALPHA)
    return tuple(found[part.key] for part in parts)


def _holm(claim: str, parts: Sequence[Part], summary: Any) -> dict[str, Verdict]:
    """Verdicts of a family, by Holm's step-down procedure."""
    found: dict[str, Verdict] = {}
    waiting = list(parts)
    while waiting:
        level = 1 - ALPHA / len(waiting)
        found |= {part.key: _judged(claim, part, summary, level) for part in waiting}
        # What is not measurable leaves the family: it was never tested.
        undecided = [part for part in waiting if found[part.key].outcome == "inconclusive"]
        if len(undecided) == len(waiting):
            break
        waiting = undecided
    return found


def _judged(claim: str, part: Part, summary: Any, level: float) -> Verdict:
    found = part.estimate(summary, level)
    if isinstance(found, NotMeasurable):
        return untestable(claim, part, found.reason)
    if abs(found.level - level) > 1e-9:
        raise ValueError(f"{claim}, part {part.key}: an interval of level {found.level}, asked for {level}")
    return decided(claim, part, found, "" if part.note is None else part.note(summary))


def conclude(verdicts: Iterable[Verdict]) -> Conclusion:
    """The conclusion from the primary parts; the rule stands at the top of this module."""
    outcomes = [v.outcome for v in verdicts if v.primary]
    if not outcomes:
        raise ValueError("a conclusion needs at least one primary part")
    supported, refuted = outcomes.count("supported"), outcomes.count("refuted")
    if supported == len(outcomes):
        return "reproduced"
    if supported:
        return "partly reproduced"
    return "not reproduced" if refuted else "undecided"


_BASES = {"2^": 2.0, "10^": 10.0}


class _Filled:
    """A verdict inside a finding: {key} is its estimate and interval, {key.estimate}, {key.low} one number.

    {key:10^} and {key:2^} raise 10 or 2 to them: a part that is judged by a logarithm is told as a factor.
    """

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def __format__(self, specification: str) -> str:
        value = self._verdict.estimate
        if specification in _BASES and value is not None:
            return self._powers(_BASES[specification])
        if specification and value is not None:
            return format(value, specification)
        return self._verdict.interval

    def _powers(self, base: float) -> str:
        found = self._verdict
        estimate, low, high = (math.nan if v is None else base**v for v in (found.estimate, found.low, found.high))
        return f"{estimate:.2g} [{number(low)}, {number(high)}]"

    def __getattr__(self, name: str) -> "str | _Number | _Nothing":
        value = getattr(self._verdict, name)
        return _Nothing() if value is None else _Number(value) if isinstance(value, float) else str(value)


class _Nothing:
    """What could not be measured, whatever format is asked for."""

    def __format__(self, specification: str) -> str:
        return "nothing measured"


class _Number(float):
    """A float that prints three digits unless a format says otherwise."""

    def __format__(self, specification: str) -> str:
        return super().__format__(specification) if specification else number(self)


def finding_of(finding: str, verdicts: Sequence[Verdict]) -> str:
    """The claim's finding, filled in; or, where no primary part could be judged, why."""
    reasons = dict.fromkeys(v.note for v in verdicts if v.primary)
    if any(v.outcome != "not testable here" for v in verdicts if v.primary):
        return filled(finding, verdicts)
    return f"Not judged: {'; '.join(reasons)}."


def filled(finding: str, verdicts: Sequence[Verdict]) -> str:
    """The finding's sentence with its numbers; an unknown key lists the known ones."""
    known = {v.key: _Filled(v) for v in verdicts}
    try:
        return finding.format_map(known)
    except (KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"finding {finding!r}: {error!r}; the parts are {', '.join(known)}") from error
