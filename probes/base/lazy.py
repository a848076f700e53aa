"""How does a package export names without importing what they need? Its imports stand under `if TYPE_CHECKING`.

Type checkers and editors read those imports; at run time a name is imported when it is first asked for (PEP 562), so
that `import probes` loads no torch. A package's `__init__` ends with

    __getattr__, __dir__ = lazy_names(__name__, __file__)

`MOVED` says where modules went that plug-ins may still name; importing one is an error that names the new place.
"""

import ast
import gc
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

EXPORTS: dict[str, dict[str, tuple[str, str]]] = {}
"""Of each package: the exported name, and the module and the name there that it stands for."""
MOVED: dict[str, str] = {}
"""Dotted name of a module, or of a name in a module that has become a package, and where it is now."""


def lazy_names(
    package: str, file: str, moved: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`, whose source is `file`; `moved` is added to `MOVED`."""
    EXPORTS[package] = exports = checked_imports(Path(file).read_text(encoding="utf-8"))
    MOVED.update(moved or {})
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(MovedFinder())  # the last: asked only about what nobody finds

    def find(name: str) -> object:
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = exports[name]
        try:
            value = getattr(importlib.import_module(module), original)
        except AttributeError as error:  # left as it is, it would read as "no such name"
            raise ImportError(f"{package}.{name}: importing {module} failed: {error}") from error
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *exports})


def checked_imports(source: str) -> dict[str, tuple[str, str]]:
    """What `source` imports under `if TYPE_CHECKING`: the name, and the module and the name there."""
    blocks = [
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for block in blocks
        for node in block
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@contextmanager
def collector_paused() -> Iterator[None]:
    """For importing a large package, which makes many objects and little garbage: a tenth faster so."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class MovedFinder:
    """Finds nothing; refuses a name in `MOVED` by saying where it is now."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in MOVED:
            raise ImportError(_new_place(name, MOVED[name]))
        return None


def _new_place(old: str, new: str) -> str:
    package = new.split(".")[0]
    exports = EXPORTS.get(package, {})
    names = [name for name, (module, original) in exports.items() if new in (module, f"{module}.{original}")]
    remedy = f"; write: from {package} import {', '.join(names)}" if names else ""
    return f"{old} is now {new}{remedy}"
