"""On a Ray cluster: the same rows as in this process, even if a worker is killed. A real cluster of two workers."""

import dataclasses
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from interp.claim import Item, load_claims
from interp.cli import main
from interp.ray_engine import OnRay, cluster, sharded
from interp.sweep import run_claim
from tests.interp.test_sweep import outcome

pytest.importorskip("ray")
CLAIM = "wen2024/fig3b"


@pytest.fixture(scope="module")
def address():
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 0})
    yield started.address
    started.shutdown()


@pytest.fixture(scope="module")
def preset():
    """Four runs of a second or so."""
    smoke = load_claims()[CLAIM].presets["smoke"]
    return dataclasses.replace(smoke, widths=(dataclasses.replace(smoke.widths[0], budget=4096),), seeds=4)


@pytest.fixture(scope="module")
def whole(preset, tmp_path_factory):
    """The files of an undisturbed run in this process."""
    out = tmp_path_factory.mktemp("whole") / "run"
    run_claim(load_claims()[CLAIM], "smoke", out, preset=preset)
    return outcome(out)


def workers(title: str) -> list[int]:
    """Process ids of Ray's workers at work on `title`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().startswith(f"ray::{title}".encode()):
                found.append(int(entry.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return found


def kill_one(title: str, killed: list[int], after: float = 0.2) -> threading.Thread:
    """Kills one of Ray's workers soon after it began to work on `title`."""

    def watch() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not killed:
            for pid in workers(title):
                time.sleep(after)
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_killed_worker_costs_its_item_only_and_rows_are_the_same(address, preset, whole, tmp_path):
    killed: list[int] = []
    watch = kill_one("measured_bytes", killed)
    said = []
    run_claim(load_claims()[CLAIM], "smoke", tmp_path / "r", preset=preset, engine=OnRay(address), report=said.append)
    watch.join()
    assert killed, "no worker was there to be killed"
    assert len(said) == 4
    assert outcome(tmp_path / "r") == whole


@pytest.mark.slow
def test_entropy_by_two_actors_of_which_one_is_killed_gives_the_rows_of_one_process(address, tmp_path):
    options = ["--limit", "6", "--conditions", "cot", "no_cot", "--threads", "1", "--keep-tokens", "1", "--offline"]
    assert main(["entropy", *options, "--out", str(tmp_path / "here")]) == 0
    killed: list[int] = []
    watch = kill_one("Loaded.call", killed, after=3.0)
    there = ["--engine", "ray", "--address", address, "--actors", "2", "--out", str(tmp_path / "there")]
    assert main(["entropy", *options, *there]) == 0
    watch.join()
    assert killed, "no actor was there to be killed"
    same = ("rows.parquet", "tokens.parquet", "verdicts.json", "measurement.json")
    for name in same:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name
    assert json.loads((tmp_path / "there" / "config.json").read_text())["config"]["threads"] == 1


@pytest.mark.slow
def test_errors_on_the_cluster_arrive_as_themselves(address, tmp_path):
    bad = Item("bad", {"nothing": "here"})
    with pytest.raises(ValueError, match="does not find it"):
        next(OnRay(address).measured("none2024/none", [bad], tmp_path))

    def load():
        raise ValueError("no such model")

    with (
        sharded(load, 1, address, 1, 0) as calls,
        pytest.raises(ValueError, match=r"^no such model$"),
    ):
        list(calls("measured", [range(1)]))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_work_that_the_cluster_could_never_run_is_refused(address):
    with pytest.raises(ValueError, match="asks for 1 and 1: it would wait for ever"), cluster(address, gpus=1):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["claims", "run", CLAIM, "--address", "auto"], "--address and --item-gpus need --engine ray"),
        (["claims", "run", CLAIM, "--engine", "ray", "--item-gpus", "-1"], "--item-gpus must be 0 or more"),
        (["entropy", "--actors", "2"], "need --engine ray"),
        (["entropy", "--engine", "ray", "--actors", "0", "--limit", "2"], "--actors 0"),
        (["entropy", "--engine", "ray", "--against", "builtin", "--limit", "2"], "does not go with --engine ray"),
    ],
)
def test_options_that_contradict_each_other_are_refused_at_once(arguments, message, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*arguments, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
