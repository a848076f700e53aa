"""Do imports point down only, and does what answers at once stay free of torch?"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from interp import cli

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "probes": {"probes"},
    "toy_models": {"probes", "toy_models"},
    "hf_analysis": {"probes", "hf_analysis"},
    "interp": {"probes", "toy_models", "hf_analysis", "interp"},
}
HEAVY = {"torch", "transformers", "transformer_lens", "safetensors", "datasets", "ray"}
LIGHT = sorted(
    [
        *(f for f in (ROOT / "interp" / "claims").rglob("*.py") if not f.name.startswith("_")),
        *(ROOT / "interp" / "statistics").glob("*.py"),
        *(ROOT / "interp" / "core" / name for name in ("claim.py", "verdict.py", "ledger.py")),
        ROOT / "interp" / "cli.py",
        ROOT / "interp" / "commands" / "claims.py",
    ]
)


parsed = cache(ast.parse)
"""What a file imports is asked again for each file that imports it."""


def module_name(file: Path, root: Path = ROOT) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(node: ast.AST, importer: str, is_package: bool) -> list[str]:
    """The absolute dotted names that an import statement may load."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        above = importer.split(".")[: len(importer.split(".")) - node.level + is_package]
        base = ".".join([*above, *([node.module] if node.module else [])])
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def executed_on_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: no function bodies, nothing for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from (n for statement in node.orelse for n in ast.walk(statement))
            continue
        yield node
        yield from executed_on_import(node)


def packages_used(file: Path, root: Path = ROOT) -> set[str]:
    """Our packages that `file` imports anywhere, functions included."""
    tree = parsed(file.read_text(encoding="utf-8"))
    name, is_package = module_name(file, root), file.name == "__init__.py"
    found = {n.split(".")[0] for node in ast.walk(tree) for n in imported_names(node, name, is_package)}
    return found & set(MAY_IMPORT)


def loaded_by(file: Path, root: Path = ROOT) -> set[str]:
    """Names of everything that importing `file` imports, through our modules too, and their top-level names."""
    waiting, seen, loaded = [file], set(), set()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        tree = parsed(file.read_text(encoding="utf-8"))
        name, is_package = module_name(file, root), file.name == "__init__.py"
        for node in executed_on_import(tree):
            for target in imported_names(node, name, is_package):
                loaded |= {target.split(".")[0], target}
                parts = target.split(".")
                for depth in range(1, len(parts) + 1):  # a package's __init__ runs before its modules
                    path = root.joinpath(*parts[:depth])
                    waiting += [f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()]
    return loaded


FILES = sorted(file for package in MAY_IMPORT for file in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_point_down_only(file):
    package = file.relative_to(ROOT).parts[0]
    upward = packages_used(file) - MAY_IMPORT[package]
    assert not upward, f"{file.relative_to(ROOT)} imports {sorted(upward)}"


UNIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}


def unix_needed(source: str) -> set[str]:
    """Modules that Windows lacks and that importing `source` cannot do without: neither tried nor in a function."""
    return {name for node in ast.parse(source).body for name in imported_names(node, "", False)} & UNIX_ONLY


def test_every_module_can_be_imported_where_unix_is_not():
    assert unix_needed("import os, resource\n") == {"resource"}
    assert not unix_needed("try:\n    import resource\nexcept ImportError:\n    resource = None\n")
    needing = {str(file.relative_to(ROOT)): unix_needed(file.read_text(encoding="utf-8")) for file in FILES}
    assert not {name: found for name, found in needing.items() if found}


def room_of(module: str, hall: str) -> str | None:
    """Which room of `hall` a module is in: the task family or the paper."""
    rest = module.removeprefix(f"{hall}.").split(".")
    return rest[0] if module.startswith(f"{hall}.") else None


def neighbours_used(file: Path, hall: str, shared: set[str], root: Path = ROOT) -> set[str]:
    """Other rooms of `hall` that `file`, itself in one of its rooms, imports anywhere."""
    own = room_of(module_name(file, root), hall)
    rooms = {path.name for path in root.joinpath(*hall.split(".")).iterdir() if (path / "__init__.py").is_file()}
    if own not in rooms:
        return set()
    tree = parsed(file.read_text(encoding="utf-8"))
    name, is_package = module_name(file, root), file.name == "__init__.py"
    found = {room_of(n, hall) for node in ast.walk(tree) for n in imported_names(node, name, is_package)}
    return (found & rooms) - {own} - (set() if own in shared else shared)


