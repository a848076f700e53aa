"""A file appears whole or not at all: exceptions, kills, leftovers."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from probes.base import atomic

HALF = """
import sys, time
from pathlib import Path
from probes.base.atomic import replacing
with replacing(Path(sys.argv[1])) as temporary:
    with temporary.open("w") as file:
        file.write("new" * 1000)
        file.flush()
        print("half", flush=True)
        time.sleep(600)
"""
ENDLESS = """
import sys
from pathlib import Path
from probes.base.atomic import write_text
print("started", flush=True)
while True:
    for letter in "ab":
        write_text(Path(sys.argv[1]), letter * 300_000)
"""


def started(program: str, path) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def killed(process: subprocess.Popen) -> None:
    process.kill()
    assert process.wait(120) != 0
    assert process.stdout is not None
    process.stdout.close()


def test_a_file_is_created_with_its_directories_and_replaced(tmp_path):
    path = tmp_path / "a" / "b" / "file.txt"
    atomic.write_text(path, "first")
    atomic.write_text(path, "zweite äöü")
    assert path.read_text(encoding="utf-8") == "zweite äöü"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_written_where_directories_cannot_be_opened(tmp_path, monkeypatch):
    """As on Windows: no directory is opened, nothing that is open for reading alone is synced; lines end in LF."""
    modes, open_file, sync = {}, os.open, os.fsync

    def windows_open(path, mode, *rest, **options):
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied", str(path))
        descriptor = open_file(path, mode, *rest, **options)
        modes[descriptor] = mode
        return descriptor

    def windows_sync(descriptor):
        assert modes[descriptor] & (os.O_RDWR | os.O_WRONLY)
        sync(descriptor)

    monkeypatch.setattr(os, "open", windows_open)
    monkeypatch.setattr(os, "fsync", windows_sync)
    with pytest.raises(PermissionError):
        atomic.write_text(tmp_path / "file", "a")
    monkeypatch.delattr(os, "O_DIRECTORY")
    atomic.write_text(tmp_path / "file", "a\nb\n")
    assert (tmp_path / "file").read_bytes() == b"a\nb\n"


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic.replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_an_exception_inside_leaves_the_old_file_and_nothing_else(error, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def stopped_half_way(temporary):
        temporary.write_text("half")
        raise error

    with pytest.raises(error):
        atomic.write_file(path, stopped_half_way)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_writes_nothing_is_an_error(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(FileNotFoundError):
        atomic.write_file(path, lambda temporary: None)
    assert path.read_text() == "old"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), object(), {"a": [float("-inf")]}])
def test_json_that_others_cannot_read_is_refused(bad, tmp_path):
    path = tmp_path / "file.json"
    atomic.write_json(path, {"value": "ü"})
    with pytest.raises((ValueError, TypeError)):
        atomic.write_json(path, bad)
    assert json.loads(path.read_text(encoding="utf-8")) == {"value": "ü"}
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_at_once_do_not_share_a_temporary_file(tmp_path):
    path = tmp_path / "file"
    with atomic.replacing(path) as first, atomic.replacing(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the outer context ends last
    assert list(tmp_path.iterdir()) == [path]


def test_a_kill_in_the_middle_of_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    killed(started(HALF, path))
    assert path.read_text() == "old"
    leftover = [p for p in tmp_path.iterdir() if p != path]
    assert len(leftover) == 1, "the kill came too early to be a test"
    bystander = tmp_path / "notes.tmp"
    bystander.write_text("mine")
    atomic.remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == [path, bystander]


def test_kills_at_any_moment_leave_a_whole_file(tmp_path):
    path = tmp_path / "file"
    atomic.write_text(path, "a" * 300_000)
    for delay in (0.0, 0.003, 0.011, 0.029, 0.05):
        process = started(ENDLESS, path)
        time.sleep(delay)
        killed(process)
        assert path.read_text() in ("a" * 300_000, "b" * 300_000)


def test_a_librarys_own_error_becomes_an_os_error_that_names_the_file(tmp_path):
    class LibraryError(Exception):
        pass

    def fail(path):
        path.write_text("half")
        raise LibraryError("no space left")

    (tmp_path / "weights").write_text("old")
    with pytest.raises(OSError, match=r"weights could not be written: no space left"):
        atomic.write_file(tmp_path / "weights", fail)
    assert (tmp_path / "weights").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["weights"]
