"""Killed anywhere, resumed: the same bits. SIGKILL, SIGTERM and SIGINT at random moments of every long command."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from safetensors import safe_open

from tests.tiers import slow_but

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process cannot fork on this system")
FEW = {"train": 3, "entropy": 3, "claims": 3, "trace": 1}
MANY = {"train": 12, "entropy": 12, "claims": 12, "trace": 10, "two workers": 10, "heads": 4}
"""Kills of each command; traces and heads are written as an entropy run is, and summarised by their own code."""
STATUS = {signal.SIGKILL: -9, signal.SIGTERM: -15, signal.SIGINT: 130}
"""What a command ends with, by signal; a shell calls the first two 137 and 143."""
HERE = Path(__file__).parent


class Zygote:
    """Runs commands in forks of a process that has everything imported (`tests/zygote.py`)."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.zygote"], cwd=HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=None if environment is None else {**os.environ, **environment},
        )  # fmt: skip

    def run(
        self,
        words: list[str],
        kill_after: float | None = None,
        kill_with_children: int = 0,
        once: Path | None = None,
        by: int = signal.SIGKILL,
        **environment: str,
    ) -> dict:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        when = {"kill_after": kill_after, "kill_with_children": kill_with_children, "once": once and str(once)}
        order = {"words": words, **when, "by": by, "environment": environment}
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(300)


@pytest.fixture(scope="module")
def zygote():
    started = Zygote({"MALLOC_MMAP_THRESHOLD_": "65536"})  # what is freed goes back: whoever needs memory has to ask
    yield started
    started.close()


def commands(tiny_model: Path) -> dict[str, list[str]]:
    claim = ["claims", "run", "wen2024/fig3b", "--preset", "smoke", "--workers"]
    return {
        "train": [
            "train", "parity", "--n", "10", "--k", "2", "--no-cot", "--d-model", "32", "--budget", "6000",
            "--eval-every", "512", "--batch-size", "64", "--n-validation", "64", "--n-test", "64",
            "--no-stop-when-perfect", "--checkpoint-seconds", "0",
        ],
        "entropy": [
            "entropy", "--model", str(tiny_model), "--limit", "8", "--conditions", "cot", "no_cot",
            "--keep-tokens", "2", "--offline", "--threads", "1",
        ],
        "claims": [*claim, "1"],
        "two workers": [*claim, "2"],
        "trace": [
            "trace", "--model", str(tiny_model), "--limit", "3", "--measures", "attention", "--rotations", "1",
            "--keep", "1", "--offline", "--threads", "1",
        ],
        "heads": ["heads", "--model", str(tiny_model), "--limit", "6", "--offline"],
    }  # fmt: skip


def check_whole(path: Path) -> None:
    """What has its final name can be read to its end."""
    match path.suffix:
        case ".parquet":
            pd.read_parquet(path)
        case ".json":
            json.loads(path.read_text(encoding="utf-8"))
        case ".csv":
            assert pd.read_csv(path).notna().all(axis=None), path
        case ".jsonl":
            text = path.read_text(encoding="utf-8")
            assert text.endswith("\n"), path
            assert all(json.loads(line) for line in text.splitlines()), path
        case ".safetensors":
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118
                    file.get_tensor(name)
        case ".png":
            assert path.read_bytes().endswith(b"IEND\xaeB`\x82"), path
        case ".pdf":
            assert path.read_bytes().rstrip().endswith(b"%%EOF"), path
        case ".html":
            assert path.read_text(encoding="utf-8").rstrip().endswith("</html>"), path
        case suffix:
            assert suffix == ".lock" or path.name == ".lock", f"a file that nobody checks: {path}"


def finals(directory: Path) -> dict[str, Path]:
    """Every file that is not a temporary one, by its name in the run, but for the seconds that items took."""
    files = (path for path in directory.rglob("*") if path.is_file())
    passing = (".tmp", "seconds.json")
    return {str(path.relative_to(directory)): path for path in files if not path.name.endswith(passing)}


