"""`cotlens train` and `cotlens probe` for every recipe: a run is left, resumed with the same bits, loaded, probed."""

import json

import pytest
import torch

from hf_analysis import load_model
from interp.cli import main
from interp.commands.train import _options
from interp.core.runs import read_config
from interp.core.training_runs import load_run
from probes import rows
from probes.base import checkpoint
from tests.tiers import slow_but
from toy_models.engine.evaluation import teacher_forced_logits
from toy_models.engine.forward import HookedForward
from toy_models.engine.recipe import load_recipes, train_task
from toy_models.task import task_class

HELD = ["--n-validation", "16", "--n-test", "48"]
DECODER = ["--d-model", "16", "--budget", "256", "--batch-size", "64", "--eval-every", "128", *HELD]
STAGES = [
    "--first",
    "2",
    "--updates",
    "2",
    "--batch-size",
    "8",
    "--eval-every",
    "1",
    "--d-token",
    "8",
    "--d-mlp",
    "16",
]
LEGO = ["--group", "C3", "--length", "3", "--n-variables", "8", *HELD]
INCONTEXT = ["--n-patterns", "6", "--n-steps", "2", "--n-examples", "4", *HELD]
KFOLD = ["--k", "2", "--n", "4", *HELD]
TINY = {
    "parity decoder": ["--n", "8", "--k", "2", *DECODER],
    "parity theory": ["--n", "8", "--k", "2", "--d-model", "64", "--m", "16", "--batch", "64", "--eps", "3", *HELD],
    "tree_parity decoder": ["--d", "8", "--k", "4", *DECODER],
    "tree_parity theory": ["--d", "8", "--k", "4", "--n", "4096", *HELD],
    "lego decoder": [*LEGO, *STAGES],
    "lego bare": [*LEGO, *STAGES],
    "lego theory": [
        *LEGO, "--states-updates", "2", "--variables-updates", "2", "--updates", "2", "--batch-size", "8", "--m", "2",
    ],
    "kfold encoder": [
        *KFOLD, "--n-layers", "2", "--n-heads", "2", "--d-model", "8", "--budget", "32", "--batch-size", "8",
        "--eval-every", "16",
    ],
    "kfold theory": [*KFOLD, "--n-sequences", "300"],
    "kfold_cot decoder": [*KFOLD, *DECODER],
    "incontext_cot theory": ["--d-x", "12", "--n-testing", "4", *INCONTEXT, "--iterations", "40", "--rows", "6"],
    "incontext_tokens decoder": [*INCONTEXT, *DECODER],
}  # fmt: skip
ONE_OF_EACH_KIND = ("parity decoder", "lego bare", "kfold encoder", "incontext_cot theory")
slow_but_one_of_each_kind = pytest.mark.parametrize(
    "trained", slow_but(ONE_OF_EACH_KIND, TINY), indirect=True, scope="module"
)
SOLVED = {"tree_parity theory", "kfold theory", "incontext_cot theory"}
"""What the tiny run learns too: the theorems need a few updates alone."""


@pytest.fixture(scope="module", params=TINY)
def trained(request, tmp_path_factory):
    task, model = request.param.split()
    out = tmp_path_factory.mktemp("train") / "run"
    command = ["train", task, "--model", model, *TINY[request.param], "--device", "cpu", "--out", str(out)]
    assert main(command) == 0
    return request.param, command, out


def files(directory) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def test_every_recipe_is_tried_here():
    assert set(TINY) == {f"{task} {model}" for task, models in load_recipes().items() for model in models}


def test_help_lists_what_trains(capsys):
    assert main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    for task, models in load_recipes().items():
        assert f"  {task} " in text
        assert all(recipe.summary in text for recipe in models.values())


@pytest.mark.parametrize("name", TINY)
def test_every_option_has_help(name, capsys):
    task, model = name.split()
    with pytest.raises(SystemExit) as stop:
        main(["train", task, "--model", model, "--help"])
    assert stop.value.code == 0
    assert "--device" in capsys.readouterr().out
    assert _options(task, model).__doc__


def test_a_run_is_left_with_rows_weights_and_figures(trained):
    name, _, out = trained
    table = rows.read(out / "rows.parquet")
    metrics = {"accuracy", "loss", "entropy_min", "test_accuracy", "dependency_mass", "row_entropy", "attention"}
    assert metrics <= set(table["metric"])
    pictures = {f"figures/{picture}.{kind}" for picture in ("training", "attention") for kind in ("png", "pdf")}
    assert {"config.json", "model.safetensors", *pictures} <= set(files(out))
    config = json.loads((out / "config.json").read_text())["config"]
    assert f"{config['task']} {config['model']}" == name
    if name in SOLVED:
        assert table[table["metric"] == "test_accuracy"]["value"].item() == 1


@slow_but_one_of_each_kind
@pytest.mark.usefixtures("drawn")
def test_a_resumed_run_has_the_same_bits(trained, tmp_path):
    """From one that was killed before its rows were written, and (one recipe) from a finished run."""
    name, command, out = trained
    before = files(out)
    if name == "parity decoder":
        assert main([*command, "--resume"]) == 0
        assert files(out) == before
    again = tmp_path / "again"
    again.mkdir()
    (again / "config.json").write_bytes(before["config.json"])
    assert main([*command[:-1], str(again), "--resume"]) == 0
    assert files(again) == before


