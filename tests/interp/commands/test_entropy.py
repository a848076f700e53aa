"""`cotlens entropy` in-process, with the real built-in model."""

import json
from pathlib import Path

import pytest

from interp.cli import main
from probes import rows


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("entropy") / "run"
    assert main(["entropy", "--limit", "3", "--conditions", "cot", "no_cot", "filler", "--out", str(out)]) == 0
    return out


def test_a_run_leaves_rows_verdicts_and_figures(run):
    table = rows.read(run / "rows.parquet")
    assert set(table["condition"]) == {"cot", "no_cot", "filler"}
    assert table["unit"].nunique() == 3
    assert table.groupby(["layer", "head"]).ngroups == 30 * 9
    verdicts = json.loads((run / "verdicts.json").read_text())
    parts = {verdict["part"] for verdict in verdicts[0]["verdicts"]}
    assert "controlled: equal length" in parts
    assert "controlled: shuffled tokens" not in parts  # not measured, so not judged
    for name in ("sorted_bars", "paired_heads", "difference_maps"):
        assert (run / "figures" / f"{name}.png").stat().st_size > 10_000


def test_resume_of_a_finished_run_changes_nothing(run, capsys):
    before = (run / "rows.parquet").read_bytes()
    arguments = ["entropy", "--limit", "3", "--conditions", "cot", "no_cot", "filler", "--out", str(run)]
    assert main([*arguments, "--resume"]) == 0
    assert (run / "rows.parquet").read_bytes() == before
    assert main(arguments) == 2
    assert main([*arguments, "--resume", "--seed", "1"]) == 2
    assert (run / "rows.parquet").read_bytes() == before
    assert "holds another run (seed: 0 there, 1 here)" in capsys.readouterr().err


def test_paper_mode_keeps_the_papers_reduction_only(tmp_path):
    assert main(["entropy", "--limit", "2", "--paper-mode", "--out", str(tmp_path / "p")]) == 0
    table = rows.read(tmp_path / "p" / "rows.parquet")
    assert set(table["metric"]) == {"min"}
    assert set(table["scope"]) == {"all"}
    assert json.loads((tmp_path / "p" / "measurement.json").read_text())["paper_quirks"]["problems"] == 2


def test_other_metrics_are_measured_and_the_command_says_so(tmp_path):
    arguments = ["--limit", "2", "--conditions", "cot", "no_cot", "--metrics", "min", "effective_keys_mean"]
    assert main(["entropy", *arguments, "--out", str(tmp_path / "x")]) == 0
    table = rows.read(tmp_path / "x" / "rows.parquet")
    assert set(table["metric"]) == {"min", "effective_keys_mean"}
    assert (table.loc[table["metric"] == "effective_keys_mean", "value"] >= 1).all()
    (run,) = json.loads((tmp_path / "x" / "verdicts.json").read_text())
    assert "--metrics min effective_keys_mean" in run["command"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--conditions", "cot", "magic"], "unknown condition 'magic'"),
        (["--data", "missing.jsonl"], "no such file"),
        (["--limit", "0"], "at least one problem"),
        (["--device", "abacus"], "not available"),
        (["--model", "./nowhere"], "expected a directory"),
        (["--threads", "0"], "at least 1"),
        (["--metrics", "min", "magic"], "unknown metric 'magic'"),
        (["--metrics", "mean", "--paper-mode"], "paper mode measures the metric min"),
        (["--metrics", "mean", "--against", "builtin"], "add min to --metrics"),
        (["--frobnicate"], "frobnicate"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, message, tmp_path, capsys):
    assert main(["entropy", "--out", str(tmp_path / "x"), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_malformed_record_is_refused_before_a_model_is_loaded(tmp_path, capsys):
    data = tmp_path / "bad.jsonl"
    data.write_text('{"question": "q", "answer": "#### 1"}\n{"question": "q", "answer": "no marker"}\n')
    assert main(["entropy", "--data", str(data), "--model", "./nowhere", "--out", str(tmp_path / "x")]) == 2
    assert "bad.jsonl, line 2" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_refused_request_leaves_nothing_so_the_corrected_one_runs(tmp_path):
    out = ["entropy", "--limit", "2", "--out", str(tmp_path / "x")]
    for wrong in (
        ["--keep-tokens", "-1"],
        ["--batch-size", "0"],
        ["--model", "./nowhere"],
        ["--conditions", "cot", "cot"],
    ):
        assert main([*out, *wrong]) == 2
        assert not (tmp_path / "x").exists()


def test_paper_mode_compares_two_models(tmp_path, capsys):
    arguments = ["--limit", "2", "--paper-mode", "--against", "builtin", "--threads", "1"]
    assert main(["entropy", *arguments, "--out", str(tmp_path / "x")]) == 0
    runs = json.loads((tmp_path / "x" / "verdicts.json").read_text())
    assert [run["claim"] for run in runs] == ["wen2024/fig6", "wen2024/fig6-model"]
    assert [verdict["estimate"] for verdict in runs[1]["verdicts"]] == [0.0]  # the same model twice
    assert (
        runs[0]["command"] == "cotlens entropy --limit 2 --paper-mode --against builtin --threads 1 --out runs/again"
    )
    assert main(["entropy", "--conditions", "no_cot", "--against", "builtin", "--out", str(tmp_path / "y")]) == 2
    assert "add cot" in capsys.readouterr().err


def test_a_problem_that_cannot_be_measured_is_refused_before_any_is(tmp_path, capsys):
    data = tmp_path / "long.jsonl"
    records = [{"question": "How many?", "answer": "One. #### 1"}, {"question": "word " * 9000, "answer": "#### 2"}]
    data.write_text("\n".join(json.dumps(record) for record in records))
    assert main(["entropy", "--data", str(data), "--out", str(tmp_path / "x")]) == 2
    assert "problem long-00002: a passage of" in capsys.readouterr().err
    assert not list((tmp_path / "x").glob("problems/*"))
