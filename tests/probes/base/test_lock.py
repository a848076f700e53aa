"""The lock: held by one, and only while that one lives."""

import subprocess
import sys

import pytest

from probes.base.lock import locked

HOLD = """
import pathlib, sys
from probes.base.lock import locked
with locked(pathlib.Path(sys.argv[1]), wait=False):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_holder_is_refused_or_waits(tmp_path):
    file = tmp_path / "run" / ".lock"
    with (
        locked(file, wait=False),
        pytest.raises(ValueError, match=r"another process is working in .*run; wait for it or choose another"),
        locked(file, wait=False),
    ):
        pytest.fail("entered")
    with locked(file, wait=True):
        pass


def test_the_lock_of_a_killed_process_does_not_block(tmp_path):
    file = tmp_path / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(ValueError, match=r"another process"), locked(file, wait=False):
            pytest.fail("entered")
        other.kill()
        other.wait()
    assert file.exists()
    with locked(file, wait=False):
        pass


def test_an_error_inside_frees_the_lock(tmp_path):
    with pytest.raises(RuntimeError), locked(tmp_path / ".lock", wait=False):
        raise RuntimeError
    with locked(tmp_path / ".lock", wait=False):
        pass
