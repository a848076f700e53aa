"""May a run begin here, or go on? One rule and one wording, for directories and for checkpoints.

A run's identity is whatever decides its result, as plain JSON. It stands in a record in the run's directory, or in
its checkpoint; a run goes on only where the same identity stands.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from probes.base.atomic import read_json, write_json
from probes.base.lock import LOCK
from probes.base.seal import opened_object, sealed_object

RECORD = "config.json"
"""Where the identity stands in a run's own directory."""
DECIDING = ("cotlens", "torch", "transformers")
"""Packages whose versions decide values, or their last digits: rows of two versions are not mixed."""


def check_directory(
    directory: Path, resume: bool, *, record: str = RECORD, among: Collection[str] | None = None
) -> None:
    """Refuses a directory in which a run with this `record` can neither begin nor go on; writes nothing.

    A run begins where there is nothing, and goes on, if `resume`, where its record is. A lock and what a kill left of
    the record count as nothing. `among` are the only names that count, for a directory shared with others.
    """
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; --out needs a directory")
    names = sorted(entry.name for entry in directory.iterdir()) if directory.is_dir() else []
    names = [name for name in names if name != LOCK and not name.startswith(f".{record}.")]
    names = [name for name in names if among is None or name in among]
    if names and not resume:
        raise ValueError(f"{directory} is not empty; choose another directory, or --resume the run in it")
    if names and record not in names:
        raise ValueError(
            f"{directory} holds {names[0]!r} and no {record}: no run to resume; choose another directory"
        )


def admit(
    directory: Path,
    identity: Mapping[str, Any],
    resume: bool,
    *,
    record: str = RECORD,
    among: Collection[str] | None = None,
    beside: Callable[[], Mapping[str, Any]] = dict,
    earlier: Mapping[str, Any] | None = None,
) -> None:
    """Begins the run of this `identity` in `directory`, or lets it go on; anything else is a ValueError.

    The identity is written to the file `record` when the run begins, with what `beside` returns.
    `earlier` is what records of earlier versions left unsaid.
    """
    check_directory(directory, resume, record=record, among=among)
    file = directory / record
    if file.exists():
        require_same(directory, identity, {**(earlier or {}), **read_identity(file)})
    else:
        write_json(file, sealed_object({"config": dict(identity), **beside()}))


def read_identity(file: Path) -> dict[str, Any]:
    """The identity in a record; a ValueError names a file that is damaged."""
    return read_record(file)["config"]


def read_record(file: Path) -> dict[str, Any]:
    """The identity as `config`, and what stands beside it; a ValueError names a file that is damaged."""
    try:
        found = read_json(file)
        if not isinstance(found, dict) or not isinstance(found.get("config"), dict):
            raise ValueError("it holds no configuration")
        return opened_object(found)
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}; choose another directory") from error


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """The installed version of each package, None of one that is not installed."""
    found: dict[str, str | None] = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def require_same_versions(place: Path, found: Mapping[str, str | None]) -> None:
    """A ValueError if other versions began what goes on in `place`; those that were not told are believed."""
    known = {name: version for name, version in versions(DECIDING).items() if name in found}
    changes = [f"{name} {found[name]} there, {known[name]} here" for name in known if known[name] != found[name]]
    if changes:
        raise ValueError(
            f"{place} was begun by other versions ({'; '.join(changes)}), whose rows are not mixed; "
            "choose another directory, or install those"
        )


def require_same(place: Path, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """A ValueError unless the run in `place`, of identity `found`, is the one `wanted`; it names every difference."""
    wanted = json.loads(json.dumps(dict(wanted)))  # what a record holds: tuples have become lists
    changes = "; ".join(_differences(wanted, found))
    if changes:
        raise ValueError(f"{place} holds another run ({changes}); choose another directory")


def _differences(wanted: Mapping[str, Any], found: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """What differs, in words; what differs in a part is named as "training.budget". None is as good as absent."""
    for name in sorted(wanted.keys() | found.keys()):
        here, there = wanted.get(name), found.get(name)
        if isinstance(here, dict) and isinstance(there, dict):
            yield from _differences(here, there, f"{within}{name}.")
        elif here != there:
            yield f"{within}{name}: {there!r} there, {here!r} here"
