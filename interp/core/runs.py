"""Where does a run live? One directory: config, rows, verdicts, weights, figures; safe to kill at any time."""

import platform
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from probes.base.atomic import remove_leftovers
from probes.base.identity import RECORD, admit, check_directory, read_identity
from probes.base.lock import LOCK, locked

RECORDED_PACKAGES = ("cotlens", "torch", "transformer-lens", "transformers", "peft", "numpy", "scipy")


@contextmanager
def run_directory(path: Path, config: Mapping[str, Any], resume: bool) -> Iterator[Path]:
    """`path`, created or resumed, locked against a second process; `config` decides whether it is the same run.

    A directory with anything in it needs `resume`, and the configuration it was started with.
    """
    check_directory(path, resume)
    with locked(path / LOCK, wait=False):
        remove_leftovers(path)
        admit(path, config, resume, beside=lambda: {"provenance": provenance()})
        yield path


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of the run in `path`."""
    if not (path / RECORD).is_file():
        raise ValueError(f"{path} is not a run directory: it has no {RECORD}")
    return read_identity(path / RECORD)


def provenance() -> dict[str, Any]:
    """Versions and commit that a result depends on; nothing of the environment or the user."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": {name: _version(name) for name in RECORDED_PACKAGES},
        "commit": _commit(),
    }


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
