"""On a Ray cluster: the same rows as in one process, whatever is lost meanwhile. A real cluster of two machines.

Everything of Ray runs in processes of its own: this one may not touch the network, not even its own machine. All
tests share one cluster and one process that is connected to it; the last two cost a machine, then that process.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from hf_analysis.measurement.measure import Measurer
from hf_analysis.measurement.request import Request
from hf_analysis.measurement.transport import Remote, begun, finished
from hf_analysis.models.loading import load_model
from hf_analysis.text.problems import load_problems
from interp.cli import main
from interp.core import ray_actors, ray_engine
from interp.core.claim import find_claims
from interp.core.engine import measure_item, rows_file
from tests.interp.core.two_machines import ROOT, Machines

pytest.importorskip("ray")
CLAIM = ["claims", "run", "wen2024/fig3b", "--preset", "smoke"]
OTHERS = ("against", "baseline_permuted", "baseline_untrained")
"""Directories of the models that a run's own is compared with."""


@pytest.fixture(scope="module")
def machines():
    found = Machines()
    yield found
    found.end()


class Driver:
    """A process that is connected to the cluster (`ray_driver`)."""

    def __init__(self, machines: Machines) -> None:
        command = machines.inside("a", sys.executable, "-m", "tests.interp.core.ray_driver", machines.address)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert self._answer() == "connected"

    def run(self, *words: str) -> dict:
        return self.ask(words=[*words, "--engine", "ray"])

    def ask(self, **order) -> dict:
        assert self.process.stdin is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return json.loads(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def driver(machines):
    started = Driver(machines)
    yield started
    assert started.process.stdin is not None
    started.process.stdin.close()
    started.process.wait(300)


@pytest.fixture(scope="module")
def entropy(tiny_model, tmp_path_factory) -> tuple[list[str], Path]:
    """A command that compares a model with another and with its baselines, and what it gives in one process."""
    from safetensors.torch import load_file, save_file

    other = tmp_path_factory.mktemp("other")
    for file in tiny_model.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    weights = load_file(other / "model.safetensors")
    weights["model.layers.0.self_attn.q_proj.weight"] *= 8
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    words = [
        "entropy", "--model", str(tiny_model), "--against", str(other), "--limit", "30", "--metrics", "min",
        "--conditions", "cot", "no_cot", "--keep-tokens", "1", "--threads", "1", "--offline",
        "--baseline", "permuted", "untrained",
    ]  # fmt: skip
    out = tmp_path_factory.mktemp("entropy") / "here"
    assert main([*words, "--out", str(out)]) == 0
    return words, out


class Once(threading.Thread):
    """Does something as soon as it is time."""

    def __init__(self, is_time: Callable[[], bool], act: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.is_time, self.act, self.done = is_time, act, False
        self.start()

    def run(self) -> None:
        deadline = time.monotonic() + 300
        while not self.done and time.monotonic() < deadline:
            if self.is_time():
                self.act()
                self.done = True
            time.sleep(0.005)


def workers(machines: Machines, title: str) -> list[int]:
    """This cluster's workers at work on `title`."""
    found = []
    for pid in machines.pids():
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(f"ray::{title}".encode()):
                found.append(pid)
        except OSError:  # it ended meanwhile
            continue
    return found


def measured(out: Path, n: int) -> Callable[[], bool]:
    """Whether so many problems of the run are finished."""
    return lambda: len(list(out.glob("problems/*.parquet"))) >= n


def same_files(first: Path, second: Path, *names: str) -> None:
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def same_entropy(here: Path, there: Path) -> None:
    own = ("rows.parquet", "tokens.parquet", "effects.json", "measurement.json", "config.json")
    others = [f"{name}/{file}" for name in OTHERS for file in ("measurement.json", "tokens.parquet")]
    same_files(here, there, *own, *others)


@pytest.mark.slow
def test_a_cluster_is_recognised(machines, driver):
    assert driver.ask(answers=machines.address) == "as Ray does"


def test_a_killed_worker_costs_its_item_only_and_rows_are_the_same(machines, driver, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    assert main([*CLAIM, "--workers", "1", "--out", str(here)]) == 0
    title = "measured_bytes"
    killer = Once(
        lambda: bool(workers(machines, title)), lambda: os.kill(workers(machines, title)[0], signal.SIGKILL)
    )
    done = driver.run(*CLAIM, "--item-gpus", "0.25", "--out", str(there))
    assert done["status"] == 0, done["output"]
    assert killer.done, "no worker was there to be killed"
    items = sorted(path.relative_to(here) for path in here.glob("*/items/*/rows.parquet"))
    assert items
    same_files(here, there, "wen2024-fig3b/rows.parquet", "wen2024-fig3b/verdicts.json", *map(str, items))


@pytest.mark.slow
def test_models_and_baselines_by_actors_of_which_one_is_killed_give_the_rows_of_one_process(
    machines, driver, entropy, tmp_path
):
    words, here = entropy
    there = tmp_path / "there"
    title = "Holder"
    killer = Once(measured(there, 3), lambda: os.kill(workers(machines, title)[0], signal.SIGKILL))
    done = driver.run(*words, "--actors", "2", "--actor-gpus", "0.5", "--out", str(there))
    assert done["status"] == 0, done["output"]
    assert killer.done, "no actor was there to be killed"
    same_entropy(here, there)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["entropy", "--model", "/nowhere", "--limit", "2"], "--model /nowhere: expected a directory"),
        (["entropy", "--against", "/nowhere", "--limit", "2"], "--model /nowhere: expected a directory"),
        ([*CLAIM, "--item-gpus", "3"], "room for 0 pieces of work with 1 cores and 3 GPUs"),
        (["entropy", "--actors", "9", "--actor-gpus", "0.4", "--limit", "2"], "with 1 cores and 0.4 GPUs, but 9 are"),
    ],
    ids=["no model", "no second model", "no machine with so many GPUs", "not enough parts of GPUs"],
)
def test_what_goes_wrong_on_the_cluster_is_one_line(driver, words, message, tmp_path):
    done = driver.run(*words, "--out", str(tmp_path / "out"))
    assert done["status"] == 2, done["output"]
    (line,) = [line for line in done["output"].splitlines() if line.startswith("cotlens:")]
    assert message in line
    assert "Traceback" not in done["output"]