def test_the_loaded_model_is_the_trained_one(trained):
    _, _, out = trained
    run = load_run(out)
    table = rows.read(out / "rows.parquet")
    logits = teacher_forced_logits(HookedForward(run.model, read=run.read), run.test)
    exact = (logits.argmax(-1) == run.test.answers).all(-1).double().mean().item()
    assert exact == table[table["metric"] == "test_accuracy"]["value"].item()
    assert not run.model.training


def test_a_run_and_its_inputs_are_told_in_one_line_and_are_no_pretrained_model(trained):
    name, _, out = trained
    run = load_run(out)
    told, n_pos = repr(run), run.test.inputs.shape[1]
    assert told.startswith(f"FinishedRun({run.task!r}; seed {run.unit}; {run.model.cfg.n_layers} layer"), name
    assert told.endswith(f"{len(run.test)} test inputs; .model, .untrained, .test)")
    supervised = run.test.answers.shape[1]
    assert repr(run.test) == f"Batch({len(run.test)} sequences, {n_pos} positions, {supervised} of them supervised)"
    assert "\n" not in told + repr(run.test)
    with pytest.raises(ValueError, match=r"this is a run of cotlens train: interp\.load_run"):
        load_model(str(out), device="cpu")


@slow_but_one_of_each_kind
@pytest.mark.usefixtures("drawn")
def test_a_run_is_probed(trained, tmp_path, capsys):
    name, _, out = trained
    probed = tmp_path / "probe"
    few = ["--inputs", "40", "--edited", "8", "--positions", "1", "3"]
    assert main(["probe", str(out), *few, "--out", str(probed)]) == 0
    said = capsys.readouterr().out
    table = rows.read(probed / "rows.parquet")
    found = {"accuracy_at_step", "chance", "top1_hit", "step_accuracy", "effect_p", "probe_accuracy"}
    assert found <= set(table["metric"])
    places = table[table["metric"] == "probe_accuracy"]["setting"].str.extract(r"pos=(\d+)")[0]
    assert set(places) == {"1", "3"}
    assert (probed / "figures" / "decodable.png").exists()
    assert ("WARNING: the model is at chance" in said) or name in SOLVED or "at chance at the steps" in said
    assert said.index("accuracy ") < said.index("Attention at the steps")


def test_the_python_call_trains_as_the_command_does(trained):
    name, _, out = trained
    if name not in SOLVED:
        pytest.skip("one call with default options is enough for what takes seconds")
    run = load_run(out)
    config = json.loads((out / "config.json").read_text())["config"]
    options = run.recipe.options(
        **{part: type(getattr(run.recipe.options(), part))(**config[part]) for part in ("training", "run")}
    )
    result = train_task(run.task, run.recipe.model, options, device="cpu")
    assert all(torch.equal(a, b) for a, b in zip(result.model.parameters(), run.model.parameters(), strict=True))


REFUSED = {
    "an unknown model": (["lego", "--model", "gpt"], "lego has no model 'gpt'; its models are decoder, bare, theory"),
    "no chain to write": (["tree_parity", "--model", "theory", "--no-cot"], "leave out --no-cot"),
    "a hop token": (["kfold", "--model", "theory", "--hop-token"], "leave out --hop-token"),
    "too few variables": (
        ["lego", "--model", "theory", "--algorithm", "2", "--n-variables", "8"],
        "name 17 variables",
    ),
    "three updates without CoT": (["parity", "--model", "theory", "--no-cot"], "parity with CoT"),
    "too few inputs": (["parity", "--n", "12"], "--n-validation, --n-test"),
    "more places than positions": (
        ["lego", "--length", "20", "--positions", "learned", "--n-ctx", "40"],
        "a sentence of 41 clauses, but there are learned positions for n_ctx=40",
    ),
    "no GPU": (["parity", "--device", "cuda"], "--device cpu"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(case, tmp_path, capsys):
    arguments, message = REFUSED[case]
    if case == "no GPU" and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_lego_run_of_versions_without_positions_goes_on(tmp_path):
    """Its configuration and its checkpoint name none; with positions it is another run."""
    words = ["train", "lego", *TINY["lego decoder"], "--checkpoint-seconds", "0", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    config = read_config(tmp_path / "run")
    earlier = ["d_mlp", "d_token", "embed_std", "embeddings", "n_heads", "residual", "values", "zero_query"]
    assert sorted(config["decoder"]) == earlier
    kept = checkpoint.load(tmp_path / "run" / "checkpoint.safetensors")[1]["identity"]
    assert kept["decoder"] == config["decoder"]
    assert "pos_embed.weight" not in dict(load_run(tmp_path / "run").model.named_parameters())
    assert main([*words, "--n-ctx", "99", "--resume"]) == 0  # there are no places, so their number is nothing
    assert main([*words, "--positions", "learned", "--resume"]) == 2


def test_the_hold_outs_that_a_refusal_names_fit(tmp_path, capsys):
    assert main(["train", "parity", "--n", "12", "--out", str(tmp_path / "run")]) == 2
    assert "n_validation and n_test of 1024 fit" in capsys.readouterr().err
    task_class("parity")(n=12)
    fits = ["--n-validation", "1024", "--n-test", "1024", "--budget", "64", "--d-model", "8"]
    assert main(["train", "parity", "--n", "12", *fits, "--out", str(tmp_path / "run")]) == 0
