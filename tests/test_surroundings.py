"""Commands in surroundings that nobody promised: no reader, a poor encoding, a narrow terminal, no home or memory."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from interp.cli import main
from probes.base.lock import LOCK, locked

ROOT = Path(__file__).parent.parent


TRAIN = [
    "train", "parity", "--n", "6", "--k", "2", "--d-model", "32", "--budget", "128", "--batch-size", "64",
    "--eval-every", "64", "--n-validation", "8", "--n-test", "8",
]  # fmt: skip


def started(words: list[str], memory: int | None = None, **environment: str | None) -> subprocess.Popen:
    """The command in a process of its own; what is None in `environment` is not there, `memory` is its limit."""
    command = [sys.executable, "-m", "interp.cli", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    given = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    limit = None if memory is None else lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    return subprocess.Popen(command, cwd=ROOT, env=given, preexec_fn=limit, **pipes)


def test_a_reader_that_has_seen_enough_is_no_fault():
    running = started(["claims", "list"])
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(60) == 141


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"COLUMNS": "40", "NO_COLOR": "1", "HOME": "/none"}]
)
def test_a_page_is_printed_whatever_the_terminal_knows(environment):
    out, err = started(["claims", "show", "wen2024/fig3b"], **environment).communicate(timeout=60)
    assert err == b""
    assert b"wen2024/fig3b" in out
    assert environment.get("NO_COLOR") is None or b"\x1b[" not in out


def test_nothing_of_the_usual_is_needed_from_the_start(tmp_path):
    """No HOME, a cache that is a file, no directory for temporary files, and a locale without letters."""
    (tmp_path / "cache").write_text("not a directory")
    poor = {
        "HOME": None, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0",
        "TMPDIR": str(tmp_path / "none"), "MPLCONFIGDIR": str(tmp_path / "cache"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "cache"),
    }  # fmt: skip
    running = started([*TRAIN, "--out", str(tmp_path / "run")], **poor)
    _, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    assert b"Traceback" not in err
    assert (tmp_path / "run" / "rows.parquet").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "run"]


@pytest.mark.parametrize("memory", [300, 800])
def test_too_little_memory_to_begin_is_one_line(memory, tmp_path):
    running = started([*TRAIN, "--out", str(tmp_path / "run")], memory=memory << 20)
    _, err = running.communicate(timeout=600)
    assert running.returncode == 2, err
    assert err.startswith(b"cotlens: out of memory"), err
    assert err.count(b"\n") == 1


def test_a_clock_that_goes_backwards_decides_nothing(tmp_path, monkeypatch):
    """A run that is resumed an hour before it was begun ends with the same rows."""
    now = [2e9]

    def earlier() -> float:
        now[0] -= 3600
        return now[0]

    words = [*TRAIN, "--checkpoint-seconds", "0", "--out"]
    assert main([*words, str(tmp_path / "whole")]) == 0
    monkeypatch.setattr(time, "time", earlier)
    assert main([*words, str(tmp_path / "run")]) == 0
    (tmp_path / "run" / "rows.parquet").unlink()
    assert main([*words, str(tmp_path / "run"), "--resume"]) == 0
    assert (tmp_path / "run" / "rows.parquet").read_bytes() == (tmp_path / "whole" / "rows.parquet").read_bytes()


def test_a_second_process_in_one_directory_is_refused_and_the_first_goes_on(tmp_path):
    with locked(tmp_path / "run" / LOCK, wait=False):
        other = started([*TRAIN, "--out", str(tmp_path / "run")])
        _, err = other.communicate(timeout=600)
    assert other.returncode == 2
    assert err.count(b"\n") == 1
    assert b"another process is working in" in err
    assert [path.name for path in (tmp_path / "run").iterdir()] == [LOCK]
