"""What holds, at a glance? A card for every claim, with the outcomes of its tests, by paper.

`card` decides what is known about a claim and `assets/claim.html` how it is shown: something new to say about a
claim is a field of `ClaimCard`, filled in there, and a line in the template.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from interp.core.claim import Claim, citation
from interp.core.reproduce import command
from interp.core.verdict import Verdict
from interp.report.forest import Forest, forest
from interp.report.sections import Picture, facts, paragraphs, pictures
from interp.report.sources import Judgement, Run

MARKS = {"supported": "✓", "refuted": "✗", "inconclusive": "?", "not run": "–"}
"""Outcomes are told by mark and word, never by colour alone; in this order."""


@dataclass(frozen=True)
class TestLine:
    """One test of a claim."""

    __test__ = False  # no test of ours, whatever pytest thinks of its name
    verdict: Verdict
    forest: Forest


@dataclass(frozen=True)
class ClaimCard:
    """What the page says about one claim: judged by one run, or not run."""

    id: str
    anchor: str
    """Where links to the claim arrive."""
    sentence: str
    command: str
    """What to type to get the rows."""
    test: Sequence[str]
    """The declared test, in paragraphs."""
    deviations: Sequence[str]
    preset: str = ""
    run: str = ""
    """Name of the run's directory; empty where the claim was not run."""
    lines: Sequence[TestLine] = ()
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
    def outcomes(self) -> dict[str, int]:
        """How many tests ended how; a claim that was not run counts as one."""
        return counted([line.verdict.outcome for line in self.lines] if self.run else ["not run"])

    @property
    def notes(self) -> list[tuple[str, str]]:
        """Test and remark, of the tests with a remark."""
        return [(line.verdict.part, line.verdict.note) for line in self.lines if line.verdict.note]


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
        """How many tests, over all claims that were run, ended how."""
        return summed(self.ran)


def cards(claims: Mapping[str, Claim], runs: Sequence[Run]) -> list[ClaimCard]:
    """Every registered claim by id, once for each run of it, or once as not run."""
    found = []
    for name in sorted(claims):
        judged = [(run, judgement) for run in runs for judgement in run.judgements if judgement.claim.id == name]
        for copy, (run, judgement) in enumerate(judged, start=1):
            found.append(card(claims[name], copy, run, judgement))
        if not judged:
            found.append(card(claims[name]))
    return found


def card(claim: Claim, copy: int = 1, run: Run | None = None, judgement: Judgement | None = None) -> ClaimCard:
    """What is known about `claim` from the run that it was judged by, the `copy`-th of this claim."""
    not_run = ClaimCard(
        id=claim.id,
        anchor="claim-" + claim.id.replace("/", "-") + (f":{copy}" if copy > 1 else ""),
        sentence=claim.sentence,
        command=command("claims", "run", claim.id),
        test=paragraphs(claim.test),
        deviations=paragraphs(claim.deviations),
    )
    if run is None or judgement is None:
        return not_run
    return replace(
        not_run,
        command=judgement.command,
        preset=judgement.preset,
        run=run.name,
        lines=[TestLine(verdict, forest(verdict)) for verdict in judgement.verdicts],
        pictures=pictures(judgement),
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


def counted(outcomes: Iterable[str]) -> dict[str, int]:
    """How often each outcome that occurs does, in the order of `MARKS`."""
    counts = Counter(outcomes)
    return {outcome: counts[outcome] for outcome in MARKS if counts[outcome]}


def summed(found: Iterable[ClaimCard]) -> dict[str, int]:
    """The outcomes of all cards together."""
    return counted(outcome for one in found for outcome, n in one.outcomes.items() for _ in range(n))
