"""Commands in surroundings that nobody promised: no reader, a poor encoding, a narrow terminal, no home or memory."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from interp.cli import main
from probes.base.lock import LOCK, locked
from tests.fuzz.cases import contents
from tests.tiers import slow_but

ROOT = Path(__file__).parent.parent


TRAIN = [
    "train", "parity", "--n", "6", "--k", "2", "--d-model", "32", "--budget", "128", "--batch-size", "64",
    "--eval-every", "64", "--n-validation", "8", "--n-test", "8",
]  # fmt: skip


def started(
    words: list[str], before: Callable[[], object] | None = None, **environment: str | None
) -> subprocess.Popen:
    """The command in a process of its own, which does `before` first; what is None in `environment` is not there."""
    command = [sys.executable, "-m", "interp.cli", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    given = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    return subprocess.Popen(command, cwd=ROOT, env=given, preexec_fn=before, **pipes)


def poor() -> None:
    """Nothing to read from, and one core."""
    os.close(0)
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])


def at_a_terminal() -> None:
    """Apart from other processes, and heeding interrupts: a shell ignores them for what runs in its background."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


PRINTING = [
    ["--help"], ["--version"], [], ["claims", "list"], ["claims", "show", "wen2024/fig3b"], ["train"],
    ["train", "parity", "--help"], ["entropy", "--help"], ["doctor", "--offline"],
]  # fmt: skip
"""Commands that print, and write no file."""


@pytest.mark.parametrize("words", slow_but(PRINTING[:4], PRINTING), ids=" ".join)
def test_a_reader_that_has_seen_enough_is_no_fault(words):
    running = started(words)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(600) == 141


@pytest.mark.parametrize("words", slow_but([["--version"]], PRINTING), ids=" ".join)
def test_without_any_output_a_command_says_so_in_one_line(words):
    running = started(words, before=lambda: os.close(1))
    _, err = running.communicate(timeout=600)
    assert running.returncode == 2
    assert err == b"cotlens: standard output is closed; where nobody reads, redirect it to a file\n"


@pytest.mark.parametrize("words", slow_but([["--help"], ["claims", "list"]], PRINTING), ids=" ".join)
def test_in_forty_columns_without_colour_every_command_prints(words):
    running = started(
        words, COLUMNS="40", NO_COLOR="1", LANG="C", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    )
    out, err = running.communicate(timeout=600)
    assert running.returncode == (0 if words else 2)
    assert err == b""
    assert len(out) > 5
    assert b"\x1b[" not in out


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"COLUMNS": "40", "NO_COLOR": "1", "HOME": "/none"}]
)
def test_a_page_is_printed_whatever_the_terminal_knows(environment):
    out, err = started(["claims", "show", "wen2024/fig3b"], **environment).communicate(timeout=600)
    assert err == b""
    assert b"wen2024/fig3b" in out
    assert environment.get("NO_COLOR") is None or b"\x1b[" not in out


def test_nothing_of_the_usual_is_needed_from_the_start(tmp_path):
    """No HOME, no standard input, no directory for temporary files, a cache that is a file, a locale without letters,
    40 columns and one core."""
    (tmp_path / "cache").write_text("not a directory")
    environment = {
        "HOME": None, "COLUMNS": "40", "NO_COLOR": "1", "LANG": "C", "LC_ALL": "C",
        "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0",
        "TMPDIR": str(tmp_path / "none"), "MPLCONFIGDIR": str(tmp_path / "cache"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "cache"),
    }  # fmt: skip
    running = started([*TRAIN, "--out", str(tmp_path / "run")], before=poor, **environment)
    out, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    assert b"Traceback" not in err
    assert b"\x1b[" not in out
    assert (tmp_path / "run" / "rows.parquet").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "run"]


@pytest.mark.parametrize("memory", [300, 800])
def test_too_little_memory_to_begin_is_one_line(memory, tmp_path):
    limits = memory << 20, memory << 20
    running = started(
        [*TRAIN, "--out", str(tmp_path / "run")], before=lambda: resource.setrlimit(resource.RLIMIT_AS, limits)
    )
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


