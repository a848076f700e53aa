"""`cotlens probe`: a trained run is as its theory says, noise finds nothing, bad input is one line."""

import json
import shutil

import numpy as np
import pytest
import torch

from interp.cli import main
from interp.commands.probe_words import PROBE, probe_legend
from interp.core.probe_rows import effect_rows
from interp.core.training_runs import load_run
from interp.report.pretrained import pretrained_data
from interp.report.sources import read_runs
from probes import rows
from probes.base.lock import LOCK, locked
from probes.rows import with_settings

TRAIN = [
    "train", "parity", "--n", "8", "--k", "2", "--d-model", "32", "--d-mlp", "128", "--budget", "16384",
    "--eval-every", "2048", "--batch-size", "128", "--n-validation", "32", "--n-test", "64", "--lr", "3e-3",
    "--no-stop-when-perfect",
]  # fmt: skip
SMALL = ["--inputs", "64", "--edited", "32"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("probe") / "run"
    assert main([*TRAIN, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def probed(trained, tmp_path_factory):
    out = tmp_path_factory.mktemp("probed")
    assert main(["probe", str(trained), *SMALL, "--out", str(out), "--json", str(out / "same.json")]) == 0
    return out


def refused(capsys, arguments) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("cotlens: ")
    return error


def test_rows_figures_and_summary_are_written(probed):
    table = rows.read(probed / "rows.parquet")
    assert {"top1_hit", "most_mass", "probe_accuracy", "probe_control", "step_accuracy", "effect_p"} <= set(
        table["metric"]
    )
    edits = {"knockout", "mean", "resample", "patch", "edge"}
    assert set(table["scope"]) >= edits | {"clean", "at_step", "everywhere", "random"}
    found = json.loads((probed / "summary.json").read_text())
    assert set(found) == {"accuracy", "attention", "linear", "knockouts", "effects"}
    assert found == json.loads((probed / "same.json").read_text())
    drawn = {p.name for p in (probed / "figures").iterdir()}
    assert drawn == {f"{n}.{s}" for n in ("assignment", "decodable", "knockouts") for s in ("png", "pdf")}
    linear = with_settings(table[table["metric"] == "probe_accuracy"])
    assert set(linear["pos"]) == set(range(10)), "every position is probed"
    assert set(zip(linear["layer"], linear["hook"])) == {(0, f"hook_resid_{p}") for p in ("pre", "mid", "post")}


def test_the_trained_model_works_as_the_theory_says(probed):
    found = json.loads((probed / "summary.json").read_text())
    (head,) = found["attention"]
    assert head["steps served"] == "2 of 2"
    for step in found["knockouts"]:
        assert step["clean"] == 1
        assert step["its keys hidden from it"] < 0.8
        assert step["random keys hidden from it"] > 0.9
    second = {line["place"]: line["accuracy"] for line in found["linear"] if line["state"] == 2}
    assert second["0 resid_post"] > 0.9
    assert second["0 resid_pre"] < 0.8
    edge = [line for line in found["effects"] if line["edit"] == "edge"]
    assert all(line["effect"] > 0 and line["p"] < 0.01 for line in edge)


def test_every_table_has_its_legend_and_says_nothing_of_what_it_does_not_show(probed):
    found = json.loads((probed / "summary.json").read_text())
    assert set(PROBE) == set(found)
    for name, lines in found.items():
        terms = [line.split(": ")[0] for line in probe_legend(name, lines)]
        assert terms == list(PROBE[name]), "every word of the legend is a column or an edit of the table"
    assert [line.split(":")[0] for line in probe_legend("effects", found["effects"][:1])] == ["knockout", "step"]
    assert probe_legend("linear", []) == []


def test_the_default_place_is_the_run_and_the_same_seed_gives_the_same_rows(trained, probed, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    before = {p.name: p.read_bytes() for p in run.iterdir() if p.is_file()}
    assert main(["probe", str(run), *SMALL]) == 0
    assert "\ncontrol: the same probe, asked for labels drawn at random" in capsys.readouterr().out
    assert rows.read(run / "probe" / "rows.parquet").equals(rows.read(probed / "rows.parquet"))
    assert {p.name: p.read_bytes() for p in run.iterdir() if p.is_file()} == before, "the run itself is left alone"


def test_the_loaded_model_is_the_trained_one_and_its_twin_is_not(trained):
    run = load_run(trained)
    steps, answers = run.test.supervised, run.test.answers
    with torch.no_grad():
        right = (run.model(run.test.inputs)[:, steps].argmax(-1) == answers).double().mean()
        guessed = (run.untrained(run.test.inputs)[:, steps].argmax(-1) == answers).double().mean()
    assert right == 1
    assert guessed < 0.8


def test_bad_input_is_one_line(trained, tmp_path, capsys):
    assert "not a run directory" in refused(capsys, ["probe", str(tmp_path / "nowhere")])
    claim = tmp_path / "claim"
    claim.mkdir()
    (claim / "config.json").write_text(json.dumps({"config": {"claim": "wen2024/fig2"}}))
    assert "a run of wen2024/fig2, not of cotlens train" in refused(capsys, ["probe", str(claim)])
    unfinished = tmp_path / "unfinished"
    shutil.copytree(trained, unfinished)
    (unfinished / "model.safetensors").unlink()
    assert "no model.safetensors: finish it" in refused(capsys, ["probe", str(unfinished)])
    damaged = tmp_path / "damaged"
    shutil.copytree(trained, damaged)
    (damaged / "model.safetensors").write_bytes(b"nothing")
    assert "is damaged" in refused(capsys, ["probe", str(damaged)])
    config = json.loads((damaged / "config.json").read_text())
    for change, message in (
        ({"task": "partiy"}, "unknown task 'partiy'"),
        ({"decoder": {"width": 3}}, "this version"),
    ):
        (damaged / "config.json").write_text(json.dumps({"config": {**config["config"], **change}}))
        assert message in refused(capsys, ["probe", str(damaged)])
    assert "--inputs must be at least 40" in refused(capsys, ["probe", str(trained), "--inputs", "3"])
    assert "--positions 99: the inputs" in refused(capsys, ["probe", str(trained), "--positions", "0", "99"])
    assert "--positions 1 1: none twice" in refused(capsys, ["probe", str(trained), "--positions", "1", "1"])
    assert "is a file" in refused(capsys, ["probe", str(trained), "--out", str(trained / "config.json")])


def test_effects_that_are_there_are_found_and_noise_only_at_the_stated_rate():
    """Over 60 draws of 4 heads without an effect some head is found in at most 5%, by binomial limits."""
    labels = {"run": "r", "condition": "c", "unit": "0", "setting": ""}
    places = [(layer, head) for layer in range(2) for head in range(2)]
    false = 0
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        clean, edited = torch.randn(19, 1, generator=generator), torch.randn(4, 19, 1, generator=generator)
        found = effect_rows(clean, edited, places, "mean", labels, seed)
        false += bool((found[found["metric"] == "effect_p"]["value"] < 0.05).any())
    assert false <= 10  # the 99.97% point of Binomial(60, 0.05)
    edited[3] -= 3
    found = with_settings(effect_rows(clean, edited, places, "mean", labels, 0))
    clear = found[(found["metric"] == "effect_p") & (found["value"] < 0.05)]
    assert set(zip(clear["layer"], clear["head"])) == {(1, 1)}
    wide = found[(found["layer"] == 1) & (found["head"] == 1)].pivot_table(
        index="step", columns="metric", values="value"
    )
    assert (wide["effect_low"] < wide["effect"]).all()
    assert np.allclose(wide["effect"], (clean - edited[3]).mean(0).numpy(), atol=1e-6)


def test_metrics_are_those_of_pretrained_models_and_reach_the_explorer(trained, probed, tmp_path, capsys):
    metrics = ["min", "effective_keys_mean", "top1_mass_max"]
    assert main(["probe", str(trained), *SMALL, "--out", str(tmp_path), "--metrics", *metrics]) == 0
    table = rows.read(tmp_path / "rows.parquet")
    added = table["metric"].isin(metrics)
    assert list(table[added]["metric"].unique()) == metrics
    assert table[~added].reset_index(drop=True).equals(rows.read(probed / "rows.parquet"))
    (explorer,) = pretrained_data(read_runs([tmp_path]))
    assert {"min", "effective_keys_mean", "top1_mass_max"} <= {name for name, *_ in explorer["metrics"]}
    assert "unknown metric 'magic'" in refused(capsys, ["probe", str(trained), "--metrics", "magic"])


def test_probes_never_replace_the_rows_of_a_run(trained, capsys, tmp_path):
    before = {path: path.read_bytes() for path in trained.glob("*") if path.is_file() and path.name != LOCK}
    assert "holds a run" in refused(capsys, ["probe", str(trained), *SMALL, "--out", str(trained)])
    rows.write(tmp_path / "rows.parquet", rows.read(trained / "rows.parquet"))
    assert "holds a run" in refused(capsys, ["probe", str(trained), *SMALL, "--out", str(tmp_path)])
    config = str(trained / "config.json")
    assert "a run needs that file" in refused(capsys, ["probe", str(trained), *SMALL, "--json", config])
    assert "ends in .html" in refused(capsys, ["report", str(trained), "--out", config])
    assert "ends in .json" in refused(capsys, ["claims", "list", "--json", str(trained / "rows.parquet")])
    assert all(path.read_bytes() == data for path, data in before.items())


def test_a_second_process_that_probes_into_one_directory_is_refused(trained, capsys, tmp_path):
    with locked(tmp_path / "out" / LOCK, wait=False):
        words = ["probe", str(trained), *SMALL, "--out", str(tmp_path / "out")]
        assert "another process is working in" in refused(capsys, words)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [LOCK]
