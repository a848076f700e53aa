"""cotlens report: one self-contained HTML page from the rows of runs, and from published results."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from interp.cli import parse


@dataclass(frozen=True)
class Report:
    """Draw the runs in one HTML file that needs neither a model nor a network: conclusions, figures, explorers."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN_DIR...")]
    """Run directories, directories of run directories, or published results such as results/."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.html")] = None
    """The file to write; report.html in the first directory if not given, or here if that holds published results."""


def main(arguments: Sequence[str]) -> None:
    """Builds the page and says where it is."""
    options = parse(Report, arguments, "report")
    if not options.runs:
        raise ValueError("name at least one run directory, such as runs/claims or demo, or results")
    from interp.report import write_report

    first = options.runs[0]
    published = next(first.glob("**/judgement.json"), None)  # what is published is committed: no page goes in there
    out = options.out or (Path("report.html") if published else first / "report.html")
    size = write_report(options.runs, out)
    print(f"the report is {out} ({size / 1e6:.1f} MB); open it in a browser")
