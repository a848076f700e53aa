"""How does it all become one file? The page's parts, its data and Plotly, put together; nothing is loaded later."""

import base64
import gzip
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from interp.core.claim import load_claims
from interp.report.board import MARKS, ClaimCard, cards, papers, summed
from interp.report.pack import script_json
from interp.report.pretrained import pretrained_data
from interp.report.sections import worded
from interp.report.sources import Run, read_runs
from interp.report.templates import asset, rendered
from interp.report.toy import toy_data
from probes.base.atomic import write_text

SCRIPTS = ("page.js", "claims.js", "plots.js", "pretrained.js", "tokens.js", "toy.js", "start.js")
"""In this order, in one function: later ones use the names of earlier ones."""


def write_report(directories: Sequence[Path], out: Path) -> int:
    """Builds the report of `directories` and writes it to `out`; returns its size in bytes."""
    if out.is_dir():
        raise ValueError(f"{out} is a directory; --out needs a file name such as {out / 'report.html'}")
    page = build(directories)
    write_text(out, page)
    return len(page.encode())


def build(directories: Sequence[Path]) -> str:
    """The report of the runs in `directories`; the same rows give the same text."""
    runs = read_runs(directories)
    found = cards(load_claims(), runs)
    data = {"pretrained": pretrained_data(runs), "toy": toy_data(runs)}
    script = "(() => {\n'use strict';\n" + "\n".join(map(asset, SCRIPTS)) + "\n})();"
    plotly = _plotly() if any(data.values()) else ""
    return rendered(
        "page.html",
        policy=_policy(plotly, script),
        css=Markup(asset("page.css")),
        dark=Markup(asset("dark.css")),
        summary=_summary(found, data),
        papers=papers(found),
        outcomes=summed(found),
        marks=MARKS,
        has_pretrained=bool(data["pretrained"]),
        has_toy=bool(data["toy"]),
        measurements=_measurements(runs),
        data=Markup(script_json(data)),
        plotly=_compressed(plotly),
        script=Markup(script),
    )


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _compressed(text: str) -> str:
    """`text` as base64 of gzip: Plotly in two fifths of its size, and nothing that could end a script element."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii") if text else ""


def _policy(*scripts: str) -> str:
    """A content security policy: these scripts and no others, and nothing from anywhere else."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    sources = " ".join(f"'sha256-{digest}'" for digest in digests)
    rest = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {sources}; {rest}"


def _summary(found: Sequence[ClaimCard], data: dict[str, Any]) -> str:
    tests = sum(len(card.lines) for card in found)
    judged = len({card.id for card in found if card.run})
    claims = len({card.id for card in found})
    parts = [f"{tests} tests of {judged} out of {claims} claims from {_count(len(papers(found)), 'paper')}"]
    models = len(data["pretrained"])
    parts += [f"{_count(models, 'measurement')} of pretrained models"] if models else []
    parts += [f"{_count(len(data['toy']), 'toy run')} trained"] if data["toy"] else []
    return "; ".join(parts) + "."


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _measurements(runs: Sequence[Run]) -> list[tuple[str, dict[str, str]]]:
    """Names of the runs that belong to no claim, and what is known about them."""
    return [
        (run.name, worded({**run.config, **run.provenance, "rows": f"{len(run.table):,}"}))
        for run in runs
        if not run.judgements and (run.config or run.provenance)
    ]
