"""How does code outside the suite add to it? A plug-in registers a task, a condition or a claim.

Calling a registry's `register` is enough in a script or a notebook. An installed distribution is found without an
import: its `pyproject.toml` names modules that register on import,

    [project.entry-points."cotlens.plugins"]
    my_claims = "my_package.claims"

A module of claims should import torch inside functions only, as the suite's own do: `cotlens claims list` imports it.
"""

import importlib
import pkgutil
from importlib import metadata
from types import ModuleType
from typing import TypeVar

Function = TypeVar("Function")

GROUP = "cotlens.plugins"
_FOUND: dict[tuple[str, str], str | None] = {}
"""The entry points met so far, by name and module, each with what went wrong with it."""


def load_plugins() -> None:
    """Imports the module of every installed entry point of the group once; one that fails is a ValueError.

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
