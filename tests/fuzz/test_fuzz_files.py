"""Every kind of file that is read, damaged: refused with its name or read as something valid; nothing is spoiled."""

import json
import shutil

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hf_analysis.models.loading import load_model
from hf_analysis.text.problems import load_problems
from interp.cli import main
from interp.core.ledger import read_records
from interp.core.runs import read_config
from probes import rows
from probes.base import checkpoint
from tests.fuzz.cases import command_refuses_or_works, contents, damaged, refused_in_one_line

LAX = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
RECORD = {"question": "Ann has 3 apples and buys 4. How many?", "answer": "3+4=<<3+4=7>>7\n#### 7"}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def line(record: object) -> bytes:
    return json.dumps(record).encode()


LINES = st.one_of(
    st.just(line(RECORD)),
    JSON_VALUES.map(line),
    st.fixed_dictionaries({"question": JSON_VALUES, "answer": JSON_VALUES}).map(line),
    st.text(max_size=30).map(lambda text: line({"question": text, "answer": f"{text} #### {text}"})),
    st.fixed_dictionaries({"question": st.just("q"), "answer": st.text(max_size=9).map("#### ".__add__)}).map(line),
    st.binary(max_size=40),
    st.sampled_from([b"", b"\x00", b"\xff\xfe", b"{", b"null", b'{"question": "q"}', b'{"answer": "#### 1"}']),
)


@settings(max_examples=500, suppress_health_check=LAX)
@given(
    lines=st.lists(LINES, max_size=5),
    end=st.sampled_from([b"\n", b"\r\n", b"\n\n"]),
    start=st.sampled_from([b"", b"", b"\xef\xbb\xbf"]),
)
@example(lines=[b"x" * 10_000_000], end=b"\n", start=b"")
@example(lines=[line({**RECORD, "question": "q" * 10_000_000})], end=b"\n", start=b"")
@example(lines=[line({**RECORD, "id": 1}), line({**RECORD, "id": 1})], end=b"\n", start=b"")
@example(lines=[b"[" * 100_000], end=b"\n", start=b"")
@example(lines=[line({**RECORD, "answer": "#### " + "9" * 100_000})], end=b"\n", start=b"")
def test_a_file_of_problems(lines, end, start, cases, tmp_path):
    cases()
    path = tmp_path / "problems.jsonl"
    path.write_bytes(start + end.join(lines) + end)
    refused = refused_in_one_line(lambda: load_problems(str(path)))
    if lines and all(part == line(RECORD) for part in lines):
        assert not refused


def test_a_command_refuses_bad_problems_before_it_loads_a_model(cases, tmp_path):
    @settings(max_examples=40, suppress_health_check=LAX)
    @given(lines=st.lists(LINES, max_size=3))
    def refuses(lines: list[bytes]) -> None:
        cases()
        path = tmp_path / "problems.jsonl"
        path.write_bytes(b"\n".join(lines))
        words = ["entropy", "--data", str(path), "--model", str(tmp_path / "none"), "--out", str(tmp_path / "out")]
        assert command_refuses_or_works(words, tmp_path) == 2

    refuses()


