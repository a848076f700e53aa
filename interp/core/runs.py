"""Where does a run live? One directory: config, rows, verdicts, weights, figures; safe to kill at any time."""

import platform
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from probes.base import identity
from probes.base.atomic import remove_leftovers
from probes.base.identity import RECORD, admit, check_directory, read_identity, read_record, versions
from probes.base.lock import LOCK, locked

RECORDED_PACKAGES = ("cotlens", "torch", "transformer-lens", "transformers", "peft", "numpy", "scipy")


@contextmanager
def run_directory(path: Path, config: Mapping[str, Any], resume: bool, **beside: Any) -> Iterator[Path]:
    """`path`, created or resumed, locked against a second process; `config` decides whether it is the same run.

    A directory with anything in it needs `resume`, and the configuration it was started with. `beside` is kept with
    the provenance of a run that begins here.
    """
    check_directory(path, resume)
    with locked(path / LOCK, wait=False):
        remove_leftovers(path)
        admit(path, config, resume, beside=lambda: {"provenance": {**provenance(), **beside}})
        yield path


KEPT = (RECORD, "fingerprint.json", "verdicts.json", "measurement.json", "judgement.json", "provenance.json")
"""Files that runs and published results consist of, beside their rows."""


def check_file(path: Path | None, suffix: str, option: str) -> None:
    """Refuses a file name that is not of its kind, or that a run needs for itself; writes nothing."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{path} is a directory; {option} needs a file name that ends in {suffix}")
    if path.suffix.lower() != suffix:
        raise ValueError(f"{option} {path}: expected a file name that ends in {suffix}")
    if path.name in KEPT and path.exists():
        raise ValueError(f"{option} {path}: a run needs that file; choose another name")


def check_results(directory: Path | None, option: str) -> None:
    """Refuses a place for results that is no directory, or lies below a file; writes nothing."""
    if directory is not None:
        there = next(place for place in (directory, *directory.parents) if place.exists() or place.is_symlink())
        if not there.is_dir():
            raise ValueError(f"{option} {directory}: {there} is no directory")


def check_not_a_run(directory: Path) -> None:
    """Refuses a directory whose rows are those of a run, for results that are written without a record."""
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; --out needs a directory")
    rows_of_another = (directory / "rows.parquet").exists() and not (directory / "summary.json").exists()
    if rows_of_another or any((directory / name).exists() for name in KEPT):
        raise ValueError(f"{directory} holds a run, whose rows would be replaced; choose another directory")


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of the run in `path`."""
    if not (path / RECORD).is_file():
        raise ValueError(f"{path} is not a run directory: it has no {RECORD}")
    return read_identity(path / RECORD)


def read_provenance(path: Path) -> dict[str, Any]:
    """What the run in `path` depended on when it began."""
    return read_record(path / RECORD).get("provenance") or {}


def require_same_versions(path: Path) -> None:
    """A ValueError if the run in `path`, which has begun and not ended, was begun by other versions."""
    identity.require_same_versions(path, read_provenance(path).get("packages") or {})


def provenance() -> dict[str, Any]:
    """Versions and commit that a result depends on; nothing of the environment or the user."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": _processor(),
        "packages": versions(RECORDED_PACKAGES),
        "commit": _commit(),
    }


def _processor() -> str | None:
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    names = info.read_text().splitlines() if info.exists() else []
    named = (line.split(":", 1)[1].strip() for line in names if line.startswith("model name"))
    return next(named, platform.processor() or None)


def _commit() -> str | None:
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
