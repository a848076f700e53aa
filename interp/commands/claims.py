"""cotlens claims: list the claims, run and judge them, draw the board."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from interp.cli import parse
from interp.core.claim import find_claims, load_claims

if TYPE_CHECKING:
    from interp.core.engine import Engine

USAGE = """usage: cotlens claims list [--json FILE]
       cotlens claims run ID... [--preset smoke|cpu|paper] [--seeds N] [--out DIR] [--resume] [--workers N]
                                 [--engine local|ray] [--address CLUSTER] [--item-gpus G]
       cotlens claims board [--results FILE] [--readme FILE]

cotlens claims run --help explains the options.
"""


@dataclass(frozen=True)
class List:
    """The claims of every paper."""

    json: Path | None = None
    """Also write the list as JSON to this file."""


@dataclass(frozen=True)
class Run:
    """Run claims and judge them. Every finished item is on disk; --resume goes on after a kill."""

    ids: tyro.conf.Positional[tuple[str, ...]]
    """Claim ids, such as wen2024/fig2, or all."""
    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """Seconds, minutes on two cores, or the paper's own numbers."""
    seeds: int | None = None
    """Seeds per setting instead of the preset's number."""
    out: Path = Path("runs/claims")
    """Directory; each claim gets one of its own in it."""
    resume: bool = False
    """Go on with the runs in that directory."""
    workers: int = 2
    """Processes on this machine; rows do not depend on it."""
    engine: Literal["local", "ray"] = "local"
    """Processes on this machine, or tasks on a Ray cluster; rows do not depend on it."""
    address: str | None = None
    """With --engine ray: the cluster, such as auto or ray://host:10001; otherwise one is started on this machine."""
    item_gpus: float = 0.0
    """With --engine ray: GPUs of each item; 0.25 puts four on one."""
    record: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also enter the verdicts into this JSON file, replacing earlier ones of the same claims."""


@dataclass(frozen=True)
class Board:
    """The committed verdicts as a Markdown table."""

    results: Path = Path("results/verdicts.json")
    """Verdicts to show."""
    readme: Path | None = None
    """Put the table between the board markers of this file instead of printing it."""


def main(arguments: Sequence[str]) -> None:
    """Runs one of the subcommands."""
    commands = {"list": (List, list_claims), "run": (Run, run_claims), "board": (Board, show_board)}
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        return
    name, *rest = arguments
    if name not in commands:
        raise ValueError(f"unknown subcommand {name!r}; use list, run or board")
    kind, action = commands[name]
    action(parse(kind, rest, f"claims {name}"))


def list_claims(options: List) -> None:
    """Prints id and sentence of every claim."""
    claims = load_claims()
    for claim in claims.values():
        print(f"{claim.id:<20} {claim.sentence}")
    if options.json is not None:
        from probes.base.atomic import write_json

        write_json(options.json, [{"id": c.id, "sentence": c.sentence, "test": c.test} for c in claims.values()])


def run_claims(options: Run) -> None:
    """Runs the claims one after another and prints the verdicts."""
    from rich.console import Console

    from interp.core.ledger import enter, stored
    from interp.core.reproduce import command
    from interp.core.runs import check_directory
    from interp.core.sweep import Pace, run_claim, seeded
    from interp.core.verdict import verdict_table
    from interp.report import write_report
    from probes.base.atomic import remove_leftovers

    if not options.ids:
        raise ValueError("name at least one claim, or all; cotlens claims list shows them")
    engine = _engine(options)
    claims = find_claims(options.ids)
    directories = [options.out / claim.id.replace("/", "-") for claim in claims]
    for directory in directories:
        check_directory(directory, options.resume)
    ledger = options.out / "verdicts.json"
    if (options.out / "report.html").exists() and not ledger.exists():
        raise ValueError(f"{options.out} holds a report.html that no run of claims made; choose another directory")
    ledgers = [ledger, *([options.record] if options.record else [])]
    for file in ledgers:
        stored(file)  # refuses at once what could not be added to
    presets = [seeded(claim.preset(options.preset), options.seeds) for claim in claims]
    if options.seeds is not None and all(preset.seeds == 1 for preset in presets):
        raise ValueError("these claims replicate over problems, not over seeds: --seeds does not apply")
    pace = Pace(sum(len(claim.items(preset)) for claim, preset in zip(claims, presets)))
    again = {"preset": options.preset, "seeds": options.seeds}
    verdicts = []
    for claim, preset, directory in zip(claims, presets, directories):
        verdicts += run_claim(
            claim,
            options.preset,
            directory,
            preset=preset,
            command=command("claims", "run", claim.id, options=again),
            resume=options.resume,
            engine=engine,
            pace=pace,
            report=lambda line: print(line, flush=True),
        )
    Console().print(verdict_table(verdicts))
    for verdict in verdicts:
        print(f"{verdict.claim} {verdict.part}: {verdict.note}")
    for file in ledgers:
        enter(file, directories)
    remove_leftovers(options.out)
    write_report([options.out], options.out / "report.html")
    print(f"rows, verdicts and figures are in {options.out}; open {options.out / 'report.html'} in a browser")


def _engine(options: Run) -> "Engine":
    from interp.core.engine import Local
    from interp.core.ray_engine import OnRay

    if options.workers < 1:
        raise ValueError(f"--workers must be at least 1, got {options.workers}")
    if options.engine == "ray":
        if options.item_gpus < 0:
            raise ValueError(f"--item-gpus must be 0 or more, got {options.item_gpus:g}")
        return OnRay(options.address, options.item_gpus)
    if options.address is not None or options.item_gpus:
        raise ValueError("--address and --item-gpus need --engine ray")
    return Local(options.workers)


def show_board(options: Board) -> None:
    """Prints the board, or writes it into a README."""
    from interp.core.ledger import ledger_table, with_table
    from interp.core.verdict import read_verdicts
    from probes.base.atomic import write_text

    table = ledger_table(read_verdicts(options.results))
    if options.readme is None:
        print(table)
    else:
        write_text(options.readme, with_table(options.readme.read_text(encoding="utf-8"), table))