@pytest.mark.parametrize("place", ["file", "file/below", "x" * 300], ids=["a file", "below a file", "too long"])
@pytest.mark.parametrize(
    "words", [TRAIN, ["entropy", "--limit", "2"], ["claims", "run", "wen2024/fig3b"]], ids="{0[0]}".format
)
def test_a_place_where_no_directory_can_be_is_one_line(words, place, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main([*words, "--out", str(tmp_path / place)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("cotlens: ")
    assert said.count("\n") == 1
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_damaged_result_of_a_training_run_is_made_again(tmp_path):
    words, out = [*TRAIN, "--checkpoint-seconds", "0", "--out", str(tmp_path / "run")], tmp_path / "run"
    assert main(words) == 0
    whole = {name: (out / name).read_bytes() for name in ("rows.parquet", "model.safetensors")}
    for name, data in whole.items():
        (out / name).write_bytes(data[: len(data) // 2])
    assert main([*words, "--resume"]) == 0
    assert {name: (out / name).read_bytes() for name in whole} == whole


def test_a_training_that_other_versions_began_is_not_gone_on_with(tmp_path, monkeypatch, capsys):
    words, out = [*TRAIN, "--checkpoint-seconds", "0", "--out", str(tmp_path / "run")], tmp_path / "run"
    assert main(words) == 0
    whole = (out / "rows.parquet").read_bytes()
    monkeypatch.setattr("probes.base.identity.versions", lambda names: dict.fromkeys(names, "9.9"))
    assert main([*words, "--resume"]) == 0  # finished: only drawn again
    (out / "rows.parquet").unlink()
    before = contents(out)
    capsys.readouterr()
    assert main([*words, "--resume"]) == 2
    assert "was begun by other versions (cotlens" in capsys.readouterr().err
    assert contents(out) == before
    monkeypatch.undo()
    assert main([*words, "--resume"]) == 0
    assert (out / "rows.parquet").read_bytes() == whole


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize("place", ["file", "file/below", "dangling"])
def test_results_that_could_not_be_written_are_refused_before_hours_of_work(command, place, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    out = ["--out", str(tmp_path / "run")] if command == "run" else []
    words = ["claims", command, "wen2024/fig3b", "--preset", "smoke", "--record", str(tmp_path / place), *out]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"cotlens: --record {tmp_path / place}: ")
    assert said.endswith("is no directory\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file"]


@pytest.mark.parametrize(
    "words",
    [
        [*TRAIN, "--checkpoint-seconds", "nan"],
        [*TRAIN, "--checkpoint-seconds", "-1"],
        ["entropy", "--threads", "9" * 30],
        ["entropy", "--threads", "1000000"],
        ["trace", "--threads", "0"],
        ["bench", "train", "--threads", "5000"],
        [*TRAIN, "--d-model", "9" * 400],
        [*TRAIN, "--seed", "-" + "9" * 30],
        ["heads", "--limit", "9" * 30],
    ],
    ids=lambda words: " ".join(words[-2:])[:30],
)
def test_numbers_that_no_machine_has_are_one_line(words, tmp_path, capsys):
    out = [] if words[0] == "bench" else ["--out", str(tmp_path / "run")]
    assert main([*words, *out]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"cotlens: {words[-2]} must be")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--d-model", 2**62, "out of memory: choose smaller sizes"),
        ("--dataset-size", 2**60, "out of memory: choose smaller sizes"),
        ("--secret-seed", 2**64, "a number is beyond what 64 bits hold"),
        ("--lr", 1e308, "the loss is nan after 64 samples: training diverged; lower lr"),
        ("--init-std", 1e308, "the loss is nan after 0 samples: training diverged"),
    ],
)
def test_sizes_beyond_counting_and_numbers_that_overflow_are_one_line(option, value, message, tmp_path, capsys):
    assert main([*TRAIN, option, str(value), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"cotlens: {message}"), said
    assert said.count("\n") == 1


INTERRUPTED = {
    "claims": (["claims", "run", "wen2024/fig3b", "--preset", "smoke", "--workers", "2"], "run/*/items/*"),
    "train": ([*TRAIN, "--budget", "100000000", "--checkpoint-seconds", "0"], "run/checkpoint.safetensors"),
}
"""Commands, and what is there once they are at work."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pause"), [("claims", 0.0), ("claims", 0.002), ("claims", 0.05), ("claims", 0.4), ("train", 0.05)]
)
def test_whoever_interrupts_thrice_gets_one_line(name, pause, tmp_path):
    """As from a terminal, to the command and its workers; while the first interrupt is on its way out."""
    words, at_work = INTERRUPTED[name]
    running = started([*words, "--out", str(tmp_path / "run")], before=at_a_terminal)
    deadline = time.monotonic() + 600
    while not list(tmp_path.glob(at_work)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(3):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGINT)
        time.sleep(pause)
    try:
        _, err = running.communicate(timeout=600)
    finally:  # nobody else would end what hangs
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode in (130, -signal.SIGINT)
    assert err == b"cotlens: interrupted; the same command with --resume goes on\n"
