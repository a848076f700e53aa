"""A full disk and a read-only one: one line, earlier results intact, and --resume goes on once there is room."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import slow_but

UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]


@pytest.fixture(scope="module", params=slow_but(["train"], ["train", "entropy", "claims"]))
def attempts(request, tmp_path_factory, tiny_model):
    """What a command did on each disk (`tests/full_disk.py`)."""
    disk = tmp_path_factory.mktemp("disk")
    allowed = subprocess.run(
        [*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if allowed.returncode:
        pytest.skip(f"this machine lets nobody mount a small disk: {allowed.stderr.strip()}")
    command = [*UNSHARE, sys.executable, "-m", "tests.full_disk", str(disk), str(tiny_model), request.param]
    done = subprocess.run(
        command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    return {attempt["disk"]: attempt for attempt in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize(("disk", "word"), [("full", "No space left"), ("read-only", "Read-only file system")])
def test_where_nothing_can_be_written_the_command_says_so(attempts, disk, word):
    found = attempts[disk]
    assert found["status"] == 2
    (line,) = found["said"]
    assert line.startswith("cotlens: ")
    assert word in line
    assert found["intact"], "an earlier result was damaged"


@pytest.mark.parametrize("disk", ["room", "room again"])
def test_where_there_is_room_it_works(attempts, disk):
    found = attempts[disk]
    assert found["status"] == 0, found["said"]
    assert found["intact"]


def test_what_a_full_disk_interrupted_ends_like_what_was_never_interrupted(attempts):
    assert attempts["compared"]["equal"]
