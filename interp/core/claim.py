"""What is a claim? A sentence of a paper, an experiment in independent items, and parts declared beforehand.

A claim is one file in `claims/<paper>/` with one `register`, or a plug-in (`probes.base.plugins`). Claim files import
no torch at their top: `cotlens claims list` must answer at once, so whatever trains or loads a model is imported
inside `measure`.
"""

import difflib
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from interp.core.judgement import Judgement, conclude, finding_of, judge_parts
from interp.core.loops import Loop
from interp.core.parts import Part
from probes.base.names import unknown
from probes.base.plugins import FILES, is_rerun, load_plugins

if TYPE_CHECKING:
    import numpy as np
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

    @property
    def first_unit(self) -> int:
        """The first seed, or the first problem; confirmatory runs start where no earlier run has been."""
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
class Scale:
    """How large a preset's experiment is, beside the paper's."""

    kind: Literal["the paper's own numbers", "smaller", "another model"]
    what: str = ""
    """What was scaled, and from what to what."""

    def __post_init__(self) -> None:
        if self.kind != "the paper's own numbers" and not self.what:
            raise ValueError(f"scale {self.kind!r}: say what differs from the paper")

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}" if self.what else self.kind


@dataclass(frozen=True)
class World:
    """Simulated rows in which parts of a claim are known to be true or false: a test of the judge itself."""

    name: str
    truth: Mapping[str, bool]
    """By part: whether its statement holds in this world."""
    rows: Callable[["np.random.Generator"], "pd.DataFrame"]
    """One draw of what the experiment would measure there, at the size of the cpu preset."""


@dataclass(frozen=True)
class Claim:
    """A claim that can be run and judged."""

    id: str
    """Paper and figure or theorem: wen2024/fig2."""
    sentence: str
    """What the paper says."""
    method: str
    """How the experiment is made and what is measured, in a few sentences."""
    deviations: str
    """How the presets differ from the paper, and why the claim survives it."""
    scale: Mapping[str, Scale]
    """By preset."""
    presets: Mapping[str, Preset]
    items: Callable[[Any], Sequence[Item]]
    """The work a preset asks for."""
    measure: Callable[[Item, Path], "pd.DataFrame"]
    """Does one item, keeping what it needs to resume in the given directory, and returns its rows."""
    summary: Callable[["pd.DataFrame"], Any]
    """What all parts read of the rows, computed once: a tidy table by unit, or several."""
    parts: Callable[[Any], Sequence[Part]]
    """What a preset's rows are judged by, declared before they are measured."""
    finding: str
    """One sentence with {part} where its estimate goes; it must read truly whichever way the parts are decided."""
    figures: Callable[["pd.DataFrame"], Mapping[str, "Figure"]]
    """Draws from rows alone."""
    worlds: Sequence[World] = ()
    """Simulated worlds for the judge's error rates: at least one where a part is false, and one where it is true."""
    published: Callable[["pd.DataFrame"], "pd.DataFrame"] = lambda rows: rows
    """The rows that parts and figures read, of all that were measured. Where these are too many for memory it is
    given each item's rows first, and then what is left: of one item it must keep all that it would keep of all."""
    loops: Sequence[Loop] = ()
    """What its items repeat, in the order in which they are cut; for plans and dry runs."""
    falls_short: str = ""
    """What the sentence says and no primary part decides: told wherever the claim counts as reproduced."""
    clarity: str = ""
    """Where the paper says more, or less, than a test can show."""
    history: str = ""
    """What was tried before: earlier settings, changed tests, errors found."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z]+\d{4}/[a-z0-9.-]+", self.id):
            raise ValueError(f"claim id {self.id!r} does not look like 'wen2024/fig2'")
        for name, given in (("presets", self.presets), ("scale", self.scale)):
            if set(given) != set(PRESETS):
                raise ValueError(f"claim {self.id} needs {name} for {PRESETS}, got {sorted(given)}")

    @property
    def paper(self) -> str:
        """The paper's key: wen2024."""
        return self.id.split("/")[0]

    def preset(self, name: str) -> Preset:
        """The preset called `name`; an unknown name lists the known ones."""
        if name not in self.presets:
            raise ValueError(f"unknown preset {name!r}; the presets are {', '.join(PRESETS)}")
        return self.presets[name]

    def scale_of(self, preset_name: str) -> str:
        """The scale of a preset, in words; one made for an occasion, such as the demo's, is smaller than cpu."""
        cpu = self.scale["cpu"]
        kind = "another model" if cpu.kind == "another model" else "smaller"
        return str(self.scale.get(preset_name, Scale(kind, f"the sizes of the {preset_name}")))

    def shortfall(self, conclusion: str) -> str:
        """What a conclusion, whichever way it went, leaves of the claim's sentence undecided; empty: nothing."""
        return "" if conclusion == "undecided" else self.falls_short

    def judge(self, table: "pd.DataFrame", preset: Preset) -> Judgement:
        """One verdict for each part, and the conclusion; from rows alone."""
        verdicts = judge_parts(self.id, self.parts(preset), self.summary(table))
        return Judgement(self.id, verdicts, conclude(verdicts), finding_of(self.finding, verdicts))


CLAIMS: dict[str, Claim] = {}


def seed_batches(seeds: int, size: int, first: int = 0) -> Iterator[list[int]]:
    """Seeds first..first+seeds-1 in batches that train together."""
    for start in range(first, first + seeds, size):
        yield list(range(start, min(start + size, first + seeds)))


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
    """The claims called `ids`, or all of them for "all"; an unknown id names what is near, or the known ones."""
    known = load_claims()
    if list(ids) == ["all"]:
        return [known[name] for name in sorted(known)]
    missing = [name for name in ids if name not in known]
    if missing:
        of_paper = [name for name in sorted(known) if name.startswith(f"{missing[0]}/")]
        near = of_paper or difflib.get_close_matches(missing[0], known, n=3)
        said = f"near it: {', '.join(near)}" if near else f"the claims are {', '.join(sorted(known))}, or all"
        raise ValueError(
            f"{unknown('claim', missing[0])}; {said}; cotlens claims list shows all; a claim of your own is found "
            f"once its module is a plug-in: {FILES}=my_claim.py, or docs/how/new-statistic.md"
        )
    return [known[name] for name in dict.fromkeys(ids)]


def citation(paper: str) -> str:
    """Authors, title and year, as the package of the paper's claims has them; a plug-in's claims have no package."""
    package = sys.modules.get(f"interp.claims.{paper}")
    paragraphs = ((package.__doc__ if package else None) or "").split("\n\n")
    return " ".join(paragraphs[1].split()).split(" Task: ")[0] if len(paragraphs) > 1 else ""
