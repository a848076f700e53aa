"""Do the packages' exports resolve, lazily, and does an old name say where it went?"""

import importlib
import importlib.util
import pkgutil
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import hf_analysis
import interp
import probes
import toy_models
from probes.base.lazy import EXPORTS, MOVED, checked_imports

ROOT = Path(__file__).parents[1]
PACKAGES = [probes, toy_models, hf_analysis, interp]
HEAVY = ("torch", "transformers", "transformer_lens", "pandas", "numpy", "scipy", "sklearn", "matplotlib", "tyro")
each = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
exports = pytest.mark.parametrize("exported", [f"{p.__name__}.{name}" for p in PACKAGES for name in p.__all__])


@exports
def test_an_exported_name_is_what_its_module_defines(exported):
    package, name = sys.modules[exported.split(".")[0]], exported.split(".")[1]
    module, original = EXPORTS[package.__name__][name]
    assert getattr(package, name) is getattr(importlib.import_module(module), original)
    assert vars(package)[name] is getattr(package, name), "asked for once"


@each
def test_the_exports_are_few_documented_and_no_submodules(package):
    submodules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert set(package.__all__) == set(EXPORTS[package.__name__])
    assert not set(package.__all__) & submodules, "importing the submodule would replace the name"
    assert 10 <= len(package.__all__) <= 20
    for name in package.__all__:
        assert name in package.__doc__, f"{name} is not in the docstring of {package.__name__}"
    assert (Path(package.__path__[0]) / "py.typed").is_file()


@each
def test_dir_and_help_know_the_exports(package):
    assert set(package.__all__) <= set(dir(package))
    page = pydoc.plaintext.document(package)
    assert all(name in page for name in package.__all__)


@each
def test_an_unknown_name_is_an_attribute_error(package):
    assert not hasattr(package, "nobody")
    with pytest.raises(ImportError, match="cannot import name 'nobody'"):
        exec(f"from {package.__name__} import nobody")


def test_the_doors_open_without_loading_anything_heavy():
    code = f"""
import sys
import probes, toy_models, hf_analysis, interp
listed = [dir(package) for package in (probes, toy_models, hf_analysis, interp)]
loaded = [name for name in {HEAVY} if name in sys.modules]
assert not loaded, loaded
from interp import Claim, find_claims, mean_over, write_report
from toy_models import Parity
assert "torch" in sys.modules and "transformer_lens" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == 0, done.stderr


def test_exports_are_the_imports_for_type_checkers():
    source = "if TYPE_CHECKING:\n    from a.b import c, d as e\n    import f\nif other:\n    from a import g\n"
    assert checked_imports(source) == {"c": ("a.b", "c"), "e": ("a.b", "d")}


@pytest.mark.parametrize("old", sorted(MOVED))
def test_a_moved_name_is_gone_and_its_new_place_is_there(old):
    assert importlib.util.find_spec(old.split(".")[0])
    with pytest.raises(ImportError, match=f"{old} is now ") as refusal:
        importlib.import_module(old)
    assert "\n" not in str(refusal.value)
    new = MOVED[old]
    if " " not in new:  # otherwise a sentence
        pydoc.locate(new) or pytest.fail(f"{new} does not exist")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "from interp.claim import Claim, Item, register",
            "interp.claim is now interp.core.claim; "
            "write: from interp import Claim, Item, Scale, World, find_claims, register_claim",
        ),
        (
            "import interp.verdict",
            "interp.verdict is now interp.core.verdict; write: from interp import Verdict",
        ),
        ("from interp import sweep", "interp.sweep is now interp.core.sweep; write: from interp import run_claim"),
        (
            "from interp.figures import attention_map, training_curves",
            "interp.figures.attention_map is now interp.figures.style.attention_map; "
            "write: from interp import attention_map",
        ),
        (
            "from toy_models.models.decoder import DecoderConfig",
            "toy_models.models is now toy_models.engine.decoder; "
            "write: from toy_models import DecoderConfig, hooked_decoder",
        ),
        (
            "from toy_models.tasks.parity import Parity",
            "toy_models.tasks is now one room for each task: from toy_models",
        ),
        ("from toy_models.evaluation import attention_patterns", "write: from toy_models import attention_patterns"),
        ("from toy_models.measurement import attention_rows", "attention_rows, outcome_rows, training_rows"),
        ("from toy_models.training import TrainConfig, train", "write: from toy_models import TrainConfig, train"),
        (
            "from hf_analysis.conditions import Passage, register",
            "hf_analysis.conditions is now hf_analysis.text.conditions; "
            "write: from hf_analysis import Context, Passage, register_condition",
        ),
        ("from probes.dependence import dependency_mass", "write: from probes import dependency_mass, top1_hit"),
    ],
)
def test_an_import_of_the_old_notebook_names_the_new_place(statement, told):
    with pytest.raises(ImportError) as refusal:
        exec(statement)
    assert told in str(refusal.value)


def test_what_did_not_move_is_still_found():
    from interp.statistics import bootstrap_mean  # notebook 05 as it was
    from probes import rows
    from toy_models.task import UNSUPERVISED, Batch, register

    assert bootstrap_mean is interp.bootstrap_mean
    assert (UNSUPERVISED, Batch, register) == (
        toy_models.UNSUPERVISED, toy_models.Batch, toy_models.register_task,
    )  # fmt: skip
    assert rows.table


def test_an_error_inside_an_exported_module_is_not_taken_for_a_missing_name(tmp_path, monkeypatch):
    package = tmp_path / "outside_lazy"
    package.mkdir()
    (package / "broken.py").write_text("import torch\nthing = torch.no_such_name\n")
    (package / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\nfrom probes.base.lazy import lazy_names\n"
        "if TYPE_CHECKING:\n    from outside_lazy.broken import thing\n"
        "__getattr__, __dir__ = lazy_names(__name__, __file__)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(EXPORTS, "outside_lazy", {})
    module = importlib.import_module("outside_lazy")
    with pytest.raises(ImportError, match=r"importing outside_lazy.broken failed: .*no_such_name") as caught:
        module.thing  # noqa: B018
    assert isinstance(caught.value.__cause__, AttributeError)
