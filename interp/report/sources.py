"""What goes into a report? Run directories and published results, read and checked before anything is drawn.

A run of a claim is shown as it was judged when it ended (verdicts.json), a published claim as it stands in `results/`
(judgement.json); `cotlens claims judge` computes either again. Other runs are measurements: they are explored, and
are no verdict on any paper.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from interp.core import severity
from interp.core.claim import Claim, find_claims
from interp.core.ledger import Record, read_records
from interp.core.published import read_published
from interp.core.reproduce import command
from interp.core.severity import Severity
from probes import rows
from probes.base.atomic import read_json
from probes.base.seal import opened_object
from probes.parts import PARTS, has_parts, head_means, read_parts

TRACE_SUMMARY, PASSAGES = "trace.json", "passages.jsonl"
"""What follows from the rows of traces, and their texts. The second as the measurement's store has it, which loads
torch."""
TOKEN_COLUMNS = ("problem", "condition", "layer", "head", "position", "token", "part", "value")
LATER_TOKEN_COLUMNS = {"run": "", "statistic": "normalised_entropy"}
"""Columns that older tables of tokens do not have, and what they would say there."""


@dataclass(frozen=True)
class Judged:
    """A claim, and what its rows said of it."""

    claim: Claim
    record: Record


@dataclass(frozen=True)
class TraceFiles:
    """What a run of `cotlens trace` wrote beside its rows."""

    passages: Sequence[Mapping[str, Any]]
    """Every trace: its text, its units, and what the model wrote with a sentence hidden."""
    summary: Mapping[str, Any]
    """What follows from the rows: receiver heads, estimates."""


@dataclass(frozen=True)
class Run:
    """The contents of one run directory, or of one published claim."""

    name: str
    """What was run: the claim with its preset, the model with its data, or the task that was trained."""
    directory: str
    """The directory's own name, without the path to it."""
    table: pd.DataFrame
    tokens: pd.DataFrame | None
    config: Mapping[str, Any]
    """What was asked for; empty where nothing was written."""
    provenance: Mapping[str, Any]
    judged: Judged | None
    """None for a measurement."""
    figures: Sequence[Path] = ()
    """Published figures (SVG), the claim's own order first; those of a run are drawn from its rows."""
    trace: TraceFiles | None = None
    """Of a run of `cotlens trace`."""


def read_runs(directories: Iterable[Path]) -> list[Run]:
    """The runs in `directories`: run directories, directories of them, or published results; in this order."""
    found: dict[Path, None] = {}
    for directory in directories:
        for place in _places(directory):
            found[place.resolve()] = None
    if not found:
        raise ValueError("no run directory was named; give at least one, such as runs/claims or results")
    runs = [_read(place) for place in found]
    names = Counter(run.name for run in runs)
    return [run if names[run.name] == 1 else replace(run, name=f"{run.name} ({run.directory})") for run in runs]


def read_severity(places: Sequence[Path]) -> dict[str, list[Severity]]:
    """How often each claim's judge was wrong in simulated worlds: from the first of `places` that has it."""
    found: dict[str, list[Severity]] = {}
    for row in next(filter(None, map(severity.read_severity, places)), []):
        found.setdefault(row.claim, []).append(row)
    return found