@pytest.mark.slow
def test_an_actor_has_its_gpus_on_one_machine_and_several_share_machines_and_gpus(machines, driver):
    n_machines = 2 if machines.two else 1
    whole = driver.ask(placed=[n_machines, 1, 2])
    assert len({node for node, _, _ in whole}) == n_machines
    assert all((gpus, visible) == (["0", "1"], "0,1") for _, gpus, visible in whole)
    shared = driver.ask(placed=[4 * n_machines, 1, 0.5])
    places = [(node, *gpus) for node, gpus, _ in shared]
    assert len(set(places)) == 2 * n_machines
    assert all(places.count(place) == 2 for place in places)


@pytest.mark.slow
def test_a_machine_that_is_cut_off_costs_nothing_but_time(machines, driver, entropy, tmp_path):
    if not machines.two:
        pytest.skip(machines.why_one)
    words, here = entropy
    there = tmp_path / "there"
    cut = Once(measured(there, 3), machines.cut)
    done = driver.run(*words, "--actors", "2", "--out", str(there))
    assert done["status"] == 0, done["output"]
    assert cut.done
    same_entropy(here, there)


@pytest.mark.slow
def test_a_killed_driver_leaves_no_worker_behind_and_its_run_goes_on_without_a_cluster(
    machines, driver, entropy, tmp_path
):
    words, here = entropy
    there = tmp_path / "there"
    Once(measured(there, 3), driver.process.kill)
    with pytest.raises(json.JSONDecodeError):  # no answer
        driver.run(*words, "--out", str(there))
    begun_with = len(list(there.glob("problems/*.parquet")))
    assert 3 <= begun_with < 30
    deadline = time.monotonic() + 300  # a busy machine is no failure
    while workers(machines, "Holder") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not workers(machines, "Holder")
    assert main([*words, "--out", str(there), "--resume"]) == 0
    same_entropy(here, there)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*CLAIM, "--address", "auto"], "--address and --item-gpus need --engine ray"),
        ([*CLAIM, "--engine", "ray", "--item-gpus", "-1"], "--item-gpus must be 0 or more"),
        ([*CLAIM, "--engine", "ray", "--item-gpus", "1.5"], "--item-gpus must be 0 or more"),
        ([*CLAIM, "--engine", "ray", "--item-gpus", "nan"], "--item-gpus must be 0 or more"),
        (["entropy", "--engine", "ray", "--actor-gpus", "nan", "--limit", "2"], "--actor-gpus nan"),
        (["entropy", "--actors", "2"], "need --engine ray"),
        (["entropy", "--engine", "ray", "--actors", "0", "--limit", "2"], "--actors 0"),
        (["entropy", "--engine", "ray", "--actor-gpus", "1.5", "--limit", "2"], "--actor-gpus 1.5"),
        (["entropy", "--engine", "ray", "--address", "nowhere", "--limit", "2"], "expected auto, HOST:PORT"),
    ],
)
def test_options_that_contradict_each_other_are_refused_at_once(words, message, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*words, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not (out / "config.json").exists()


ELSEWHERE = """
import socket, sys
from interp.cli import main

with socket.create_server(("127.0.0.1", 0)) as other:  # who says nothing: the greeting fits into the line
    nobody, somebody = 9, other.getsockname()[1]
    for port in (nobody, somebody):
        address = f"127.0.0.1:{port}"
        print(main([*sys.argv[1:], "--engine", "ray", "--address", address]), file=sys.stderr)
"""


def test_an_address_where_nobody_or_somebody_else_listens_is_one_line(tmp_path):
    """In a process of its own, which may connect to itself."""
    command = [sys.executable, "-c", ELSEWHERE, *CLAIM, "--resume", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
        timeout=900, check=True,
    )  # fmt: skip
    nobody, first, somebody, second = done.stderr.splitlines()
    assert (first, second) == ("2", "2")
    assert "no Ray cluster answers at 127.0.0.1:9 (" in nobody
    assert "no Ray cluster answers at 127.0.0.1:" in somebody
    assert "timed out" in somebody


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.2", b"", b"\0\0\x06"])
def test_who_does_not_speak_as_ray_does_is_not_waited_for(said, monkeypatch):
    here, there = socket.socketpair()
    there.sendall(said)
    there.shutdown(socket.SHUT_WR)
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: here)
    complaint = "somebody answers at machine:1, but not as Ray does"
    with there, pytest.raises(ValueError, match=complaint), ray_engine.cluster("machine:1"):
        pass


