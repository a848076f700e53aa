"""cotlens claims: list the papers' claims, run and judge them, show and recompute what was found."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from interp.cli import parse
from interp.core.claim import Claim, find_claims
from interp.core.protocol import RESULTS

if TYPE_CHECKING:
    from interp.core.engine import Engine

USAGE = """usage: cotlens claims list [--json FILE]
       cotlens claims show ID
       cotlens claims plan ID... | all [--preset smoke|cpu|paper] [--gpu NAME] [--dry-run]
       cotlens claims run ID... [--preset smoke|cpu|paper] [--seeds N] [--out DIR] [--resume] [--workers N]
       cotlens claims judge ID... | DIR... | all [--write]
       cotlens claims declare ID... [--preset cpu|paper] [--seeds N] [--first-unit N]
       cotlens claims severity ID... | all [--draws N]

cotlens claims run --help explains the options of run; likewise the others.
"""
PresetName = Literal["smoke", "cpu", "paper"]


@dataclass(frozen=True)
class List:
    """The claims of every paper, with what was concluded."""

    results: Path = RESULTS
    """Published results."""
    json: Path | None = None
    """Also write the list as JSON to this file."""


@dataclass(frozen=True)
class Show:
    """One claim's page: what the paper says, what was found, and how it was tested."""

    id: tyro.conf.Positional[str]
    """A claim id, such as wen2024/fig2."""
    results: Path = RESULTS
    """Published results."""


@dataclass(frozen=True)
class Plan:
    """What a preset asks for: items, steps, memory, and time here and on a GPU. Nothing is fetched for it.

    The largest item of every family of kinds is run, cut short, at the preset's own sizes: this takes minutes.
    """

    ids: tyro.conf.Positional[tuple[str, ...]]
    """Claim ids, such as wen2024/fig2, or all."""
    preset: PresetName = "paper"
    """Seconds, minutes on two cores, or the paper's own numbers."""
    gpu: str = "A100"
    """The GPU to estimate for: T4, A100 or H100."""
    dry_run: bool = False
    """Try every kind of item at the preset's sizes, a few steps or one problem each, instead of the largest only."""
    json: Path | None = None
    """Also write the estimates as JSON to this file."""
    record: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also enter the estimates in the file of plans there, usually results: claims run reads the memory from it."""
    resume: bool = False
    """Go on with what a killed command has tried; leave out claims whose estimates in --record are of the preset
    as it is."""


@dataclass(frozen=True)
class Run:
    """Run claims and judge them. Every finished item is on disk; --resume goes on after a kill."""

    ids: tyro.conf.Positional[tuple[str, ...]]
    """Claim ids, such as wen2024/fig2, or all."""
    preset: PresetName = "cpu"
    """Seconds, minutes on two cores, or the paper's own numbers."""
    seeds: int | None = None
    """Seeds per setting instead of the preset's number."""
    first_unit: int | None = None
    """The first seed, or the first problem, instead of the preset's; confirmatory runs use fresh ones."""
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
    record: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also publish rows, judgement, figures and provenance there, usually results, in place of earlier ones."""


@dataclass(frozen=True)
class Judge:
    """Compute verdicts anew from published rows, and compare them with the published ones."""

    ids: tyro.conf.Positional[tuple[str, ...]] = ("all",)
    """Claim ids, directories such as results/wen2024/fig2, or all that are published."""
    results: Path = RESULTS
    """Published results."""
    write: bool = False
    """Replace judgements, figures and pages that differ."""


@dataclass(frozen=True)
class Declare:
    """Write the protocols of claims; they count from the commit that they enter."""

    ids: tyro.conf.Positional[tuple[str, ...]]
    """Claim ids."""
    preset: PresetName = "cpu"
    """The preset that will be run."""
    seeds: int | None = None
    """Seeds per setting instead of the preset's number."""
    first_unit: int | None = None
    """The first seed or problem; none that a published run has used."""
    results: Path = RESULTS
    """Where protocols and published results stand."""


@dataclass(frozen=True)
class Severity:
    """How often each judge would be wrong, in simulated worlds where the truth is known."""

    ids: tyro.conf.Positional[tuple[str, ...]] = ("all",)
    """Claim ids, or all."""
    draws: int = 300
    """Simulated experiments in each world."""
    json: Path | None = None
    """Also write the table as JSON to this file."""