def _places(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise ValueError(f"{directory} is not a directory; give a run directory, a directory of them, or results")
    if (directory / "rows.parquet").is_file() or has_parts(directory):
        return [directory]
    below = [place for place in sorted(directory.glob("*")) if (place / "rows.parquet").is_file() or has_parts(place)]
    published = sorted(file.parent for file in directory.glob("*/*/judgement.json"))
    if not below and not published:
        raise ValueError(f"{directory} has no rows.parquet, nor has a directory in it; finish the run first")
    return below + published


def _read(directory: Path) -> Run:
    in_parts = has_parts(directory)
    table = head_means(read_parts(directory / PARTS)) if in_parts else rows.read(directory / "rows.parquet")
    if table.empty:
        raise ValueError(f"{directory / 'rows.parquet'} holds no rows; finish the run first")
    if (directory / "judgement.json").is_file():
        return _published(directory, table)
    record = _record(directory)
    config = dict(record.get("config", {}))
    return Run(
        name=_name(config, directory.name) + (", means over heads" if in_parts else ""),
        directory=directory.name,
        table=table,
        tokens=None if in_parts else _tokens(directory),  # they are of single heads
        config=config,
        provenance=dict(record.get("provenance", {})),
        judged=_judged(directory, str(config["claim"]), table) if "claim" in config else None,
        trace=_trace(directory) if config.get("command") == "trace" else None,
    )


def _published(directory: Path, table: pd.DataFrame) -> Run:
    """A claim in `results/`, whose provenance holds the preset's numbers too."""
    found = read_published(f"{directory.parent.name}/{directory.name}", directory.parents[1])
    (claim,) = find_claims([found.record.claim])
    provenance = dict(found.provenance)
    config = {"claim": claim.id, "preset": found.record.preset, **provenance.pop("numbers", {})}
    order = provenance.pop("figures", [])
    files = {file.stem: file for file in sorted(directory.glob("figures/*.svg"))}
    figures = [files[name] for name in (*(n for n in order if n in files), *(n for n in files if n not in order))]
    judged = Judged(claim, found.record)
    name = _name(config, directory.name)
    return Run(name, directory.name, table, None, config, provenance, judged, figures)


def _judged(directory: Path, name: str, table: pd.DataFrame) -> Judged:
    """The run's own record; rows that its parts could not have read are refused."""
    (claim,) = find_claims([name])
    file = directory / "verdicts.json"
    again = f"cotlens claims run {name} --resume finishes it"
    if not file.is_file():
        raise ValueError(f"{directory} is a run of {name} that has not been judged; {again}")
    records = [record for record in read_records(file) if record.claim == name]
    if len(records) != 1:
        raise ValueError(f"{file} has {len(records)} records of {name}, expected one; {again}")
    try:
        claim.summary(table)
    except (ValueError, LookupError) as error:
        message = f"the rows in {directory} cannot be judged as {name}: {type(error).__name__} {error}"
        raise ValueError(message) from error
    return Judged(claim, records[0])


def _name(config: Mapping[str, Any], directory: str) -> str:
    """What a run is called: by its claim, by its model and data, or by its task; else by its directory."""
    if "claim" in config:
        return f"{config['claim']}, {config.get('preset', 'own')} preset"
    if "task" in config:
        given = " ".join(f"{k}={v}" for k, v in sorted(dict(config.get("parameters", {})).items()) if k != "name")
        return " ".join(filter(None, (str(config["task"]), str(config.get("model", "")), given)))
    if "model" in config:
        return model_and_data(str(config["model"]), config)
    return directory


def model_and_data(label: str, config: Mapping[str, Any]) -> str:
    """A measured model with the data that it read; claims call theirs `model` and `permuted`."""
    own = str(config.get("model", label))
    own = "SmolLM2-135M-Instruct" if own == "builtin" else own
    model = {"model": own, "builtin": own, "permuted": f"{own} with permuted weights"}.get(label, label)
    data = {"builtin": "GSM-symbolic"}.get(str(config.get("data")), config.get("data"))
    return f"{model} on {data}" if data else model


def measured_again(config: Mapping[str, Any]) -> str:
    """What to type to make a measurement again; empty where the run does not say which command made it."""
    if "command" not in config:
        return ""
    options = {name: value for name, value in config.items() if name != "command" and value is not False}
    return command(str(config["command"]), options=options)


def _record(directory: Path) -> dict[str, Any]:
    """What the run says about itself: config.json, or the fingerprint of a measurement."""
    for name in ("config.json", "fingerprint.json"):
        file = directory / name
        if not file.is_file():
            continue
        try:
            found = read_json(file)
            if not isinstance(found, dict) or not isinstance(found.get("config", {}), dict):
                raise TypeError("it holds no object")
            found = opened_object(found)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{file} is damaged: {error}") from error
        return found if "config" in found else {"config": found}
    return {}


def _trace(directory: Path) -> TraceFiles:
    """The texts and the summary of a run of `cotlens trace`."""
    again = f"cotlens trace --out {directory} --resume with the options of the run writes it again"
    for file in (directory / TRACE_SUMMARY, directory / PASSAGES):
        if not file.is_file():
            raise ValueError(f"{directory} has rows of traces but no {file.name}; {again}")
    try:
        passages = [json.loads(line) for line in (directory / PASSAGES).read_text(encoding="ascii").splitlines()]
        found = TraceFiles([one for one in passages if one["units"]], read_json(directory / TRACE_SUMMARY))
        if not {"receiver_heads", "estimates", "agreement", "traces"} <= found.summary.keys():
            raise TypeError(f"{TRACE_SUMMARY} lacks what a summary has")
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ValueError(f"the traces in {directory} are damaged: {type(error).__name__} {error}; {again}") from error
    return found


def _tokens(directory: Path) -> pd.DataFrame | None:
    """The tokens of a measurement and of the models it was compared with, or those that the items of a claim kept."""
    places = ("tokens.parquet", "against/tokens.parquet", "baseline_*/tokens.parquet", "items/*/tokens.parquet")
    files = [file for place in places for file in sorted(directory.glob(place))]
    return pd.concat([_token_table(file) for file in files], ignore_index=True) if files else None


def _token_table(file: Path) -> pd.DataFrame:
    found = rows.read_table(file)
    missing = [name for name in TOKEN_COLUMNS if name not in found.columns]
    if missing:
        raise ValueError(f"{file} has no column {missing}; a table of tokens has {list(TOKEN_COLUMNS)}")
    return found.assign(**{name: told for name, told in LATER_TOKEN_COLUMNS.items() if name not in found.columns})