TRAIN = [
    "train", "parity", "--n", "6", "--k", "2", "--d-model", "8", "--budget", "128", "--batch-size", "64",
    "--eval-every", "64", "--n-validation", "8", "--n-test", "8", "--checkpoint-seconds", "0",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of `cotlens train`, and its checkpoint."""
    out = tmp_path_factory.mktemp("trained") / "run"
    assert main([*TRAIN, "--out", str(out)]) == 0
    return out


def test_a_table_of_problems(cases, tmp_path):
    import pandas as pd

    path = tmp_path / "problems.parquet"
    pd.DataFrame([RECORD] * 3).to_parquet(path)
    whole = path.read_bytes()

    @settings(max_examples=150, suppress_health_check=LAX)
    @given(damaged(whole))
    def reads(data: bytes) -> None:
        cases()
        path.write_bytes(data)
        refused_in_one_line(lambda: load_problems(str(path)))

    reads()


def test_rows(run, cases, tmp_path):
    path = tmp_path / "rows.parquet"
    whole = (run / "rows.parquet").read_bytes()

    @settings(max_examples=300, suppress_health_check=LAX)
    @given(damaged(whole))
    def reads(data: bytes) -> None:
        cases()
        path.write_bytes(data)
        if not refused_in_one_line(lambda: rows.read(path)):
            rows.validate(rows.read(path))

    reads()


def test_a_checkpoint_is_whole_or_refused(run, cases, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    whole = (run / "checkpoint.safetensors").read_bytes()
    tensors, state = checkpoint.load(run / "checkpoint.safetensors")

    @settings(max_examples=300, suppress_health_check=LAX)
    @given(damaged(whole))
    def loads(data: bytes) -> None:
        cases()
        path.write_bytes(data)
        if not refused_in_one_line(lambda: checkpoint.load(path)):
            found, text = checkpoint.load(path)
            assert text == state
            assert found.keys() == tensors.keys()
            assert all(torch.equal(found[name], tensors[name]) for name in tensors)

    loads()


def header(text: str, size: int | None = None) -> bytes:
    return (len(text) if size is None else size).to_bytes(8, "little") + text.encode()


@pytest.mark.parametrize(
    "data",
    [
        header("{}", 2**63),
        header("{}", 10**12),
        header("{" * 50_000),
        header(json.dumps({"w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}})),
        header(json.dumps({"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})) + b"\0" * 4,
        header(json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})) + b"\0" * 4,
        header(json.dumps({"w": {"dtype": "EVIL", "shape": [1], "data_offsets": [0, 4]}})) + b"\0" * 4,
        header(json.dumps({"__metadata__": {"state": 7}})),
        header(json.dumps({"__metadata__": {"state": "00000000 []"}})),
        header(json.dumps({"__metadata__": {}})),
    ],
    ids=lambda data: repr(data[8:30]),
)
def test_hostile_headers_are_refused(data, cases, tmp_path):
    cases()
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(data)
    assert refused_in_one_line(lambda: checkpoint.load(path))


def test_a_training_run_with_a_damaged_checkpoint_is_refused_and_left_as_it_is(run, cases, tmp_path):
    whole, name = contents(run), "checkpoint.safetensors"
    out = tmp_path / "run"

    @settings(max_examples=25, suppress_health_check=LAX)
    @given(damaged(whole[name]))
    def resumes(data: bytes) -> None:
        cases()
        for file in ("config.json", name):
            (out / file).parent.mkdir(parents=True, exist_ok=True)
            (out / file).write_bytes(data if file == name else whole[file])
        if data != whole[name]:
            assert command_refuses_or_works([*TRAIN, "--out", str(out), "--resume"], out) == 2

    resumes()


def test_a_model_directory(cases, tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")

    @settings(max_examples=25, suppress_health_check=LAX)
    @given(damaged(whole[: size + 8]))
    def loads(head: bytes) -> None:
        cases()
        path.write_bytes(head + whole[size + 8 :])
        refused_in_one_line(lambda: load_model(str(tmp_path), device="cpu"))

    loads()


@pytest.mark.parametrize(("name", "read"), [("config.json", "config"), ("verdicts.json", "verdicts")])
def test_json_files(name, read, cases, tmp_path):
    path = tmp_path / name
    reads = {"config": lambda: read_config(tmp_path), "verdicts": lambda: read_records(path)}[read]

    @settings(max_examples=200, suppress_health_check=LAX)
    @given(st.one_of(JSON_VALUES.map(line), damaged(b'{"config": {"claim": "x"}}'), st.binary(max_size=50)))
    @example(b"[" * 100_000)
    def refuses(data: bytes) -> None:
        cases()
        path.write_bytes(data)
        refused_in_one_line(reads)

    refuses()


def test_a_report_of_a_damaged_run_is_refused_in_one_line(run, cases, tmp_path):
    whole = contents(run)

    @settings(max_examples=25, suppress_health_check=LAX)
    @given(
        st.sampled_from(["rows.parquet", "config.json"]).flatmap(lambda n: st.tuples(st.just(n), damaged(whole[n])))
    )
    def reports(change: tuple[str, bytes]) -> None:
        cases()
        name, data = change
        for file in ("rows.parquet", "config.json"):
            (tmp_path / "run").mkdir(exist_ok=True)
            (tmp_path / "run" / file).write_bytes(data if file == name else whole[file])
        command_refuses_or_works(["report", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")], tmp_path)
        (tmp_path / "page.html").unlink(missing_ok=True)

    reports()
