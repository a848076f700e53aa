"""How does it all become one file? The page's parts, its data and Plotly, put together; nothing is loaded later."""

import base64
import gzip
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from interp.core.claim import load_claims
from interp.core.protocol import RESULTS
from interp.core.runs import check_file
from interp.report.board import MARKS, PART_MARKS, ClaimCard, cards, counted, counts_line, papers
from interp.report.pack import script_json
from interp.report.pretrained import pretrained_data
from interp.report.sections import worded
from interp.report.sources import Run, measured_again, read_runs, read_severity
from interp.report.templates import asset, rendered
from interp.report.toy import toy_data
from interp.report.traces import trace_data
from probes.base.atomic import write_text

SCRIPTS = (
    "page.js", "claims.js", "plots.js", "pretrained.js", "tokens.js", "closing.js", "toy.js", "trace_parts.js",
    "traces.js", "start.js",
)  # fmt: skip
"""In this order, in one function: later ones use the names of earlier ones."""


def write_report(directories: Sequence[Path], out: Path, results: Path = RESULTS) -> int:
    """Builds the report of `directories` and writes it to `out`; returns its size in bytes.

    The error rates of the judges are those in a severity.json of `directories`, or of `results`.
    """
    check_file(out, ".html", "--out")
    page = build(directories, results)
    write_text(out, page)
    return len(page.encode())


def build(directories: Sequence[Path], results: Path = RESULTS) -> str:
    """The report of the runs in `directories`; the same rows give the same text."""
    runs = read_runs(directories)
    severity = read_severity([*directories, results])
    found = cards(load_claims(), runs, severity)
    data = {"pretrained": pretrained_data(runs), "toy": toy_data(runs), "traces": trace_data(runs)}
    script = wrapped(SCRIPTS)
    plotly = _plotly() if data["pretrained"] or data["toy"] else ""
    return rendered(
        "page.html",
        title="CoTLens report",
        policy=policy(plotly, script),
        css=Markup(asset("page.css") + asset("traces.css")),
        dark=Markup(asset("dark.css")),
        summary=_summary(found, data),
        papers=papers(found),
        outcomes=counted(card.conclusion for card in found),
        marks=MARKS | PART_MARKS,
        has_pretrained=bool(data["pretrained"]),
        has_toy=bool(data["toy"]),
        has_traces=bool(data["traces"]),
        measurements=_measurements(runs),
        board_first=any(card.run for card in found) or not any(data.values()),
        data=Markup(script_json(data)),
        plotly=_compressed(plotly),
        script=Markup(script),
    )


def wrapped(names: Sequence[str]) -> str:
    """The scripts of a page in one function: nothing of them is seen outside."""
    return "(() => {\n'use strict';\n" + "\n".join(map(asset, names)) + "\n})();"


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _compressed(text: str) -> str:
    """`text` as base64 of gzip: Plotly in two fifths of its size, and nothing that could end a script element."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii") if text else ""


def policy(*scripts: str) -> str:
    """A content security policy: these scripts and no others, and nothing from anywhere else."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    sources = " ".join(f"'sha256-{digest}'" for digest in digests)
    rest = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {sources}; {rest}"


def _summary(found: Sequence[ClaimCard], data: dict[str, Any]) -> str:
    parts = [counts_line([card for card in found if card.run], [card for card in found if not card.run])]
    explored = (
        [_count(len(data["pretrained"]), "measurement") + " of pretrained models"] if data["pretrained"] else []
    )
    explored += [_count(len(data["toy"]), "toy run") + " to explore"] if data["toy"] else []
    explored += [_count(len(data["traces"]), "run") + " of traces to read"] if data["traces"] else []
    return " ".join([*parts, *([", ".join(explored) + "."] if explored else [])])


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _measurements(runs: Sequence[Run]) -> list[tuple[str, str, dict[str, str]]]:
    """The runs that belong to no claim: name, what to type to make it again, and what is known about it."""
    return [
        (
            run.name,
            measured_again(run.config),
            worded({**run.config, **run.provenance, "rows": f"{len(run.table):,}"}),
        )
        for run in runs
        if run.judged is None and (run.config or run.provenance)
    ]
