"""How does it all become one file? The page's parts, its data and Plotly, put together; nothing is loaded later."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from interp.core.claim import load_claims
from interp.report.board import Entry, board_html, entries
from interp.report.pack import escaped, script_json
from interp.report.pretrained import pretrained_data
from interp.report.sections import definitions, sections_html
from interp.report.sources import Run, read_runs
from interp.report.toy import toy_data
from probes.base.atomic import write_text

SCRIPTS = ("page.js", "plots.js", "pretrained.js", "tokens.js", "toy.js", "start.js")
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
    found = entries(load_claims(), runs)
    data = {"pretrained": pretrained_data(runs), "toy": toy_data(runs)}
    script = "(() => {\n'use strict';\n" + "\n".join(_part(name) for name in SCRIPTS) + "\n})();"
    plotly = _plotly() if any(data.values()) else ""
    return Template(_part("page.html")).substitute(
        policy=_policy(plotly, script),
        css=_part("page.css"),
        navigation=_navigation(found, data),
        summary=_summary(found, data),
        board=board_html(found),
        sections=sections_html(found),
        pretrained=_part("pretrained.html") if data["pretrained"] else "",
        toy=_part("toy.html") if data["toy"] else "",
        measurements=_measurements(runs),
        data=script_json(data),
        plotly=plotly,
        script=script,
    )


def _part(name: str) -> str:
    return resources.files("interp.report").joinpath("assets", name).read_text(encoding="utf-8")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    source = get_plotlyjs()
    if "</script" in source.lower() or "<!--" in source:
        raise ValueError("this plotly.js cannot be inlined in a page; install the plotly of constraints.txt")
    return source


def _policy(*scripts: str) -> str:
    """A content security policy: these scripts and no others, and nothing from anywhere else."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    sources = " ".join(f"'sha256-{digest}'" for digest in digests)
    rest = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {sources}; {rest}"


def _navigation(found: Sequence[Entry], data: dict[str, Any]) -> str:
    links = [("#board", "Verdicts"), ("#claims", "Claims")]
    links += [("#pretrained", "Pretrained explorer")] if data["pretrained"] else []
    links += [("#toy", "Toy explorer")] if data["toy"] else []
    return "".join(f'<a href="{target}">{text}</a>' for target, text in links)


def _summary(found: Sequence[Entry], data: dict[str, Any]) -> str:
    papers = len({entry.claim.id.split("/")[0] for entry in found})
    tests = sum(len(entry.judgement.verdicts) for entry in found if entry.judgement)
    judged = len({entry.claim.id for entry in found if entry.judgement})
    claims = len({entry.claim.id for entry in found})
    parts = [f"{tests} tests of {judged} out of {claims} claims from {_count(papers, 'paper')}"]
    models = len(data["pretrained"])
    parts += [f"{_count(models, 'measurement')} of pretrained models"] if models else []
    parts += [f"{_count(len(data['toy']), 'toy run')} trained"] if data["toy"] else []
    return escaped("; ".join(parts) + ".")


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _measurements(runs: Sequence[Run]) -> str:
    """What is known about the runs that belong to no claim."""
    parts = []
    for run in runs:
        if not run.judgements and (run.config or run.provenance):
            facts = {**run.config, **run.provenance, "rows": f"{len(run.table):,}"}
            summary = f"<summary>Provenance of {escaped(run.name)}</summary>"
            parts.append(f'<details class="provenance">{summary}{definitions(facts)}</details>')
    return "".join(parts)
