"""What holds, at a glance? The verdict board and its small forest plots, as HTML."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from interp.core.claim import Claim
from interp.core.verdict import Verdict
from interp.report.pack import escaped, number
from interp.report.sources import Judgement, Run

MARKS = {"supported": "✓", "refuted": "✗", "inconclusive": "?", "not run": "–"}
WIDTH, HEIGHT, MARGIN = 220, 30, 12


@dataclass(frozen=True)
class Entry:
    """A claim on the board, with the run that it was judged by, if any."""

    claim: Claim
    anchor: str
    run: Run | None = None
    judgement: Judgement | None = None


def entries(claims: Mapping[str, Claim], runs: Sequence[Run]) -> list[Entry]:
    """Every registered claim, once for each run of it, or once as not run; what was run first, then by id."""
    found, ran = [], {judgement.claim.id for run in runs for judgement in run.judgements}
    for name in sorted(claims, key=lambda name: (name not in ran, name)):
        judged = [(run, j) for run in runs for j in run.judgements if j.claim.id == name]
        anchor = "claim-" + name.replace("/", "-")
        for copy, (run, judgement) in enumerate(judged or [(None, None)], start=1):
            found.append(Entry(claims[name], anchor if copy == 1 else f"{anchor}:{copy}", run, judgement))
    return found


def board_html(found: Sequence[Entry]) -> str:
    """The filters and the table."""
    outcomes = [outcome for entry in found for outcome in _outcomes(entry)]
    papers = sorted({_paper(entry) for entry in found})
    buttons = [_button("all", f"All {len(outcomes)}", pressed=True)]
    for outcome, mark in MARKS.items():
        if outcome in outcomes:
            label = f'<span aria-hidden="true">{mark}</span> {outcome.capitalize()} {outcomes.count(outcome)}'
            buttons.append(_button(outcome, label, pressed=False))
    options = "".join(f"<option>{escaped(paper)}</option>" for paper in papers)
    return (
        '<div class="controls" id="board-filters">'
        f'<div class="chips" role="group" aria-label="Filter by verdict">{"".join(buttons)}</div>'
        '<label>Paper <select id="paper-filter"><option value="all">all papers</option>'
        f"{options}</select></label>"
        '<p class="quiet" id="board-count" role="status"></p></div>'
        '<table class="board"><caption class="unseen">Verdicts on the claims of every paper</caption>'
        '<thead><tr><th scope="col">Test</th><th scope="col">Verdict</th>'
        '<th scope="col">Estimate and interval</th><th scope="col">Claimed</th><th scope="col">n</th></tr></thead>'
        f"{''.join(map(_group, found))}</table>{_KEY}"
    )


_KEY = (
    '<p class="quiet key">Diamond: estimate; bar: confidence interval (an arrow goes on to infinity); dashed line: '
    "the threshold declared beforehand; shaded: the side the claim says the quantity is on. Each plot has its own "
    "scale. A test is supported or refuted only if its whole interval is on one side.</p>"
)


def badge(outcome: str) -> str:
    """The verdict as a mark and a word: never by colour alone."""
    style = outcome.replace(" ", "-")
    return f'<span class="badge {style}"><span aria-hidden="true">{MARKS[outcome]}</span> {outcome}</span>'


def verdict_rows(verdicts: Iterable[Verdict], notes: bool = False) -> str:
    """A table row for each test, with its note if asked for."""
    return "".join(_row(verdict, verdict.note if notes else "") for verdict in verdicts)


def forest(v: Verdict) -> str:
    """Estimate, interval and threshold of one test on a scale of their own, as SVG."""
    finite = [x for x in (v.estimate, v.low, v.high, v.threshold) if math.isfinite(x)]
    low, high = min(finite), max(finite)
    spread = (high - low) or abs(high) or 1.0
    low, high = low - 0.12 * spread, high + 0.12 * spread

    def place(x: float) -> float:
        inside = min(max(x, low), high)
        return round(MARGIN + (inside - low) / (high - low) * (WIDTH - 2 * MARGIN), 1)

    middle = HEIGHT / 2
    threshold, left, right, centre = place(v.threshold), place(v.low), place(v.high), place(v.estimate)
    x, width = (threshold, round(WIDTH - threshold, 1)) if v.direction == "above" else (0, threshold)
    ends = [_end(left, middle, v.low), _end(right, middle, v.high)]
    label = f"estimate {number(v.estimate)}, interval {number(v.low)} to {number(v.high)}, {_claimed(v)}"
    diamond = f"M{centre - 5} {middle}L{centre} {middle - 5}L{centre + 5} {middle}L{centre} {middle + 5}Z"
    point = f'<path class="estimate" d="{diamond}"/>' if math.isfinite(v.estimate) else ""
    return (
        f'<svg class="forest" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escaped(label)}">'
        f'<rect class="claimed" x="{x}" y="0" width="{width}" height="{HEIGHT}"/>'
        f'<line class="threshold" x1="{threshold}" x2="{threshold}" y1="0" y2="{HEIGHT}"/>'
        f'<line class="interval" x1="{left}" x2="{right}" y1="{middle}" y2="{middle}"/>{"".join(ends)}'
        f"{point}</svg>"
    )


def _end(x: float, y: float, end: float) -> str:
    """A bar where the interval ends, an arrow where it does not."""
    if math.isinf(end):
        tail = x - math.copysign(5, end)
        return f'<path class="interval" d="M{tail} {y - 5}L{x} {y}L{tail} {y + 5}"/>'
    return f'<line class="interval" x1="{x}" x2="{x}" y1="{y - 5}" y2="{y + 5}"/>'


def _group(entry: Entry) -> str:
    judgement = entry.judgement
    preset = f'<span class="preset">{escaped(judgement.preset)}</span>' if judgement else ""
    body = verdict_rows(judgement.verdicts) if judgement else _NOT_RUN
    return (
        f'<tbody data-paper="{escaped(_paper(entry))}"><tr class="claim"><th scope="rowgroup" colspan="5">'
        f'<a href="#{entry.anchor}">{escaped(entry.claim.id)}</a>{preset}'
        f'<span class="sentence">{escaped(entry.claim.sentence)}</span></th></tr>{body}</tbody>'
    )


_NOT_RUN = (
    f'<tr class="test" data-outcome="not run"><td class="part"></td><td colspan="4">{badge("not run")}</td></tr>'
)


def _row(v: Verdict, note: str) -> str:
    about = "".join(f'<span class="quiet">{escaped(text)}</span>' for text in (v.quantity, note) if text)
    interval = f"{number(v.estimate)} <span>[{number(v.low)}, {number(v.high)}]</span>"
    return (
        f'<tr class="test" data-outcome="{v.outcome}">'
        f'<td class="part">{escaped(v.part)}{about}</td>'
        f'<td class="verdict">{badge(v.outcome)}</td>'
        f'<td class="estimate">{forest(v)}<span class="numbers">{interval}</span></td>'
        f'<td data-label="claimed">{_claimed(v, short=True)}</td><td data-label="n">{v.n} {escaped(v.unit)}</td></tr>'
    )


def _claimed(v: Verdict, short: bool = False) -> str:
    if short:
        return f"{'&gt;' if v.direction == 'above' else '&lt;'}&nbsp;{number(v.threshold)}"
    return f"claimed to be {v.direction} {number(v.threshold)}"


def _outcomes(entry: Entry) -> list[str]:
    return [v.outcome for v in entry.judgement.verdicts] if entry.judgement else ["not run"]


def _paper(entry: Entry) -> str:
    return entry.claim.id.split("/")[0]


def _button(value: str, label: str, pressed: bool) -> str:
    return f'<button type="button" data-verdict="{value}" aria-pressed="{str(pressed).lower()}">{label}</button>'
