"""One flipped bit in whatever a run keeps: noticed by name, or read as it was written; nothing else is believed."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hf_analysis.text.traces import Trace
from hf_analysis.text.written_traces import save_traces, saved_traces
from interp.cli import main
from interp.core.ledger import read_records, write_records
from interp.core.runs import read_config, read_provenance, run_directory
from interp.core.training_runs import WEIGHTS, load_run
from interp.report.sources import _record
from tests.fuzz.cases import damages, refused_in_one_line
from tests.fuzz.test_fuzz_files import TRAIN
from tests.interp.core.test_ledger import record
from toy_models.engine.weights import weights

TRIALS = 500


def flips(data: bytes, n: int):
    """n copies of `data` with one flipped bit each."""
    places = random.Random(0)
    for _ in range(n):
        changed = bytearray(data)
        changed[places.randrange(len(data))] ^= 1 << places.randrange(8)
        yield bytes(changed)


def noticed(path: Path, read: Callable[[], object], cases: Callable[[], None], n: int = TRIALS) -> int:
    """How many of n flipped bits in `path` are refused by name; every other reading is what was written."""
    whole, expected, refused = path.read_bytes(), read(), 0
    for data in flips(whole, n):
        cases()
        path.write_bytes(data)
        try:
            found = read()
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
            refused += 1
        else:
            assert found == expected
    path.write_bytes(whole)
    return refused


CONFIG = {"task": "parity", "parameters": {"n": 30, "k": 3, "cot": True}, "lr": 1e-4, "seed": 17, "words": ["a", "b"]}


def shown(out: Path) -> tuple[object, object]:
    """What a report says of a run."""
    found = _record(out)
    return found["config"], found["provenance"]


@pytest.mark.parametrize("read", [read_config, read_provenance, shown])
def test_the_record_of_a_run(read, cases, tmp_path):
    with run_directory(tmp_path / "run", CONFIG, resume=False) as out:
        pass
    assert noticed(out / "config.json", lambda: read(out), cases) > 0.9 * TRIALS


def test_verdicts(cases, tmp_path):
    path = tmp_path / "verdicts.json"
    write_records(path, [record("wen2024/fig2"), record("kim2024/thm5")])
    assert noticed(path, lambda: read_records(path), cases) > 0.9 * TRIALS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("weights") / "run"
    assert main([*TRAIN, "--out", str(out)]) == 0
    return out


def test_the_weights_of_a_training_run(run, cases):
    def read() -> dict[str, list]:
        return {name: tensor.tolist() for name, tensor in weights(load_run(run).model).items()}

    assert noticed(run / WEIGHTS, read, cases, n=40) > 36


def test_weights_of_an_earlier_version_have_no_checksum_and_are_read(run, tmp_path):
    from safetensors.torch import load_file, save_file

    whole, tensors = (run / WEIGHTS).read_bytes(), load_file(run / WEIGHTS)
    expected = weights(load_run(run).model)
    save_file(tensors, run / WEIGHTS)
    found = weights(load_run(run).model)
    (run / WEIGHTS).write_bytes(whole)
    assert found.keys() == expected.keys()
    assert all(found[name].equal(expected[name]) for name in expected)


def test_traces_that_a_model_has_written(cases, tmp_path):
    path = tmp_path / "traces.jsonl"
    parts = (("question", "Ann has 3."), ("", " "), ("reasoning", "Ü \u2028 3 + 4 = 7."), ("answer", "7"))
    made = [Trace(name, parts, "7") for name in ("a", "b")]
    save_traces(path, made)
    assert saved_traces(path) == made
    for data in (*damages(path.read_bytes(), 1000), b"", b"[]\n", b"3\n", json.dumps({"id": "a"}).encode()):
        cases()
        path.write_bytes(data)
        refused_in_one_line(lambda: saved_traces(path))
