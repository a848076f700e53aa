"""What holds, at a glance? A card for every claim, with its conclusion and its parts, by paper.

`card` decides what is known about a claim and `assets/claim.html` how it is shown: something new to say about a
claim is a field of `ClaimCard`, filled in there, and a line in the template.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from interp.core.claim import Claim, citation
from interp.core.parts import Role
from interp.core.reproduce import command
from interp.core.severity import Severity
from interp.core.verdict import Verdict
from interp.report.errors import Errors, errors
from interp.report.forest import Forest, forest, percent
from interp.report.pack import number
from interp.report.sections import Picture, facts, paragraphs, pictures
from interp.report.size import OF_PUBLISHED, is_published_size, published_size
from interp.report.sources import Run

MARKS = {"reproduced": "✓", "partly reproduced": "◐", "not reproduced": "✗", "undecided": "?", "not run": "–"}
"""Conclusions are told by mark and word, never by colour alone; in this order."""
PART_MARKS = {"supported": "✓", "refuted": "✗", "inconclusive": "?", "not testable here": "∅"}
ROLES: tuple[Role, ...] = ("paper", "precondition", "control", "ours")
"""In the order in which parts are shown, after the primary ones."""
MOST_LINES = 6
"""Parts that stand on a claim's first screen; where there are more, those that are not primary fold."""


@dataclass(frozen=True)
class PartLine:
    """One part of a claim, decided."""

    verdict: Verdict
    forest: Forest | None
    errors: Errors | None

    @property
    def level(self) -> str:
        """The real level of the interval: "97.5%"; empty where there is none."""
        return "" if self.verdict.level is None else percent(self.verdict.level)

    @property
    def difference(self) -> str:
        """Estimate minus threshold, with its interval; empty where nothing was estimated."""
        v = self.verdict
        if v.estimate is None or v.low is None or v.high is None:
            return ""
        middle, low, high = (_signed(x - v.threshold) for x in (v.estimate, v.low, v.high))
        return f"{middle} [{low}, {high}]"


@dataclass(frozen=True)
class ClaimCard:
    """What the page says about one claim: judged by one run, or not run."""

    id: str
    anchor: str
    """Where links to the claim arrive."""
    sentence: str
    command: str
    """What to type to get the rows."""
    method: Sequence[str]
    """How it is measured, in paragraphs."""
    deviations: Sequence[str]
    clarity: Sequence[str]
    history: Sequence[str]
    conclusion: str = "not run"
    status: str = ""
    """confirmatory or exploratory; empty where the claim was not run."""
    scale: str = ""
    finding: str = ""
    short: str = ""
    """What the sentence says and no primary part decides, of a claim that counts as reproduced."""
    run: str = ""
    """What the run is called; empty where the claim was not run."""
    lines: Sequence[PartLine] = ()
    errors: Errors | None = None
    """Of the primary parts together."""
    errors_elsewhere: str = ""
    """Of a run of another size than the judge was simulated at: what is known, and that it is not of this run."""
    pictures: Sequence[Picture] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """Where the rows came from."""

    @property
    def paper(self) -> str:
        """The paper's part of the id: wen2024."""
        return self.id.split("/")[0]

    @property
    def name(self) -> str:
        """The claim's part of the id: fig2."""
        return self.id.split("/", 1)[1]

    @property
    def layout(self) -> str:
        """Where the first figure stands: above the parts if it is wide, else beside them."""
        return "beside" if self.pictures and not self.pictures[0].wide else "above"

    @property
    def first_lines(self) -> Sequence[PartLine]:
        """The parts on the first screen, the primary ones on top: all, or the primary ones and some more."""
        return self._ranked()[: max(MOST_LINES, sum(line.verdict.primary for line in self.lines))]

    @property
    def other_lines(self) -> Sequence[PartLine]:
        """The parts that fold."""
        return self._ranked()[len(self.first_lines) :]

    @property
    def notes(self) -> list[tuple[str, str]]:
        """Part and remark, of the parts with an estimate and a remark; why there is none stands in its place."""
        return [(v.name, v.note) for v in (line.verdict for line in self.lines) if v.note and v.estimate is not None]

    def _ranked(self) -> list[PartLine]:
        return sorted(self.lines, key=lambda line: (not line.verdict.primary, ROLES.index(line.verdict.role)))


