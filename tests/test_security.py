"""Nothing that is read can run code, nothing leaves its directory, and no secret of the environment is written."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import interp
from hf_analysis.measurement.store import safe_name
from hf_analysis.models.loading import load_model
from interp.cli import main
from interp.commands.entropy import Entropy
from interp.core.claim import Item

ROOT = Path(interp.__file__).parent.parent
SOURCES = sorted(
    path for package in ("probes", "toy_models", "hf_analysis", "interp") for path in (ROOT / package).rglob("*.py")
)
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle", "tarfile", "zipfile"}
FORBIDDEN_CALLS = {"torch.load", "numpy.load", "np.load", "pd.read_pickle", "eval", "exec", "os.system", "yaml.load"}
TRAIN = [
    "train", "parity", "--n", "6", "--k", "2", "--d-model", "8", "--budget", "64", "--batch-size", "64",
    "--eval-every", "64", "--n-validation", "8", "--n-test", "8",
]  # fmt: skip


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_unpickles_evaluates_or_unpacks(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not FORBIDDEN_MODULES & {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in FORBIDDEN_MODULES
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in FORBIDDEN_CALLS, ast.unparse(node)
            assert not any(word.arg == "shell" for word in node.keywords), ast.unparse(node)


def test_the_check_above_finds_what_it_looks_for(tmp_path):
    bad = tmp_path / "bad.py"
    for text in ("import pickle", "from joblib import load", "torch.load(path)", "run('ls', shell=True)"):
        bad.write_text(text)
        with pytest.raises(AssertionError):
            test_no_source_unpickles_evaluates_or_unpacks(bad)


def test_code_from_the_hub_is_never_run_unasked(tmp_path):
    assert Entropy(out=tmp_path).trust_remote_code is False
    assert inspect.signature(load_model).parameters["trust_remote_code"].default is False


def test_a_pickled_model_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(ValueError, match=r"no \*\.safetensors; other weights are not read"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("name", ["../up", "/abs", "a/b", "..", ".", "", "a\x00b", "-x", "a b", "ü"])
def test_an_item_cannot_leave_its_directory(name):
    with pytest.raises(ValueError, match="cannot be a file name"):
        Item(name)


@pytest.mark.parametrize("identity", ["../up", "/abs", "a/b", "..", ".", "", "a\x00b", "CON", "x" * 500, "ü/ä"])
def test_a_problem_cannot_leave_its_directory(identity):
    name = safe_name(identity)
    assert re.fullmatch(r"[a-z0-9_-]{1,80}(\.[0-9a-f]{12})?", name)


def test_no_secret_of_the_environment_is_written(tmp_path, monkeypatch):
    secrets = {"HF_TOKEN": "hf_veryquiet1", "WANDB_API_KEY": "veryquiet2", "AWS_SECRET_ACCESS_KEY": "veryquiet3"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    out = tmp_path / "run"
    assert main([*TRAIN, "--out", str(out)]) == 0
    assert main(["report", str(out), "--out", str(tmp_path / "page.html")]) == 0
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not [value for value in secrets.values() for data in written if value.encode() in data]
