"""What lies behind a verdict? For each claim: its figures, its test, what was scaled down, where it came from."""

import base64
import io
import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interp.core.reproduce import command
from interp.report.board import Entry, badge, verdict_rows
from interp.report.pack import escaped
from interp.report.sources import Judgement, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_SVG = 300_000
"""Bytes from which on a figure is embedded as PNG instead."""


def sections_html(found: Sequence[Entry]) -> str:
    """A section for every claim on the board."""
    return "".join(_section(entry) for entry in found)


def _section(entry: Entry) -> str:
    claim, judgement = entry.claim, entry.judgement
    outcomes = list(dict.fromkeys(v.outcome for v in judgement.verdicts)) if judgement else ["not run"]
    parts = [
        f'<section class="claim-section" id="{entry.anchor}" aria-labelledby="{entry.anchor}-title">',
        f'<h3 id="{entry.anchor}-title">{escaped(claim.id)} {" ".join(map(badge, outcomes))}</h3>',
        f"<blockquote>{escaped(claim.sentence)}</blockquote>",
    ]
    if judgement is not None:
        parts.append(
            f'<table class="board"><caption class="unseen">Tests of {escaped(claim.id)}</caption>'
            f"<tbody>{verdict_rows(judgement.verdicts, notes=True)}</tbody></table>"
        )
        parts.append(f'<div class="figures">{_figures(judgement)}</div>')
    again = judgement.command if judgement else command("claims", "run", claim.id)
    parts += [
        '<div class="words">',
        f"<div><h4>Test, declared before the data</h4>{_paragraphs(claim.test)}</div>",
        f"<div><h4>What was scaled down</h4>{_paragraphs(claim.deviations)}</div>",
        f"</div><h4>To reproduce</h4><pre><code>{escaped(again)}</code></pre>",
        _provenance(entry.run) if entry.run else "",
        '<p class="back"><a href="#board">Back to the board</a></p></section>',
    ]
    return "".join(parts)


def _figures(judgement: Judgement) -> str:
    claim = judgement.claim
    try:
        drawn = claim.figures(judgement.table)
    except LookupError as error:
        message = f"the figures of {claim.id} cannot be drawn from these rows: {type(error).__name__} {error}"
        raise ValueError(message) from error
    return "".join(_figure(name, figure, claim.id) for name, figure in drawn.items())


def _figure(name: str, figure: "Figure", claim_id: str) -> str:
    caption = name.replace("_", " ")
    image = f'<img src="{figure_uri(figure)}" alt="{escaped(f"Figure of {claim_id}: {caption}")}" decoding="async">'
    return f"<figure>{image}<figcaption>{escaped(caption)}</figcaption></figure>"


def figure_uri(figure: "Figure") -> str:
    """The figure as a data URI; the same figure gives the same bytes."""
    import matplotlib

    from interp.figures.style import styled

    with styled(), matplotlib.rc_context({"svg.hashsalt": "cotlens"}):
        image, mime = _saved(figure, "svg", {"Date": None, "Creator": None}), "image/svg+xml"
        if len(image) > LARGEST_SVG:
            image, mime = _saved(figure, "png", {"Software": None}), "image/png"
    return f"data:{mime};base64,{base64.b64encode(image).decode('ascii')}"


def _saved(figure: "Figure", kind: str, metadata: dict[str, None]) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, metadata=metadata)
    return stream.getvalue()


def _paragraphs(text: str) -> str:
    blocks = textwrap.dedent(text).strip().split("\n\n")
    return "".join(f"<p>{escaped(' '.join(block.split()))}</p>" for block in blocks)


def _provenance(run: Run) -> str:
    packages = run.provenance.get("packages") or {}
    facts: dict[str, Any] = {
        "preset": run.config.get("preset", "none"),
        "seeds": run.config.get("seeds", "none recorded"),
        "commit": run.provenance.get("commit") or "not recorded",
        "python": f"{run.provenance.get('python', '?')} on {run.provenance.get('machine', '?')}",
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items() if version),
        "rows": f"{len(run.table):,}",
    }
    rest = {k: v for k, v in run.config.items() if k not in ("claim", "preset", "seeds", "command")}
    return f'<details class="provenance"><summary>Provenance</summary>{definitions({**facts, **rest})}</details>'


def definitions(facts: Mapping[str, Any]) -> str:
    """Names and values as a definition list."""
    pairs = ((k, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for k, v in facts.items())
    return "<dl>" + "".join(f"<dt>{escaped(k)}</dt><dd>{escaped(v)}</dd>" for k, v in pairs) + "</dl>"
