"""Commands in surroundings that nobody promised: no reader, a poor encoding, a narrow terminal, no home."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def started(words: list[str], **environment: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "interp.cli", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, **pipes)


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
