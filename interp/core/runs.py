"""Where does a run live? One directory: config, rows, verdicts, weights, figures; safe to kill at any time."""

import platform
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from probes.base.atomic import read_json, remove_leftovers
from probes.base.identity import RECORD, admit, check_directory, read_identity, versions
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


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of the run in `path`."""
    if not (path / RECORD).is_file():
        raise ValueError(f"{path} is not a run directory: it has no {RECORD}")
    return read_identity(path / RECORD)


def read_provenance(path: Path) -> dict[str, Any]:
    """What the run in `path` depended on when it began."""
    return read_json(path / RECORD).get("provenance") or {}


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
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