def main(arguments: Sequence[str]) -> None:
    """Runs one of the subcommands."""
    from interp.commands import claims_ledger as ledger
    from interp.commands.claims_plan import plan_claims

    commands = {
        "list": (List, ledger.list_claims),
        "show": (Show, ledger.show_claim),
        "plan": (Plan, plan_claims),
        "run": (Run, run_claims),
        "judge": (Judge, ledger.judge_claims),
        "declare": (Declare, ledger.declare_claims),
        "severity": (Severity, ledger.simulate_claims),
    }
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        return
    name, *rest = arguments
    if name not in commands:
        raise ValueError(f"unknown subcommand {name!r}; use {', '.join(commands)}")
    kind, action = commands[name]
    action(parse(kind, rest, f"claims {name}"))


def run_claims(options: Run) -> None:
    """Runs the claims one after another and prints verdicts and conclusions."""
    from rich.console import Console

    from interp.commands.claims_ledger import write_pages
    from interp.core.ledger import concluded, enter, footnote, stored
    from interp.core.plan import plan
    from interp.core.published import check_replacement, publish
    from interp.core.reproduce import command
    from interp.core.runs import check_directory, check_results
    from interp.core.sweep import Pace, kinds_of, run_claim
    from interp.core.verdict import verdict_table
    from interp.report import write_report
    from probes.base.atomic import remove_leftovers

    if not options.ids:
        raise ValueError("name at least one claim, or all; cotlens claims list shows them")
    check_results(options.record, "--record")
    engine = _engine(options)
    claims = find_claims(options.ids)
    directories = [options.out / claim.id.replace("/", "-") for claim in claims]
    for directory in directories:
        check_directory(directory, options.resume)
    ledger = options.out / "verdicts.json"
    if (options.out / "report.html").exists() and not ledger.exists():
        raise ValueError(f"{options.out} holds a report.html that no run of claims made; choose another directory")
    stored(ledger)  # refuses at once what could not be added to
    presets = chosen_presets(claims, options)
    for claim in claims:
        if options.record is not None:
            check_replacement(claim, options.preset, options.record)
    results, all_items = options.record or RESULTS, [claim.items(preset) for claim, preset in zip(claims, presets)]
    for claim, items, directory in zip(claims, all_items, directories):
        print(plan(claim, items, directory, results).sentence(getattr(engine, "workers", 1)), flush=True)
    pace = Pace(kind for claim, items in zip(claims, all_items) for kind in kinds_of(claim, items))
    again = {"preset": options.preset, "seeds": options.seeds, "first_unit": options.first_unit}
    told = []
    for claim, preset, directory in zip(claims, presets, directories):
        record = run_claim(
            claim,
            options.preset,
            directory,
            preset=preset,
            command=command("claims", "run", claim.id, options=again),
            resume=options.resume,
            engine=engine,
            pace=pace,
            results=results,
            report=lambda line: print(line, flush=True),
        )
        if options.record is not None:
            publish(claim, directory, options.record)
        Console().print(verdict_table(record.judgement.verdicts, title=claim.id))
        told.append(concluded(claim, record.judgement))
        print(f"{claim.id}: {told[-1]} ({record.status}; {record.scale})")
        print(f"{record.judgement.finding}\n")
    print(footnote(told), end="")
    if options.record is not None:
        write_pages(options.record)
    enter(ledger, directories)
    remove_leftovers(options.out)
    write_report([options.out], options.out / "report.html")
    print(f"rows, verdicts and figures are in {options.out}; open {options.out / 'report.html'} in a browser")


def chosen_presets(claims: Sequence[Claim], options: Run | Declare) -> list:
    """The preset of each claim, with the seeds and the first unit asked for."""
    from interp.core.sweep import seeded

    presets = [claim.preset(options.preset) for claim in claims]
    if options.seeds is not None and all(preset.seeds == 1 for preset in presets):
        raise ValueError("these claims replicate over problems, not over seeds: --seeds does not apply")
    return [seeded(preset, options.seeds, options.first_unit) for preset in presets]


def _engine(options: Run) -> "Engine":
    from interp.core.engine import Local
    from interp.core.ray_engine import OnRay, is_share

    if options.workers < 1:
        raise ValueError(f"--workers must be at least 1, got {options.workers}")
    if options.engine == "ray":
        if not is_share(options.item_gpus):
            raise ValueError(f"--item-gpus must be 0 or more, and a whole number above 1: got {options.item_gpus:g}")
        return OnRay(options.address, options.item_gpus)
    if options.address is not None or options.item_gpus:
        raise ValueError("--address and --item-gpus need --engine ray")
    return Local(options.workers)
