"""How long will a run take? Items that are missing, and their seconds in the published run of the same claim."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from interp.core.claim import Claim, Item
from interp.core.engine import rows_file
from interp.core.published import read_published

UNIT = re.compile(r"(seed|problems)=\d+(-\d+)?")
"""What differs between items of one kind: their seed, or which problems they measure."""


@dataclass(frozen=True)
class Plan:
    """The items of one claim, how many are missing, and the seconds that these take on one core, if known."""

    claim: str
    items: int
    missing: int
    seconds: float | None

    def sentence(self, workers: int) -> str:
        """The plan in one line."""
        counted = f"{self.claim}: {self.items} items" + (
            f", {self.missing} of them missing" if self.missing < self.items else ""
        )
        if self.seconds is None:
            return f"{counted}; how long they take is not known: no published run has items of their kinds"
        minutes = self.seconds / 60 / min(workers, max(self.missing, 1))
        with_workers = f"{workers} worker" + "s" * (workers > 1)
        return f"{counted}; about {minutes:.1f} minutes with {with_workers}, as long as the published run took"


def plan(claim: Claim, items: Sequence[Item], out: Path, results: Path) -> Plan:
    """What is left to do of `items` in `out`, timed by the published run in `results`."""
    missing = [item for item in items if not rows_file(out, item).exists()]
    known = seconds_by_kind(claim.id, results)
    kinds = [UNIT.sub("", item.name) for item in missing]
    seconds = sum(known[kind] for kind in kinds) if all(kind in known for kind in kinds) else None
    return Plan(claim.id, len(items), len(missing), seconds)


def seconds_by_kind(claim_id: str, results: Path) -> dict[str, float]:
    """The mean seconds of the published run's items, by what their names say beside seed or problems."""
    if not (results / claim_id / "judgement.json").is_file():
        return {}
    by_kind = defaultdict(list)
    for name, seconds in read_published(claim_id, results).provenance.get("seconds", {}).items():
        by_kind[UNIT.sub("", name)].append(seconds)
    return {kind: fmean(found) for kind, found in by_kind.items()}
