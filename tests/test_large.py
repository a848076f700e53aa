"""Does a measurement give the same numbers where its rows are taken to be too many for memory?"""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import large
from interp.cli import main
from interp.core.effects import read_effects
from interp.report.sources import read_runs


def test_a_small_run_of_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = large.problems
    monkeypatch.setattr(large, "problems", lambda n: small(n, n_layers=2, n_heads=3))
    record = large.main(5_000, tmp_path)
    assert record["write"]["peak_gb"] > 0
    found = read_effects(tmp_path / "effects.json")
    assert len(found) == len(large.METRICS) * len(large.SCOPES)
    assert all(effect.low < -0.1 < effect.high or abs(effect.estimate + 0.1) < 0.02 for effect in found)
    assert "synthetic on none, means over heads" in (tmp_path / "report.html").read_text()
    (run,) = read_runs([tmp_path])
    assert run.table["unit"].nunique() == found[0].problems


def test_a_measurement_in_parts_finds_what_one_in_a_file_finds(tmp_path: Path, monkeypatch) -> None:
    options = ["entropy", "--limit", "3", "--conditions", "cot", "no_cot", "--metrics", "min", "sink_mass"]
    assert main([*options, "--out", str(tmp_path / "file")]) == 0
    shutil.copytree(tmp_path / "file", tmp_path / "parts")
    for name in ("rows.parquet", "effects.json"):
        (tmp_path / "parts" / name).unlink()
    shutil.rmtree(tmp_path / "parts" / "figures")
    monkeypatch.setattr("interp.commands.entropy.LARGE", 0)
    assert main([*options, "--out", str(tmp_path / "parts"), "--resume"]) == 0
    assert not (tmp_path / "parts" / "rows.parquet").exists()
    effects = [json.loads((tmp_path / name / "effects.json").read_text())["effects"] for name in ("file", "parts")]
    assert effects[0] == effects[1] != []
    figures = [sorted(file.name for file in (tmp_path / name / "figures").iterdir()) for name in ("file", "parts")]
    assert figures[0] == figures[1] != []
    assert main(["report", str(tmp_path / "parts"), "--out", str(tmp_path / "parts.html")]) == 0
