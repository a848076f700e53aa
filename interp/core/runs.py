"""Where does a run live? One directory: config, rows, verdicts, weights, figures; safe to kill at any time."""

import fcntl
import json
import platform
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from probes.base import atomic

RECORDED_PACKAGES = ("cotlens", "torch", "transformer-lens", "transformers", "peft", "numpy", "scipy")
LOCK = ".lock"


def check_directory(path: Path, resume: bool) -> None:
    """Refuses a directory that a run could not be started or resumed in; writes nothing."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; --out needs a directory")
    if path.is_dir() and any(path.iterdir()) and not resume:
        raise ValueError(f"{path} is not empty; choose another directory, or --resume the run in it")
    if path.is_dir() and not (path / "config.json").exists() and (strangers := _strangers(path)):
        raise ValueError(
            f"{path} holds {strangers[0]!r} and no config.json: no run to resume; choose another directory"
        )


@contextmanager
def run_directory(path: Path, config: Mapping[str, Any], resume: bool) -> Iterator[Path]:
    """`path`, created or resumed, locked against a second process; `config` decides whether it is the same run.

    A directory with anything in it needs `resume`, and the configuration it was started with.
    """
    check_directory(path, resume)
    path.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        atomic.remove_leftovers(path)
        _settle_config(path / "config.json", dict(config))
        yield path


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of the run in `path`."""
    file = path / "config.json"
    if not file.is_file():
        raise ValueError(f"{path} is not a run directory: it has no config.json")
    try:
        found = atomic.read_json(file)
        if not isinstance(found["config"], dict):
            raise TypeError("config is not an object")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    return found["config"]


def provenance() -> dict[str, Any]:
    """Versions and commit that a result depends on; nothing of the environment or the user."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": {name: _version(name) for name in RECORDED_PACKAGES},
        "commit": _commit(),
    }


def _settle_config(file: Path, config: dict[str, Any]) -> None:
    config = json.loads(json.dumps(config))  # what a later reading will find: tuples become lists
    if not file.exists():
        atomic.write_json(file, {"config": config, "provenance": provenance()})
        return
    found = read_config(file.parent)
    differing = sorted(k for k in config.keys() | found.keys() if config.get(k) != found.get(k))
    if differing:
        changes = "; ".join(f"{k}: {found.get(k)!r} there, {config.get(k)!r} here" for k in differing)
        raise ValueError(f"{file.parent} holds another run ({changes}); choose another directory")


def _strangers(path: Path) -> list[str]:
    """What a run killed before it wrote its configuration cannot have left."""
    names = sorted(entry.name for entry in path.iterdir())
    return [name for name in names if name != LOCK and not name.startswith(".config.json.")]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with (path / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"another process is working in {path}; wait for it or choose another") from error
        yield


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
