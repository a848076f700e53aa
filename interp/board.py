"""What holds? The verdict board: committed verdicts as a Markdown table."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interp.claim import load_claims
from interp.verdict import Verdict, read_verdicts

START, END = "<!-- board: cotlens claims board --readme README.md -->", "<!-- end of board -->"
MARKS = {"supported": "✅ supported", "refuted": "❌ refuted", "inconclusive": "❔ inconclusive"}


def board(runs: Sequence[dict[str, Any]]) -> str:
    """A Markdown table of the verdicts in `runs`, and the commands that made them."""
    lines = [
        "| claim | test | verdict | estimate [95% interval] | claimed | n |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        for v in run["verdicts"]:
            cells = (
                f"`{v.claim}`",
                f"{v.part}: {v.quantity}",
                MARKS[v.outcome],
                _interval(v),
                _claimed(v),
                _n(v),
            )
            lines.append("| " + " | ".join(_escaped(cell) for cell in cells) + " |")
    commands = dict.fromkeys(f"`{run['command']}`" for run in runs)
    sentences = {name: claim.sentence for name, claim in load_claims().items()}
    quoted = [f"- `{run['claim']}`: “{sentences[run['claim']]}”" for run in runs if run["claim"] in sentences]
    return "\n".join([*lines, "", *dict.fromkeys(quoted), "", "Made by " + ", ".join(commands) + "."])


def with_board(text: str, table: str) -> str:
    """`text` with `table` between the board markers."""
    if text.count(START) != 1 or text.count(END) != 1 or text.index(START) > text.index(END):
        raise ValueError(f"the file needs the lines {START!r} and {END!r}, once each and in this order")
    before, rest = text.split(START)
    _, after = rest.split(END)
    return f"{before}{START}\n{table}\n{END}{after}"


def stored(path: Path) -> list[dict[str, Any]]:
    """The runs in a verdicts.json as plain JSON, none if there is no such file; refuses any other file."""
    if not path.exists():
        return []
    read_verdicts(path)
    return json.loads(path.read_text(encoding="utf-8"))


def entered(earlier: list[dict[str, Any]], directories: Sequence[Path]) -> list[dict[str, Any]]:
    """The runs of `earlier` with those in `directories` put in place of the same claims, sorted by claim."""
    runs = {run["claim"]: run for run in earlier}
    for directory in directories:
        for run in json.loads((directory / "verdicts.json").read_text(encoding="utf-8")):
            runs[run["claim"]] = run
    return [runs[claim] for claim in sorted(runs)]


def _interval(v: Verdict) -> str:
    return f"{v.estimate:.3g} [{_number(v.low)}, {_number(v.high)}]"


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else ("∞" if value > 0 else "−∞")


def _claimed(v: Verdict) -> str:
    return f"{'>' if v.direction == 'above' else '<'} {v.threshold:.3g}"


def _n(v: Verdict) -> str:
    return f"{v.n} {v.unit}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
