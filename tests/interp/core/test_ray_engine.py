"""On a Ray cluster: the same rows as in one process, even if a worker is killed. A real cluster of two workers.

Everything of Ray runs in processes of its own: this one may not touch the network, not even its own machine.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interp.cli import main

pytest.importorskip("ray")
CLAIM = ["claims", "run", "wen2024/fig3b", "--preset", "smoke"]
CLUSTERS: dict[str, int] = {}
"""The process that started the cluster at an address."""
CLUSTER = """
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 0, "include_dashboard": False})
print(cluster.address, flush=True)
input()
cluster.shutdown()
"""


@pytest.fixture(scope="module")
def address():
    environment = {**os.environ, "RAY_worker_niceness": "0"}  # else its workers wait for whatever else is tested
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    found = next(line for line in iter(process.stdout.readline, "") if line.count(":") == 1)
    CLUSTERS[found.strip()] = process.pid
    yield found.strip()
    process.communicate("\n", timeout=60)


def cotlens(*words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "interp.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def workers(title: str, address: str) -> list[int]:
    """Process ids of this cluster's workers at work on `title`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            pid = int(entry.parent.name)
            if entry.read_bytes().startswith(f"ray::{title}".encode()) and CLUSTERS[address] in ancestors(pid):
                found.append(pid)
        except OSError:  # it ended meanwhile
            continue
    return found


def ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        yield pid


class KillOne(threading.Thread):
    """Kills one of Ray's workers soon after it began to work on `title`."""

    def __init__(self, title: str, address: str, after: float) -> None:
        super().__init__(daemon=True)
        self.title, self.address, self.after = title, address, after
        self.killed: int | None = None

    def run(self) -> None:
        deadline = time.monotonic() + 120
        while self.killed is None and time.monotonic() < deadline:
            for pid in workers(self.title, self.address)[:1]:
                time.sleep(self.after)
                os.kill(pid, signal.SIGKILL)
                self.killed = pid
            time.sleep(0.01)


def same_files(first: Path, second: Path, *names: str) -> None:
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_a_killed_worker_costs_its_item_only_and_rows_are_the_same(address, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    assert main([*CLAIM, "--workers", "1", "--out", str(here)]) == 0
    killer = KillOne("measured_bytes", address, after=0.3)
    killer.start()
    done = cotlens(*CLAIM, "--engine", "ray", "--address", address, "--out", str(there))
    assert done.returncode == 0, done.stderr
    assert killer.killed, "no worker was there to be killed"
    same_files(here, there, *(f"wen2024-fig3b/{name}" for name in ("rows.parquet", "verdicts.json")))
    items = sorted(path.relative_to(here) for path in here.glob("*/items/*/rows.parquet"))
    assert items
    same_files(here, there, *map(str, items))


@pytest.mark.slow
def test_entropy_by_two_actors_of_which_one_is_killed_gives_the_rows_of_one_process(address, tiny_model, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    options = [
        "--model",
        str(tiny_model),
        "--limit",
        "12",
        "--conditions",
        "cot",
        "no_cot",
        "--threads",
        "1",
        "--keep-tokens",
        "1",
        "--offline",
    ]
    assert main(["entropy", *options, "--out", str(here)]) == 0
    killer = KillOne("Loaded.call", address, after=0.05)
    killer.start()
    where = ["--engine", "ray", "--address", address, "--actors", "2"]
    done = cotlens("entropy", *options, *where, "--out", str(there))
    assert done.returncode == 0, done.stderr
    assert killer.killed, "no actor was there to be killed"
    same_files(here, there, "rows.parquet", "tokens.parquet", "effects.json", "measurement.json", "config.json")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["entropy", "--model", "/nowhere", "--limit", "2"], "--model /nowhere: expected a directory"),
        ([*CLAIM, "--item-gpus", "1"], "room for 0 pieces of work with 1 cores and 1 GPUs"),
    ],
    ids=["error of an actor", "too few GPUs"],
)
def test_what_goes_wrong_on_the_cluster_is_one_line(address, words, message, tmp_path):
    done = cotlens(*words, "--engine", "ray", "--address", address, "--out", str(tmp_path / "out"))
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("cotlens:")]
    assert message in line
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*CLAIM, "--address", "auto"], "--address and --item-gpus need --engine ray"),
        ([*CLAIM, "--engine", "ray", "--item-gpus", "-1"], "--item-gpus must be 0 or more"),
        (["entropy", "--actors", "2"], "need --engine ray"),
        (["entropy", "--engine", "ray", "--actors", "0", "--limit", "2"], "--actors 0"),
        (["entropy", "--engine", "ray", "--against", "builtin", "--limit", "2"], "not with --engine ray"),
    ],
)
def test_options_that_contradict_each_other_are_refused_at_once(words, message, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*words, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
