"""How often would the judge be wrong? Claims judged in simulated worlds where the truth is known."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from interp.core.claim import Claim, World
from interp.core.judgement import ALPHA
from probes.base.atomic import read_json

STANDARD_ERRORS = 3.0
"""A rate is above nominal if it exceeds ALPHA by more than this many standard errors of its simulation."""


@dataclass(frozen=True)
class Severity:
    """One part in one world: how often it was decided rightly and wrongly."""

    claim: str
    world: str
    part: str
    truth: bool
    right: float
    """Share of draws that support a true part or refute a false one: the power."""
    wrong: float
    """Share of draws that refute a true part or support a false one; nominally at most ALPHA."""
    n: int
    """Draws."""

    @property
    def above_nominal(self) -> bool:
        """Whether the judge errs more often than it says, beyond what simulation explains."""
        return self.wrong > ALPHA + STANDARD_ERRORS * math.sqrt(ALPHA * (1 - ALPHA) / self.n)

    def record(self) -> dict[str, Any]:
        """The figures as plain JSON."""
        return asdict(self)


def read_severity(results: Path) -> list[Severity]:
    """What `cotlens claims severity` left in `results`; nothing if it has not been run."""
    file = results / "severity.json"
    try:
        return [Severity(**row) for row in read_json(file)] if file.is_file() else []
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file} is not what cotlens claims severity --json writes: {error}") from error


def severity(claim: Claim, n: int, seed: int = 0) -> list[Severity]:
    """Every part with a known truth, in each of the claim's worlds, over n draws of rows."""
    if n < 1:
        raise ValueError(f"--draws must be at least 1, got {n}")
    return [row for world in claim.worlds for row in _in_world(claim, world, n, seed)]


def _in_world(claim: Claim, world: World, n: int, seed: int) -> Iterator[Severity]:
    preset = claim.presets["cpu"]
    known = {part.key for part in claim.parts(preset)}
    if unknown := set(world.truth) - known:
        raise ValueError(f"{claim.id}, world {world.name!r}: no part {sorted(unknown)[0]!r}; parts: {sorted(known)}")
    generator = np.random.default_rng([seed, *world.name.encode()])
    outcomes: dict[str, list[str]] = {key: [] for key in world.truth}
    for _ in range(n):
        judgement = claim.judge(world.rows(generator), preset)
        for verdict in judgement.verdicts:
            if verdict.key in outcomes:
                outcomes[verdict.key].append(verdict.outcome)
    for key, found in outcomes.items():
        truth = world.truth[key]
        right, wrong = ("supported", "refuted") if truth else ("refuted", "supported")
        yield Severity(claim.id, world.name, key, truth, found.count(right) / n, found.count(wrong) / n, n)
