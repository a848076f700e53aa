"""Which runs go into a report? Run directories, read and checked before anything is drawn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from interp.claims.wen2024 import fig6_model as wen2024_fig6_model
from interp.core.claim import PRESETS, Claim, find_claims
from interp.core.reproduce import command
from interp.core.verdict import Verdict, read_verdicts
from probes import rows
from probes.base.atomic import read_json

TOKEN_COLUMNS = ("problem", "condition", "layer", "head", "position", "token", "part", "value")


@dataclass(frozen=True)
class Judgement:
    """A claim judged again from the rows of a run."""

    claim: Claim
    table: pd.DataFrame
    verdicts: Sequence[Verdict]
    preset: str
    command: str
    """What to type to get the same rows."""


@dataclass(frozen=True)
class Run:
    """The contents of one run directory."""

    name: str
    """The directory's own name, without the path to it."""
    table: pd.DataFrame
    tokens: pd.DataFrame | None
    config: dict[str, Any]
    """What was asked for; empty where nothing was written."""
    provenance: dict[str, Any]
    judgements: Sequence[Judgement]
    """One for a claim's run; one for each claim that a measurement was judged by, or none."""


def read_runs(directories: Iterable[Path]) -> list[Run]:
    """The runs in `directories`, each a run directory or a directory of run directories, in this order."""
    found: dict[Path, None] = {}
    for directory in directories:
        for place in _run_directories(directory):
            found[place.resolve()] = None
    if not found:
        raise ValueError("no run directory was named; give at least one, such as runs/claims")
    return [_read(place) for place in found]


def _run_directories(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise ValueError(f"{directory} is not a directory; give a run directory, or a directory of them")
    if (directory / "rows.parquet").is_file():
        return [directory]
    below = sorted(place for place in directory.iterdir() if (place / "rows.parquet").is_file())
    if not below:
        raise ValueError(f"{directory} has no rows.parquet, nor has a directory in it; finish the run first")
    return below


def _read(directory: Path) -> Run:
    table = rows.read(directory / "rows.parquet")
    if table.empty:
        raise ValueError(f"{directory / 'rows.parquet'} holds no rows; finish the run first")
    record = _record(directory)
    config = dict(record.get("config", {}))
    claims = _claims(directory, config)
    judgements = tuple(_judged(directory, table, claim, preset, config) for claim, preset in claims)
    return Run(directory.name, table, _tokens(directory), config, dict(record.get("provenance", {})), judgements)


def _claims(directory: Path, config: dict[str, Any]) -> list[tuple[str, str]]:
    """Ids and presets of the claims that the run is evidence for."""
    if "claim" in config:
        return [(str(config["claim"]), str(config.get("preset", "own")))]
    file = directory / "verdicts.json"
    return [(run["claim"], run.get("preset", "own")) for run in read_verdicts(file)] if file.is_file() else []


def _judged(directory: Path, table: pd.DataFrame, name: str, preset: str, config: dict[str, Any]) -> Judgement:
    (claim,) = find_claims([name])
    if claim.id != wen2024_fig6_model.ID:  # the only claim that compares two models
        table = table[~table["run"].str.startswith(wen2024_fig6_model.AGAINST)]
    try:
        verdicts = tuple(claim.judge(table))
    except (ValueError, LookupError) as error:
        message = f"the rows in {directory} cannot be judged as {claim.id}: {type(error).__name__} {error}"
        raise ValueError(message) from error
    return Judgement(claim, table, verdicts, preset, reproduction(claim, preset, config))


def reproduction(claim: Claim, preset: str, config: dict[str, Any]) -> str:
    """What to type to get the same rows."""
    if preset in PRESETS:
        seeds = config.get("seeds")
        more = {"seeds": seeds} if seeds != claim.preset(preset).seeds else {}
        return command("claims", "run", claim.id, options={"preset": preset, **more})
    if "claim" in config:
        return command(preset)  # a command with sizes of its own, such as demo
    options = {name: value for name, value in config.items() if name != "command" and value is not False}
    return command(str(config.get("command", "entropy")), options=options)


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
        except (ValueError, TypeError) as error:
            raise ValueError(f"{file} is damaged: {error}") from error
        return found if "config" in found else {"config": found}
    return {}


def _tokens(directory: Path) -> pd.DataFrame | None:
    """The tokens of a measurement, or those that the items of a claim kept."""
    whole = directory / "tokens.parquet"
    files = [whole] if whole.is_file() else sorted(directory.glob("items/*/tokens.parquet"))
    return pd.concat([_token_table(file) for file in files], ignore_index=True) if files else None


def _token_table(file: Path) -> pd.DataFrame:
    try:
        found = pd.read_parquet(file)
    except Exception as error:  # see `probes.rows.read`
        raise ValueError(f"{file} is not a readable table of tokens: {error}") from error
    missing = [name for name in TOKEN_COLUMNS if name not in found.columns]
    if missing:
        raise ValueError(f"{file} has no column {missing}; a table of tokens has {list(TOKEN_COLUMNS)}")
    return found