def test_a_machine_too_busy_for_ray_is_one_line(monkeypatch):
    import ray

    def init(**_):
        raise Exception("The current node timed out during startup.\nMore.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", init)
    complaint = r"answers at this machine: .* timed out during startup\.$"
    with pytest.raises(ValueError, match=complaint), ray_engine.cluster(None):
        pass


@pytest.mark.parametrize("command", [CLAIM, ["entropy", "--limit", "2"]])
def test_without_ray_the_line_says_how_to_install_it(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main([*command, "--engine", "ray", "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'cotlens[ray]'" in capsys.readouterr().err


def test_what_an_actor_returns_comes_in_pieces_of_bounded_size(monkeypatch):
    monkeypatch.setattr(ray_actors, "PIECE", 10)
    holder = ray_actors.Holder()
    holder.hold(1, lambda: {"first": b"x" * 25, "none": b""})
    holder.hold(1, lambda: pytest.fail("it was there"))
    for key, sizes in (("first", [10, 10, 5]), ("none", [0])):
        n, data = holder.call("get", key)
        pieces = [data, *(holder.piece(i) for i in range(1, n))]
        assert [len(piece) for piece in pieces] == sizes
        assert b"".join(pieces) == holder.held[key]


def test_an_item_travels_as_its_file_and_one_that_is_too_large_is_refused(tmp_path, monkeypatch):
    (claim,) = find_claims(["wang2025/thm7"])
    item = claim.items(claim.preset("smoke"))[0]
    measure_item(claim.id, item, tmp_path)
    expected = rows_file(tmp_path, item).read_bytes()
    assert ray_engine.measured_bytes(claim.id, item)[0] == expected
    monkeypatch.setattr(ray_engine, "LARGEST", len(expected) - 1)
    with pytest.raises(ValueError, match=r"are [\d,]+ bytes, more than the [\d,]+ that a task may return"):
        ray_engine.measured_bytes(claim.id, item)


def test_a_group_of_problems_travels_unchanged(tiny_model):
    problems = load_problems("builtin", limit=3)
    request = Request(problems, ("cot", "no_cot"), keep_tokens=1, batch_size=2)
    measurer = Measurer(load_model(str(tiny_model), device="cpu", offline=True), request)
    identity, groups = begun(Remote(measurer).begin())
    assert (identity, groups) == (json.loads(json.dumps(measurer.begin()[0])), [range(2), range(2, 3)])
    for group in groups:
        sent = list(measurer.measuring(group))
        received = list(finished(Remote(measurer).measured(group), problems))
        assert [one.problem for one in received] == [one.problem for one in sent]
        for one, other in zip(received, sent):
            assert one.rows.equals(other.rows)
            assert one.facts == json.loads(json.dumps(other.facts))
            assert (one.tokens is None) == (other.tokens is None)
            if one.tokens is not None:  # texts come back as str instead of object: in a file they are the same
                pd.testing.assert_frame_equal(one.tokens, other.tokens, check_dtype=False, check_exact=True)
