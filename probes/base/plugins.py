"""How does code outside the suite add to it? A plug-in registers a task, a condition or a claim.

Calling a registry's `register` is enough in a script or a notebook. An installed distribution is found without an
import: its `pyproject.toml` names modules that register on import,

    [project.entry-points."cotlens.plugins"]
    my_claims = "my_package.claims"

A plain file is found where the environment variable COTLENS_PLUGINS names it, `COTLENS_PLUGINS=my_claim.py` (several
paths are separated as in PATH). Worker processes inherit the variable, and so find what is in it too.

A module of claims should import torch inside functions only, as the suite's own do: `cotlens claims list` imports it.
"""

import importlib
import importlib.util
import os
import pkgutil
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TypeVar

Function = TypeVar("Function")

GROUP = "cotlens.plugins"
FILES = "COTLENS_PLUGINS"
_FOUND: dict[tuple[str, str], str | None] = {}
"""The entry points met so far, by name and module, and files, by path, each with what went wrong with it."""


def load_plugins() -> None:
    """Imports the module of every installed entry point and every file of `COTLENS_PLUGINS` once; one that fails is a
    ValueError.

    A module that failed is not imported again in this process: what it registered before would be there twice.
    """
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        key = (entry.name, entry.value)
        if key not in _FOUND:
            _FOUND[key] = None  # before the import, which may ask for the registries itself
            try:
                entry.load()
            except Exception as error:
                _FOUND[key] = " ".join(f"{type(error).__name__}: {error}".split())  # one line
        if _FOUND[key] is not None:
            owner = entry.dist.name if entry.dist else "its distribution"
            raise ValueError(
                f"the plug-in {entry.name!r} ({entry.value}, installed by {owner}) cannot be imported: "
                f"{_FOUND[key]}; repair it or uninstall {owner}"
            )
    for path in filter(None, os.environ.get(FILES, "").split(os.pathsep)):
        _load_file(Path(path).expanduser().absolute())


def _load_file(path: Path) -> None:
    """Imports one file of `COTLENS_PLUGINS`, as the module `cotlens_plugin_<name>`; a ValueError if that fails."""
    key, name = (FILES, str(path)), f"cotlens_plugin_{path.stem}"
    if key not in _FOUND:
        if path.suffix != ".py" or not path.is_file():
            raise ValueError(
                f"{FILES} names {path}, which is not a .py file that exists; correct it or unset {FILES}"
            )
        _FOUND[key] = None  # before the import, which may ask for the registries itself
        if getattr(sys.modules["__main__"], "__file__", None) == str(path):
            return  # a script that names itself has registered already what it holds
        try:
            _import_file(name, path)
        except Exception as error:
            _FOUND[key] = " ".join(f"{type(error).__name__}: {error}".split())  # one line
    if _FOUND[key] is not None:
        raise ValueError(f"the plug-in {path}, named by {FILES}, cannot be imported: {_FOUND[key]}; repair the file")


def _import_file(name: str, path: Path) -> None:
    if name in sys.modules:
        raise ImportError(f"another file called {path.name} is a plug-in already; rename one")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)  # first: a dataclass looks its module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def import_modules(package: ModuleType) -> None:
    """Imports every module of `package`, each of which registers what it holds."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def registered_by_name(registry: dict[str, Function], kind: str, function: Function) -> Function:
    """Enters `function` under its own name; a name is taken once, except by a rerun cell. `kind`: for the refusal."""
    name = getattr(function, "__name__", repr(function))  # a functools.partial has none
    if not name.isidentifier():  # every lambda is called "<lambda>", and would replace the one before
        raise ValueError(f"a {kind} is known by its function's name, and {name} is none; define it with `def`")
    if name in registry and not is_rerun(registry[name], function):
        raise ValueError(f"a {kind} named {name!r} is already registered")
    registry[name] = function
    return function


def is_rerun(old: object, new: object) -> bool:
    """Whether `new` is `old` defined again by a notebook cell that was run again."""
    places = [(getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)) for thing in (old, new)]
    return places[0] == places[1] and places[0][0] == "__main__"
