"""`cotlens heads` in-process, on the real built-in model."""

import json
from pathlib import Path

import pytest

from interp.cli import main
from probes import rows


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("heads") / "run"
    assert main(["heads", "--limit", "2", "--top", "3", "--out", str(out)]) == 0
    return out


def test_a_run_leaves_rows_a_table_and_a_figure(run):
    table = rows.read(run / "rows.parquet")
    assert set(table["condition"]) == {"cot_clean", "repeated"}
    assert table[table["layer"] >= 0].groupby(["layer", "head"]).ngroups == 30 * 9
    found = json.loads((run / "heads.json").read_text())
    kinds = [record["kind"] for record in found]
    assert kinds == [k for k in dict.fromkeys(kinds) for _ in range(3)]
    assert "copy_from_question" in kinds
    best = {record["kind"]: record for record in reversed(found)}
    for kind in ("previous_token", "induction", "sink"):  # a pretrained language model has these
        assert best[kind]["score"] > 0.5 > 5 * best[kind]["chance"]
    assert (run / "figures" / "heads.png").stat().st_size > 10_000


def test_resume_of_a_finished_run_changes_nothing(run, capsys):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    arguments = ["heads", "--limit", "2", "--out", str(run)]
    assert main(arguments) == 2
    assert main([*arguments, "--seed", "1", "--resume"]) == 2
    assert "holds another run (seed: 0 there, 1 here)" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top", "0"], "at least 1"),
        (["--data", "missing.jsonl"], "no such file"),
        (["--limit", "0"], "at least one problem"),
        (["--model", "./nowhere"], "expected a directory"),
        (["--frobnicate"], "frobnicate"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, message, tmp_path, capsys):
    assert main(["heads", "--out", str(tmp_path / "x"), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x").exists()
