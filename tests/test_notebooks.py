"""Do the notebooks run, and are they committed as a reader should find them?"""

import os
import re
import tempfile
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.smoke_runs import smoke_run
from tests.tiers import slow_but

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
EXPECTED = {
    "01_quickstart", "02_is_cot_really_sparser", "03_birth_of_sparse_attention", "04_length_generalisation",
    "05_write_your_own", "06_parity_in_one_gradient_step", "07_cot_against_icl", "08_which_sentences_matter",
}  # fmt: skip
REUSED = {
    "02_is_cot_really_sparser": ("wen2024/fig6",),
    "03_birth_of_sparse_attention": ("wen2024/fig3b", "wen2024/fig2"),
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


@pytest.mark.parametrize("path", slow_but(NOTEBOOKS[:2], NOTEBOOKS), ids=lambda path: path.stem)
def test_a_notebook_runs_from_start_to_end(path, tmp_path, tmp_path_factory):
    for claim in REUSED.get(path.stem, ()):
        smoke_run(claim, tmp_path_factory, tmp_path / "runs" / claim.replace("/", "-"))
    measured = items(tmp_path / "runs")
    notebook = nbformat.read(path, as_version=4)
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    here = {"COTLENS_PRESET": "smoke", "COTLENS_RUNS": str(tmp_path / "runs"), "IPYTHONDIR": str(tmp_path)}
    with tempfile.TemporaryDirectory() as sockets:  # a short path, which the names of sockets need
        kernel = AsyncKernelManager(transport="ipc", connection_file=f"{sockets}/kernel.json")
        client = NotebookClient(notebook, km=kernel, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
        client.execute(env={**os.environ, **here}, cleanup_kc=True)  # else the kernel stays, with its memory
    assert not any(output.output_type == "error" for output in outputs(notebook))
    assert not any(output.get("name") == "stderr" for output in outputs(notebook)), "a notebook that warns"
    assert all(cell.execution_count for cell in code_cells(notebook))
    assert list((tmp_path / "runs").glob("*/verdicts.json")), "every notebook judges a claim"
    assert items(tmp_path / "runs").items() >= measured.items(), "an item of a finished run was measured again"