@pytest.mark.parametrize("kills_of", slow_but(FEW.items(), [*FEW.items(), *MANY.items()]), ids="{0[0]} {0[1]}".format)
def test_killed_at_random_moments_and_resumed_it_ends_with_the_same_bits(kills_of, zygote, tiny_model, tmp_path):
    name, n_kills = kills_of
    words = commands(tiny_model)[name]
    whole = tmp_path / "whole"
    first = zygote.run([*words, "--out", str(whole)])
    assert first["status"] == 0, first["said"]
    expected = {file: path.read_bytes() for file, path in finals(whole).items()}
    moments = random.Random(name)
    kills = run = 0
    while kills < n_kills:
        out, run = tmp_path / str(run), run + 1
        begun: list[str] = []
        status = None
        while status != 0:  # a run is killed again and again, until it gets to its end before the kill
            moment, by = moments.uniform(0, first["seconds"] * 1.1), list(STATUS)[kills % len(STATUS)]
            done = zygote.run([*words, "--out", str(out), *begun], kill_after=moment, by=by)
            status = done["status"]
            assert status in (0, STATUS[by]), (by, done["said"])
            lines = [line for line in done["output"].splitlines() if line.startswith("cotlens: interrupted")]
            assert status != 130 or len(lines) == 1, done["output"]
            assert "Traceback" not in done["output"], done["output"]
            kills += status != 0
            assert_gone(done["children"], least=0)
            begun = ["--resume"] if out.exists() else []
            for path in finals(out).values():
                check_whole(path)
            if kills >= n_kills and status != 0:
                done = zygote.run([*words, "--out", str(out), *begun])
                status = done["status"]
                assert status == 0, done["said"]
        assert {file: path.read_bytes() for file, path in finals(out).items()} == expected
        assert not [path for path in out.rglob("*") if path.name.endswith(".tmp")]


FINISHED = {"entropy": "problems/*.parquet", "claims": "*/items/*/rows.parquet"}
"""What a command finishes one by one."""


@pytest.mark.parametrize("name", slow_but(["entropy"], FINISHED))
def test_memory_that_runs_out_is_one_line_and_what_was_finished_is_kept(name, zygote, tiny_model, tmp_path):
    words, out = commands(tiny_model)[name], tmp_path / "run"
    stopped = zygote.run([*words, "--out", str(out)], once=out / FINISHED[name], by=0)
    assert stopped["status"] == 2, stopped["output"]
    assert "Traceback" not in stopped["output"]
    assert [line[:22] for line in stopped["output"].splitlines() if "cotlens:" in line] == ["cotlens: out of memory"]
    kept = {path: path.read_bytes() for path in out.glob(FINISHED[name])}
    assert kept
    resumed = zygote.run([*words, "--out", str(out), "--resume"])
    assert resumed["status"] == 0, resumed["output"]
    assert all(path.read_bytes() == content for path, content in kept.items())
    for path in finals(out).values():
        check_whole(path)


def test_workers_do_not_outlive_a_killed_run_which_then_ends_with_the_same_rows(zygote, tmp_path):
    words = ["claims", "run", "wen2024/fig3b", "--preset", "smoke", "--out"]
    assert zygote.run([*words, str(tmp_path / "whole"), "--workers", "1"])["status"] == 0
    words = [*words, str(tmp_path / "r")]
    killed = zygote.run([*words, "--workers", "2"], kill_with_children=2)
    assert killed["status"] == -9
    assert_gone(killed["children"])
    assert zygote.run([*words, "--workers", "1", "--resume"])["status"] == 0
    whole, resumed = (finals(tmp_path / name) for name in ("whole", "r"))
    tables = [file for file in whole if file.endswith("rows.parquet")]
    assert tables
    assert all(resumed[file].read_bytes() == whole[file].read_bytes() for file in tables)


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_a_run_that_was_asked_to(by, zygote, tmp_path):
    words = ["claims", "run", "wen2024/fig3b", "--preset", "smoke", "--out", str(tmp_path / "r"), "--workers", "2"]
    asked = zygote.run(words, kill_with_children=2, by=by)
    assert asked["status"] == STATUS[by], asked["output"]
    assert "Traceback" not in asked["output"]
    assert_gone(asked["children"])


def assert_gone(children: list[int], least: int = 2) -> None:
    """So many workers at least there were when the signal came, and soon they are no more."""
    assert len(children) >= least
    deadline = time.monotonic() + 300  # a busy machine is no failure: they may still be importing
    while (left := [pid for pid in children if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
