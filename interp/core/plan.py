"""What will a run take? Items that are missing, their seconds in the published run, and the memory of their kinds."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from interp.core.claim import Claim, Item
from interp.core.engine import rows_file
from interp.core.published import read_published
from interp.cost.kinds import kind_of
from probes.base.atomic import read_json

UNIT = re.compile(r"(seed|problems)=\d+(-\d+)?")
"""What differs between items of one kind: their seed, or which problems they measure."""
PLANS = "plans.json"
"""Beside published results: what rehearsals of the claims' presets took (`cotlens claims plan --record`)."""


@dataclass(frozen=True)
class Plan:
    """The items of one claim, how many are missing, and what these take, if known."""

    claim: str
    items: int
    missing: int
    seconds: float | None
    """On one core."""
    memory: float | None
    """Bytes of the largest process that measures one of them."""

    def sentence(self, workers: int) -> str:
        """The plan in one line."""
        counted = f"{self.claim}: {self.items} items" + (
            f", {self.missing} of them missing" if self.missing < self.items else ""
        )
        with_workers = f"{workers} worker" + "s" * (workers > 1)
        if self.memory is None:
            space = "how much memory they take is not known: cotlens claims plan tells"
        else:
            space = f"about {self.memory / 1e9:.1f} GB for each worker"
        if self.seconds is None:
            return f"{counted}; how long they take is not known: no published run has items of their kinds; {space}"
        minutes = self.seconds / 60 / min(workers, max(self.missing, 1))
        return (
            f"{counted}; about {minutes:.1f} minutes with {with_workers}, as long as the published run took; {space}"
        )


def plan(claim: Claim, items: Sequence[Item], out: Path, results: Path) -> Plan:
    """What is left to do of `items` in `out`, timed by the published run in `results`."""
    missing = [item for item in items if not rows_file(out, item).exists()]
    known = seconds_by_kind(claim.id, results)
    kinds = [UNIT.sub("", item.name) for item in missing]
    seconds = sum(known[kind] for kind in kinds) if all(kind in known for kind in kinds) else None
    return Plan(claim.id, len(items), len(missing), seconds, memory_of(claim, missing, results))


def memory_of(claim: Claim, items: Sequence[Item], results: Path) -> float | None:
    """Bytes of the largest of `items`, if plans in `results` hold all their kinds."""
    file = results / PLANS
    recorded = read_json(file).get(claim.id, {}) if file.is_file() else {}
    known = {kind: taken for preset in recorded.values() for kind, taken in preset["memory"].items()}
    kinds = {kind_of(claim, item) for item in items}
    return max((known[kind] for kind in kinds), default=None) if kinds <= set(known) else None


def seconds_by_kind(claim_id: str, results: Path) -> dict[str, float]:
    """The mean seconds of the published run's items, by what their names say beside seed or problems."""
    if not (results / claim_id / "judgement.json").is_file():
        return {}
    by_kind = defaultdict(list)
    for name, seconds in read_published(claim_id, results).provenance.get("seconds", {}).items():
        by_kind[UNIT.sub("", name)].append(seconds)
    return {kind: fmean(found) for kind, found in by_kind.items()}
