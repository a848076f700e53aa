"""What lies behind a verdict? A claim's figures, its declared test in paragraphs, and where its rows came from."""

import base64
import io
import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interp.report.sources import Judgement, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_SVG = 300_000
"""Bytes from which on a figure is embedded as PNG instead."""


@dataclass(frozen=True)
class Picture:
    """A figure that stands in the page."""

    caption: str
    uri: str


def pictures(judgement: Judgement) -> list[Picture]:
    """The figures of a claim, drawn from its rows."""
    claim = judgement.claim
    try:
        drawn = claim.figures(judgement.table)
    except LookupError as error:
        message = f"the figures of {claim.id} cannot be drawn from these rows: {type(error).__name__} {error}"
        raise ValueError(message) from error
    return [Picture(name.replace("_", " "), figure_uri(figure)) for name, figure in drawn.items()]


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


def paragraphs(text: str) -> list[str]:
    """The paragraphs of an indented text, each on one line."""
    return [" ".join(block.split()) for block in textwrap.dedent(text).strip().split("\n\n")]


def facts(run: Run) -> dict[str, str]:
    """Where the rows of a claim's run came from."""
    packages = run.provenance.get("packages") or {}
    known: dict[str, Any] = {
        "preset": run.config.get("preset", "none"),
        "seeds": run.config.get("seeds", "none recorded"),
        "commit": run.provenance.get("commit") or "not recorded",
        "python": f"{run.provenance.get('python', '?')} on {run.provenance.get('machine', '?')}",
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items() if version),
        "rows": f"{len(run.table):,}",
    }
    rest = {k: v for k, v in run.config.items() if k not in ("claim", "preset", "seeds", "command")}
    return worded({**known, **rest})


def worded(known: Mapping[str, Any]) -> dict[str, str]:
    """The values as text, whatever they are."""
    return {k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in known.items()}
