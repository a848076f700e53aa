"""How often would the judge be wrong? Claims judged in simulated worlds where the truth is known.

Besides each part, the conclusion is looked at: Holm's procedure promises that *any* of the primary parts is decided
wrongly in at most 5% of experiments, and as a summary of its
parts a conclusion can be wrong in no other way. Whether the parts are the sentence is another question: what they
leave of it stands in `Claim.falls_short`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from interp.core.claim import Claim, World
from interp.statistics import ALPHA
from probes.base.atomic import read_json

STANDARD_ERRORS = 3.0
"""A rate is above nominal if it exceeds ALPHA by more than this many standard errors of its simulation."""
HARDLY = 0.05
"""A true part that is supported in fewer draws than this cannot be shown by an experiment of this size."""
FAMILY = "conclusion"
"""Stands for the primary parts together, in place of a part's key."""


@dataclass(frozen=True)
class Severity:
    """One part in one world, or the conclusion: how often it was decided rightly and wrongly."""

    claim: str
    world: str
    part: str
    """A part's key, or `FAMILY`."""
    truth: bool
    """Whether the part holds there; of the conclusion, whether every primary part does."""
    right: float
    """Share of draws that support a true part or refute a false one: the power. Of the conclusion: that decide every
    primary part so."""
    wrong: float
    """Share of draws that refute a true part or support a false one; nominally at most ALPHA. Of the conclusion: that
    do so with any primary part."""
    n: int
    """Draws."""

    @property
    def limit(self) -> float:
        """The share of wrong draws up to which the nominal rate and the number of draws explain it."""
        return ALPHA + STANDARD_ERRORS * math.sqrt(ALPHA * (1 - ALPHA) / self.n)

    @property
    def above_nominal(self) -> bool:
        """Whether the judge errs more often than it says, beyond what simulation explains."""
        return self.wrong > self.limit

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


def undecidable(rows: Sequence[Severity]) -> list[str]:
    """Parts that are true in some world and hardly ever found there: what no data of this size could show."""
    best: dict[str, float] = {}
    for row in rows:
        if row.truth and row.part != FAMILY:
            best[row.part] = max(best.get(row.part, 0.0), row.right)
    return [part for part, right in best.items() if right < HARDLY]


def severity(claim: Claim, n: int, seed: int = 0) -> list[Severity]:
    """Every part with a known truth, in each of the claim's worlds, over n draws of rows."""
    if n < 1:
        raise ValueError(f"--draws must be at least 1, got {n}")
    return [row for world in claim.worlds for row in _in_world(claim, world, n, seed)]


def _in_world(claim: Claim, world: World, n: int, seed: int) -> Iterator[Severity]:
    preset = claim.presets["cpu"]
    declared = claim.parts(preset)
    if unknown := set(world.truth) - {part.key for part in declared}:
        keys = sorted(part.key for part in declared)
        raise ValueError(f"{claim.id}, world {world.name!r}: no part {sorted(unknown)[0]!r}; parts: {keys}")
    generator = np.random.default_rng([seed, *world.name.encode()])
    draws = []
    for _ in range(n):
        judgement = claim.judge(world.rows(generator), preset)
        draws.append({verdict.key: verdict.outcome for verdict in judgement.verdicts})
    for key, truth in world.truth.items():
        yield _rates(claim, world, key, {key: truth}, draws)
    primary = {part.key: world.truth[part.key] for part in declared if part.primary and part.key in world.truth}
    if len(primary) > 1:
        yield _rates(claim, world, FAMILY, primary, draws)


def _rates(
    claim: Claim, world: World, name: str, truths: Mapping[str, bool], draws: Sequence[Mapping[str, str]]
) -> Severity:
    """How often all parts of `truths` are decided as they are, and how often any is decided otherwise."""
    decided = {True: ("supported", "refuted"), False: ("refuted", "supported")}
    right = [all(draw[key] == decided[truth][0] for key, truth in truths.items()) for draw in draws]
    wrong = [any(draw[key] == decided[truth][1] for key, truth in truths.items()) for draw in draws]
    shares = (sum(right) / len(draws), sum(wrong) / len(draws))
    return Severity(claim.id, world.name, name, all(truths.values()), *shares, len(draws))
