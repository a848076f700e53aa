"""What is a claim? A sentence of a paper, an experiment in independent items, and a test declared beforehand.

A claim is one file in `claims/<paper>/` with one `register`, or a plug-in (`probes.base.plugins`). Claim files import
no torch at their top: `cotlens claims list` must answer at once, so whatever trains or loads a model is imported
inside `measure`.
"""

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from interp.core.verdict import Verdict
from probes.base.plugins import is_rerun, load_plugins

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

PRESETS = ("smoke", "cpu", "paper")
"""Seconds, for tests; minutes on two cores, the default; the paper's own numbers, for a GPU."""


@runtime_checkable
class Preset(Protocol):
    """A frozen dataclass with a claim's numbers."""

    @property
    def seeds(self) -> int:
        """Replications by seed; 1 where problems, not seeds, are the unit of replication."""
        ...


@dataclass(frozen=True)
class Item:
    """One unit of work, independent of every other; its rows are on disk before it counts as done."""

    name: str
    """Unique within the claim; used as a file name."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON values."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.,=-]*", self.name):
            raise ValueError(f"item name {self.name!r} cannot be a file name: use letters, digits and _.,=-")


@dataclass(frozen=True)
class Claim:
    """A claim that can be run and judged."""

    id: str
    """Paper and figure or theorem: wen2024/fig2."""
    sentence: str
    """What the paper says."""
    test: str
    """The test, declared before the data: what is estimated, how, and which values decide."""
    deviations: str
    """How the presets differ from the paper, and why the claim survives it."""
    presets: Mapping[str, Preset]
    items: Callable[[Any], Sequence[Item]]
    """The work a preset asks for."""
    measure: Callable[[Item, Path], "pd.DataFrame"]
    """Does one item, keeping what it needs to resume in the given directory, and returns its rows."""
    judge: Callable[["pd.DataFrame"], Sequence[Verdict]]
    """Decides from rows alone."""
    figures: Callable[["pd.DataFrame"], Mapping[str, "Figure"]]
    """Draws from rows alone."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z]+\d{4}/[a-z0-9.-]+", self.id):
            raise ValueError(f"claim id {self.id!r} does not look like 'wen2024/fig2'")
        if set(self.presets) != set(PRESETS):
            raise ValueError(f"claim {self.id} needs the presets {PRESETS}, got {sorted(self.presets)}")

    def preset(self, name: str) -> Preset:
        """The preset called `name`; an unknown name lists the known ones."""
        if name not in self.presets:
            raise ValueError(f"unknown preset {name!r}; the presets are {', '.join(PRESETS)}")
        return self.presets[name]


CLAIMS: dict[str, Claim] = {}


def seed_batches(seeds: int, size: int) -> Iterator[list[int]]:
    """Seeds 0..seeds-1 in batches that train together."""
    for first in range(0, seeds, size):
        yield list(range(first, min(first + size, seeds)))


def register(claim: Claim) -> Claim:
    """Adds a claim to the registry; refuses an id already taken, except by a rerun cell."""
    if claim.id in CLAIMS and not is_rerun(CLAIMS[claim.id].measure, claim.measure):
        raise ValueError(f"claim {claim.id!r} is registered twice")
    CLAIMS[claim.id] = claim
    return claim


def load_claims() -> dict[str, Claim]:
    """Imports every claim file in `claims/<paper>/` and every plug-in, and returns the registry."""
    from interp import claims

    for module in pkgutil.walk_packages(claims.__path__, f"{claims.__name__}."):
        if not module.ispkg and not module.name.rsplit(".", 1)[-1].startswith("_"):
            importlib.import_module(module.name)
    load_plugins()
    return CLAIMS


def find_claims(ids: Sequence[str]) -> list[Claim]:
    """The claims called `ids`, or all of them for "all"; an unknown id lists the known ones."""
    known = load_claims()
    if list(ids) == ["all"]:
        return [known[name] for name in sorted(known)]
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise ValueError(f"unknown claim {unknown[0]!r}; the claims are {', '.join(sorted(known))}, or all")
    return [known[name] for name in dict.fromkeys(ids)]


def citation(paper: str) -> str:
    """Authors, title and year, as the package of the paper's claims has them; a plug-in's claims have no package."""
    package = sys.modules.get(f"interp.claims.{paper}")
    paragraphs = ((package.__doc__ if package else None) or "").split("\n\n")
    return " ".join(paragraphs[1].split()).split(" Task: ")[0] if len(paragraphs) > 1 else ""