@dataclass(frozen=True)
class PaperCard:
    """The claims of one paper."""

    name: str
    title: str
    """Authors, year and title, where the paper's package tells them."""
    ran: Sequence[ClaimCard]
    not_run: Sequence[ClaimCard]

    @property
    def anchor(self) -> str:
        """Where links to the paper arrive."""
        return f"paper-{self.name}"

    @property
    def outcomes(self) -> dict[str, int]:
        """How many of the claims that were run ended how."""
        return counted(one.conclusion for one in self.ran)

    @property
    def line(self) -> str:
        """The count in words."""
        return counts_line(self.ran, self.not_run)


def cards(
    claims: Mapping[str, Claim], runs: Sequence[Run], severity: Mapping[str, Sequence[Severity]]
) -> list[ClaimCard]:
    """Every registered claim by id, once for each run of it, or once as not run."""
    found = []
    for name in sorted(claims):
        judged = [run for run in runs if run.judged is not None and run.judged.claim.id == name]
        for copy, run in enumerate(judged, start=1):
            found.append(card(claims[name], copy, run, severity.get(name, ())))
        if not judged:
            found.append(card(claims[name]))
    return found


def card(claim: Claim, copy: int = 1, run: Run | None = None, severity: Sequence[Severity] = ()) -> ClaimCard:
    """What is known about `claim` from a run of it, the `copy`-th on this page."""
    not_run = ClaimCard(
        id=claim.id,
        anchor="claim-" + claim.id.replace("/", "-") + (f":{copy}" if copy > 1 else ""),
        sentence=claim.sentence,
        command=command("claims", "run", claim.id),
        method=paragraphs(claim.method),
        deviations=paragraphs(claim.deviations),
        clarity=paragraphs(claim.clarity),
        history=paragraphs(claim.history),
    )
    if run is None or run.judged is None:
        return not_run
    record = run.judged.record
    verdicts = record.judgement.verdicts
    same_size = is_published_size(claim, record.preset, run.config)
    short = claim.shortfall(record.judgement.conclusion)
    overall = errors(severity, [v.key for v in verdicts if v.primary])
    return replace(
        not_run,
        command=record.command,
        conclusion=record.judgement.conclusion,
        status=record.status,
        scale=record.scale,
        finding=record.judgement.finding,
        short=short if same_size or not short else OF_PUBLISHED + short,
        run=run.name,
        lines=[PartLine(v, forest(v), errors(severity, [v.key]) if same_size else None) for v in verdicts],
        errors=overall if same_size else None,
        errors_elsewhere="" if same_size or overall is None else overall.elsewhere(published_size(claim)),
        pictures=pictures(claim, run),
        facts=facts(run),
    )


def papers(found: Sequence[ClaimCard]) -> list[PaperCard]:
    """The cards by paper, those of which something was run first."""
    by_paper: dict[str, list[ClaimCard]] = {}
    for one in found:
        by_paper.setdefault(one.paper, []).append(one)
    listed = [
        PaperCard(name, citation(name), [c for c in of if c.run], [c for c in of if not c.run])
        for name, of in by_paper.items()
    ]
    return sorted(listed, key=lambda paper: not paper.ran)


def counted(conclusions: Iterable[str]) -> dict[str, int]:
    """How often each conclusion that occurs does, in the order of `MARKS`."""
    counts = Counter(conclusions)
    return {conclusion: counts[conclusion] for conclusion in MARKS if counts[conclusion]}


def counts_line(ran: Sequence[ClaimCard], not_run: Sequence[ClaimCard]) -> str:
    """How claims ended, in one line: "7 claims: 2 reproduced, 5 undecided; 3 confirmatory. 1 more not run."."""
    more = f"{len(not_run)} not run."
    if not ran:
        return more
    ended = ", ".join(f"{n} {conclusion}" for conclusion, n in counted(one.conclusion for one in ran).items())
    sure = sum(one.status == "confirmatory" for one in ran)
    status = "all" if sure == len(ran) else sure or "none"
    claims = "1 claim" if len(ran) == 1 else f"{len(ran)} claims"
    return f"{claims}: {ended}; {status} confirmatory." + (f" {more}" if not_run else "")


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + number(value)
