"""What did each run conclude? Records of judged runs, as they stand in verdicts.json and in `results/`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interp.core.claim import Claim
from interp.core.judgement import Judgement
from interp.core.protocol import Status
from probes.base.atomic import read_json, write_json
from probes.base.lock import LOCK, locked
from probes.base.seal import opened_object, sealed_object


@dataclass(frozen=True)
class Record:
    """One claim as one run judged it."""

    judgement: Judgement
    preset: str
    command: str
    """What would make the run again."""
    scale: str
    """How large it was beside the paper's experiment."""
    status: Status

    @property
    def claim(self) -> str:
        """The claim's id."""
        return self.judgement.claim

    def record(self) -> dict[str, Any]:
        """The record as plain JSON."""
        more = {"preset": self.preset, "command": self.command, "scale": self.scale, "status": self.status}
        return {**self.judgement.record(), **more}

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> "Record":
        """The record that `found` came from."""
        more = (str(found[name]) for name in ("preset", "command", "scale"))
        return cls(Judgement.read(found), *more, status=found["status"])


LESS = "*"
"""Stands behind a conclusion that says less than the claim's sentence."""


def concluded(claim: Claim, judgement: Judgement) -> str:
    """The conclusion as every list tells it, with a star where it leaves a part of the sentence undecided."""
    return f"{judgement.conclusion}{LESS if claim.shortfall(judgement.conclusion) else ''}"


def footnote(told: Iterable[str]) -> str:
    """What the star means, as a line of its own; empty if no text of `told` has a conclusion with one."""
    if not any(LESS in one for one in told):
        return ""
    return f"{LESS} less than the sentence says; cotlens claims show ID tells what is missing\n"


def read_records(path: Path) -> list[Record]:
    """The records in a verdicts.json; a ValueError names the file if it is no such list."""
    try:
        found = read_json(path)
        if not isinstance(found, list):
            raise TypeError(f"it holds a {type(found).__name__}")
        return [Record.read(opened_object(one)) for one in found]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not a list of judged claims: {error!r}") from error


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Writes a verdicts.json, every record with its checksum: a flipped bit would be another verdict."""
    write_json(path, [sealed_object(record.record()) for record in records])


def stored(path: Path) -> list[Record]:
    """The records in a verdicts.json, none if there is no such file; refuses any other file."""
    return read_records(path) if path.exists() else []


def enter(path: Path, directories: Sequence[Path]) -> None:
    """Puts the runs in `directories` in place of the same claims in a verdicts.json, sorted by claim.

    Commands that enter into one file at once wait for each other: none loses what another entered.
    """
    with locked(path.parent / f".{path.name}{LOCK}", wait=True):
        records = {record.claim: record for record in stored(path)}
        for directory in directories:
            records |= {record.claim: record for record in read_records(directory / "verdicts.json")}
        write_records(path, [records[claim] for claim in sorted(records)])
