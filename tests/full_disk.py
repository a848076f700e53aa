"""Runs a command on a disk that is full, then on one that is read-only; needs a mount namespace of its own.

`unshare --mount python -m tests.full_disk DIRECTORY MODEL COMMAND` mounts a small disk at DIRECTORY, lets the command
finish there once, and then makes it run again where it cannot write. Prints one JSON line for each attempt.
"""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

from interp.cli import main
from tests.fuzz.cases import contents

SIZE = 32 << 20
LEFT = 6 << 10
"""Bytes left on the full disk: enough to begin, not to end."""


def commands(model: str) -> dict[str, list[str]]:
    return {
        "train": [
            "train", "parity", "--n", "6", "--k", "2", "--d-model", "32", "--budget", "128", "--batch-size", "64",
            "--eval-every", "64", "--n-validation", "8", "--n-test", "8", "--checkpoint-seconds", "0", "--out",
        ],
        "entropy": [
            "entropy", "--model", model, "--limit", "2", "--conditions", "cot", "no_cot", "--offline", "--out",
        ],
        "claims": ["claims", "run", "kim2024/thm5", "--preset", "smoke", "--workers", "1", "--out"],
    }  # fmt: skip


def attempt(words: list[str]) -> dict:
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        status = main(words)
    return {"status": status, "said": err.getvalue().splitlines()}


def mount(disk: Path, *options: str) -> None:
    subprocess.run(["mount", *options, str(disk)], check=True)


def run(disk: Path, words: list[str]) -> None:
    mount(disk, "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs")
    report(disk, "room", attempt([*words, str(disk / "first")]), {})
    before = contents(disk)
    filler = disk / "filler"
    filler.write_bytes(b"\0" * (shutil.disk_usage(disk).free - LEFT))
    report(disk, "full", attempt([*words, str(disk / "second")]), before)
    filler.unlink()
    report(disk, "room again", attempt([*words, str(disk / "second"), "--resume"]), before)
    print(
        json.dumps({"disk": "compared", "equal": _results(disk / "first") == _results(disk / "second")}), flush=True
    )
    mount(disk, "-o", "remount,ro")
    report(disk, "read-only", attempt([*words, str(disk / "third")]), contents(disk))


def _results(run: Path) -> dict[str, bytes]:
    """All files but those that say how long it took."""
    return {name: data for name, data in contents(run).items() if not name.endswith("seconds.json")}


def report(disk: Path, state: str, found: dict, before: dict[str, bytes]) -> None:
    now = contents(disk)
    intact = all(now.get(file) == data for file, data in before.items())
    print(json.dumps({"disk": state, **found, "intact": intact}), flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), commands(sys.argv[2])[sys.argv[3]])