HALLS = {"toy_models": {"engine"}, "interp.claims": set()}
"""Where rooms stand side by side, and which of them serve all others."""


@pytest.mark.parametrize("hall", HALLS)
@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_no_task_family_and_no_paper_imports_another(file, hall):
    strangers = neighbours_used(file, hall, HALLS[hall])
    assert not strangers, f"{file.relative_to(ROOT)} imports {sorted(strangers)}: move what both need down"


@pytest.mark.parametrize(
    "file", [f for f in FILES if f.parent == ROOT / "hf_analysis" / "text"], ids=lambda f: f.stem
)
def test_texts_are_made_without_what_measures_them(file):
    assert neighbours_used(file, "hf_analysis", set()) <= {"models"}


def test_an_import_of_a_neighbour_is_found(tmp_path):
    for room in ("engine", "lego", "kfold"):
        (tmp_path / "toy_models" / room).mkdir(parents=True)
        (tmp_path / "toy_models" / room / "__init__.py").touch()
    family, engine = (tmp_path / "toy_models" / room / "new.py" for room in ("lego", "engine"))
    family.write_text("from toy_models.engine import x\ndef f():\n    from toy_models.kfold.task import KFold\n")
    engine.write_text("import toy_models.lego.task\n")
    assert neighbours_used(family, "toy_models", {"engine"}, tmp_path) == {"kfold"}
    assert neighbours_used(engine, "toy_models", {"engine"}, tmp_path) == {"lego"}


@pytest.mark.parametrize("file", LIGHT, ids=lambda f: str(f.relative_to(ROOT)))
def test_listing_claims_loads_nothing_heavy(file):
    assert not loaded_by(file) & HEAVY


LOADED = {"torch", "numpy", "pandas", "safetensors", "einops"}
"""What a command may load before it has read its options; the rest is loaded where it is used."""
SLOW = HEAVY | LOADED | {"matplotlib", "sklearn", "scipy.stats", "statsmodels", "plotly", "reasoning_gym", "peft"}
COMMANDS = {
    "bench": {"torch", "numpy"},
    "claims": {"numpy"},
    "demo": {"numpy", "pandas"},
    "doctor": set(),
    "entropy": LOADED - {"safetensors"},
    "heads": LOADED - {"safetensors"},
    "probe": LOADED,
    "report": set(),
    "trace": LOADED - {"safetensors"},
    "train": LOADED,
}
"""Packages of `SLOW` that each command's module may load when it is imported."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_starts_without_what_it_does_not_need_yet(command):
    loaded = loaded_by(ROOT / "interp" / "commands" / f"{command}.py")
    assert loaded & SLOW <= COMMANDS[command]
    assert "tyro" in loaded or command in ("demo", "doctor", "heads"), "the command was not read"


def test_every_command_says_what_it_loads():
    assert set(COMMANDS) == set(cli.COMMANDS)


def test_the_packages_are_there():
    assert {file.relative_to(ROOT).parts[0] for file in FILES} == set(MAY_IMPORT)
    assert len(LIGHT) > 10


@pytest.mark.parametrize(
    "source",
    [
        "import toy_models.task\n",
        "from interp import claim\n",
        "def f():\n    from toy_models.task import Task\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import interp\n",
    ],
)
def test_an_import_that_points_up_is_found(source, tmp_path):
    file = tmp_path / "probes" / "new.py"
    file.parent.mkdir()
    file.write_text(source)
    assert packages_used(file, tmp_path) - MAY_IMPORT["probes"]


@pytest.mark.parametrize(
    ("source", "heavy"),
    [
        ("import torch\n", True),
        ("from . import below\n", True),
        ("from interp.below import x\n", True),
        ("class A:\n    import torch\n", True),
        ("try:\n    from torch import nn\nexcept ImportError:\n    pass\n", True),
        ("def f():\n    import torch\n", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n", False),
    ],
)
def test_a_heavy_import_is_found_and_only_if_it_runs(source, heavy, tmp_path):
    (tmp_path / "interp").mkdir()
    (tmp_path / "interp" / "__init__.py").touch()
    (tmp_path / "interp" / "below.py").write_text("import torch.nn\nx = 1\n")
    file = tmp_path / "interp" / "new.py"
    file.write_text(source)
    assert ("torch" in loaded_by(file, tmp_path)) == heavy
