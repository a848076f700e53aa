"""Do the notebooks run, and are they committed as a reader should find them?"""

import importlib.util
import os
import re
import runpy
import tempfile
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from hf_analysis.models.builtin import builtin_directory
from probes.base.atomic import read_json
from tests.smoke_runs import smoke_run
from tests.tiers import slow_but

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
colab = runpy.run_path(str(ROOT / "docs" / "site" / "colab.py"))
EXPECTED = {
    "01_quickstart", "02_is_cot_really_sparser", "03_birth_of_sparse_attention", "04_length_generalisation",
    "05_write_your_own", "06_parity_in_one_gradient_step", "07_cot_against_icl", "08_which_sentences_matter",
}  # fmt: skip
REUSED = {
    "02_is_cot_really_sparser": ("wen2024/fig6",),
    "03_birth_of_sparse_attention": (
        "wen2024/fig3b", "wen2024/fig1b", "wen2024/fig2", "wen2024/fig5-slow", "wen2024/causal-sparsity",
    ),
    "04_length_generalisation": (
        "huang2025/fig1a", "huang2025/fig1b", "huang2025/fig2", "huang2025/fig6-7", "huang2025/what-matters",
    ),
    "06_parity_in_one_gradient_step": ("kim2024/lemmas",),
    "07_cot_against_icl": ("li2024/fig4", "li2024/thm1"),
}  # fmt: skip
"""Finished runs that a notebook finds and resumes; the contract tests need the same ones. Notebooks with none here
measure their claim themselves."""
MACHINE = re.compile(r"(?<![\w.])/(?:tmp|root|home|work|Users|opt|usr|var)/")
LARGEST = 1_500_000

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def texts(output: nbformat.NotebookNode) -> list[str]:
    return [output.get("text", ""), *(v for kind, v in output.get("data", {}).items() if kind.startswith("text/"))]


def items(runs: Path) -> dict[Path, int]:
    """Every file of a measured item, and when it was written."""
    return {path: path.stat().st_mtime_ns for path in runs.glob("*/items/*/*")}


def test_all_notebooks_are_there():
    assert {path.stem for path in NOTEBOOKS} >= EXPECTED


@each
def test_a_committed_notebook_shows_its_outputs_and_nothing_of_the_machine(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < LARGEST
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    found = outputs(notebook)
    assert sum("image/png" in output.get("data", {}) for output in found) >= 2
    for output in found:
        assert output.output_type != "error"
        assert output.get("name") != "stderr", texts(output)
        assert not any(MACHINE.search(text) for text in texts(output)), texts(output)
    assert not any(MACHINE.search(cell.source) for cell in notebook.cells)
    assert not any(cell.metadata for cell in notebook.cells), "strip timestamps and other metadata"


def executed(path: Path, desk: Path, **here: str) -> nbformat.NotebookNode:
    """The notebook run from start to end in `desk` at the smallest size, with nothing wrong and nothing warned of."""
    builtin_directory()  # on a new machine its conversion would show its progress among the outputs
    notebook = nbformat.read(path, as_version=4)
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    here |= {"COTLENS_PRESET": "smoke", "COTLENS_RUNS": str(desk / "runs"), "IPYTHONDIR": str(desk)}
    with tempfile.TemporaryDirectory() as sockets:  # a short path, which the names of sockets need
        kernel = AsyncKernelManager(transport="ipc", connection_file=f"{sockets}/kernel.json")
        client = NotebookClient(notebook, km=kernel, timeout=1800, resources={"metadata": {"path": str(desk)}})
        client.execute(env={**os.environ, **here}, cleanup_kc=True)  # else the kernel stays, with its memory
    assert not any(output.output_type == "error" for output in outputs(notebook))
    assert not any(output.get("name") == "stderr" for output in outputs(notebook)), "a notebook that warns"
    assert all(cell.execution_count for cell in code_cells(notebook))
    return notebook


@pytest.mark.parametrize("path", slow_but(NOTEBOOKS[:2], NOTEBOOKS), ids=lambda path: path.stem)
def test_a_notebook_runs_from_start_to_end(path, tmp_path, tmp_path_factory):
    for claim in REUSED.get(path.stem, ()):
        smoke_run(claim, tmp_path_factory, tmp_path / "runs" / claim.replace("/", "-"))
    measured = items(tmp_path / "runs")
    executed(path, tmp_path)
    assert list((tmp_path / "runs").glob("*/verdicts.json")), "every notebook judges a claim"
    assert items(tmp_path / "runs").items() >= measured.items(), "an item of a finished run was measured again"


@pytest.mark.slow
def test_notebook_02_measures_the_model_that_is_named(tmp_path, tiny_model):
    """As on a GPU, where another model than the built-in one is the default."""
    (path,) = [path for path in NOTEBOOKS if path.stem == "02_is_cot_really_sparser"]
    executed(path, tmp_path, COTLENS_MODEL=str(tiny_model))
    (out,) = (tmp_path / "runs").iterdir()
    assert out.name == f"wen2024-fig6-{tiny_model.name}"
    (record,) = read_json(out / "verdicts.json")
    assert str(tiny_model) in record["preset"]
    assert "SmolLM2" not in record["scale"]


@each
def test_a_notebook_opens_in_colab_and_installs_first(path):
    expected = colab["with_first_cells"](nbformat.read(path, as_version=4), path.name, colab["repository"]())
    assert nbformat.writes(expected) + "\n" == path.read_text(encoding="utf-8"), "run python docs/site/colab.py"


@pytest.mark.parametrize(
    ("address", "beside", "environment", "installed"),
    [
        (None, "cotlens-0.1.0-py3-none-any.whl", {}, "cotlens-0.1.0-py3-none-any.whl"),
        (None, "other.whl", {"COTLENS_SOURCE": "there.whl"}, "there.whl"),
        ("https://github.com/a/b", "other.whl", {}, "git+https://github.com/a/b"),
    ],
)
def test_the_first_cell_installs_where_nothing_is_installed(
    address, beside, environment, installed, tmp_path, monkeypatch
):
    (tmp_path / beside).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert run_first_cell(address)[0] == f"install --quiet {installed}"


def test_the_first_cell_installs_nothing_twice_and_says_what_it_needs(tmp_path, monkeypatch):
    assert run_first_cell(None) == []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(AssertionError, match="make wheel"):
        run_first_cell(None)


def run_first_cell(address: str | None) -> list[str]:
    """What the cell asks of pip; IPython reads the cell, and nothing is installed."""
    shell, asked = InteractiveShell(), []
    shell.register_magic_function(asked.append, magic_name="pip")
    shell.run_cell(colab["installation"](address)).raise_error()
    return asked


def test_the_badge_leads_to_the_repository_once_it_has_an_address():
    assert "/github/a/b/blob/main/notebooks/x.ipynb)" in colab["badge"]("x.ipynb", "https://github.com/a/b")
    assert colab["badge"]("x.ipynb", None).endswith("/#upload=true)")
