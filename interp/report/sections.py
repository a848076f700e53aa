"""What lies behind a conclusion? A claim's figures, its method in paragraphs, and where its rows came from."""

import base64
import io
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interp.core.claim import Claim
from interp.report.sources import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_SVG = 300_000
"""Bytes from which on a figure is embedded as PNG instead."""
PIXELS_PER_INCH, POINTS_PER_INCH = 96, 72
MOST_UNITS = 12
"""Seeds or problems that are listed by name."""
WIDE = 2.2
"""Width over height from which on a figure stands above the parts, not beside them."""


@dataclass(frozen=True)
class Picture:
    """A figure that stands in the page."""

    caption: str
    uri: str
    width: int
    height: int
    """In CSS pixels at its natural size."""

    @property
    def wide(self) -> bool:
        """Whether it needs the whole width of the page: it would be too small beside the parts."""
        return self.width > WIDE * self.height


def pictures(claim: Claim, run: Run) -> list[Picture]:
    """The figures of a claim: as they were published, or drawn from the rows of its run."""
    if run.figures:
        return [_stored(file) for file in run.figures]
    try:
        drawn = claim.figures(run.table)
    except LookupError as error:
        message = f"the figures of {claim.id} cannot be drawn from these rows: {type(error).__name__} {error}"
        raise ValueError(message) from error
    return [_drawn(name, figure) for name, figure in drawn.items()]


def _drawn(name: str, figure: "Figure") -> Picture:
    width, height = (round(float(inches) * PIXELS_PER_INCH) for inches in figure.get_size_inches())
    return Picture(_caption(name), figure_uri(figure), width, height)


def _stored(file: Path) -> Picture:
    """A published figure; the view box of an SVG of matplotlib is its size in points."""
    image, smaller = file.read_bytes(), file.with_suffix(".png")
    box = re.search(rb'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', image[:2000])
    if box is None:
        raise ValueError(f"{file} is not a figure of this suite; cotlens claims judge --write draws it again")
    width, height = (round(float(points) * PIXELS_PER_INCH / POINTS_PER_INCH) for points in box.groups())
    if len(image) > LARGEST_SVG and smaller.is_file():
        return Picture(_caption(file.stem), _uri(smaller.read_bytes(), "image/png"), width, height)
    return Picture(_caption(file.stem), _uri(image, "image/svg+xml"), width, height)


def _caption(name: str) -> str:
    return name.replace("_", " ")


def _uri(image: bytes, mime: str) -> str:
    return f"data:{mime};base64,{base64.b64encode(image).decode('ascii')}"


def figure_uri(figure: "Figure") -> str:
    """The figure as a data URI; the same figure gives the same bytes."""
    import matplotlib

    from interp.figures.style import styled

    with styled(), matplotlib.rc_context({"svg.hashsalt": "cotlens"}):
        image, mime = _saved(figure, "svg", {"Date": None, "Creator": None}), "image/svg+xml"
        if len(image) > LARGEST_SVG:
            image, mime = _saved(figure, "png", {"Software": None}), "image/png"
    return _uri(image, mime)


def _saved(figure: "Figure", kind: str, metadata: dict[str, None]) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, metadata=metadata)
    return stream.getvalue()


def paragraphs(text: str) -> list[str]:
    """The paragraphs of an indented text, each on one line."""
    return [" ".join(block.split()) for block in textwrap.dedent(text).strip().split("\n\n") if block.strip()]


def facts(run: Run) -> dict[str, str]:
    """Where the rows of a claim's run came from."""
    provenance = run.provenance
    packages = provenance.get("packages") or {}
    machine = provenance.get("processor") or provenance.get("machine", "?")
    declared = provenance.get("declaration") or {}
    seconds = provenance.get("seconds") or {}
    known: dict[str, Any] = {
        "preset": run.config.get("preset", "none"),
        "seeds": run.config.get("seeds", "none recorded"),
        "units": _units(provenance.get("units") or []),
        "protocol": declared.get("hash") or "none declared before the run",
        "declared in": declared.get("commit"),
        "commit": provenance.get("commit") or "not recorded",
        "python": f"{provenance.get('python', '?')} on {machine}",
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items() if version),
        "seconds": f"{sum(seconds.values()):,.0f} in {len(seconds)} items" if seconds else None,
        "rows": f"{len(run.table):,}",
    }
    rest = {k: v for k, v in run.config.items() if k not in ("claim", "preset", "seeds", "command")}
    return worded({name: value for name, value in {**known, **rest}.items() if value not in (None, "")})


def _units(units: Sequence[str]) -> str:
    return ", ".join(units) if len(units) <= MOST_UNITS else f"{len(units)}, from {units[0]} to {units[-1]}"


def worded(known: Mapping[str, Any]) -> dict[str, str]:
    """The values as text, whatever they are."""
    return {k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in known.items()}
