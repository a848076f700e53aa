"""What holds? The ledger of committed verdicts: entering runs, and the whole of it as Markdown."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interp.core.claim import load_claims
from interp.core.verdict import Verdict, read_verdicts
from probes.base.atomic import read_json, write_json
from probes.base.lock import LOCK, locked

START, END = "<!-- board: cotlens claims board --readme README.md -->", "<!-- end of board -->"
MARKS = {"supported": "✅", "refuted": "❌", "inconclusive": "❔"}


def ledger_table(runs: Sequence[dict[str, Any]]) -> str:
    """The verdicts in `runs` as Markdown: a line for each claim, then, folded, every test and what made it."""
    key = ", ".join(f"{mark} {outcome}" for outcome, mark in MARKS.items())
    return "\n".join(
        [
            "| claim | what the paper says | its tests |",
            "|---|---|---|",
            *map(_claim_line, runs),
            "",
            f"One mark for each test declared beforehand, controls and checks left out: {key}.",
            "",
            "<details><summary>Every test, with its estimate and 95% interval</summary>",
            "",
            "| claim | test | verdict | estimate [95% interval] | claimed | n |",
            "|---|---|---|---|---|---|",
            *(_test_line(verdict) for run in runs for verdict in run["verdicts"]),
            "",
            "Made by " + ", ".join(dict.fromkeys(f"`{run['command']}`" for run in runs)) + ".",
            "",
            "</details>",
        ]
    )


def _claim_line(run: dict[str, Any]) -> str:
    claims = load_claims()
    sentence = claims[run["claim"]].sentence if run["claim"] in claims else ""
    evidence = [
        v for v in run["verdicts"] if not v.part.startswith(("control,", "check:")) and "(control)" not in v.part
    ]
    marks = "".join(MARKS[v.outcome] for v in evidence)
    return _line(f"`{run['claim']}`", sentence, marks or "a control only")


def _test_line(v: Verdict) -> str:
    verdict = f"{MARKS[v.outcome]} {v.outcome}"
    return _line(f"`{v.claim}`", f"{v.part}: {v.quantity}", verdict, _interval(v), _claimed(v), f"{v.n} {v.unit}")


def _line(*cells: str) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def with_table(text: str, table: str) -> str:
    """`text` with `table` between the markers."""
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
    return read_json(path)


def enter(path: Path, directories: Sequence[Path]) -> None:
    """Puts the runs in `directories` in place of the same claims in a verdicts.json, sorted by claim.

    Commands that enter into one file at once wait for each other: none loses what another entered.
    """
    with locked(path.parent / f".{path.name}{LOCK}", wait=True):
        runs = {run["claim"]: run for run in stored(path)}
        for directory in directories:
            runs |= {run["claim"]: run for run in read_json(directory / "verdicts.json")}
        write_json(path, [runs[claim] for claim in sorted(runs)])


def _interval(v: Verdict) -> str:
    return f"{_number(v.estimate)} [{_number(v.low)}, {_number(v.high)}]"


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else ("∞" if value > 0 else "−∞")


def _claimed(v: Verdict) -> str:
    return f"{'>' if v.direction == 'above' else '<'} {v.threshold:.3g}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
