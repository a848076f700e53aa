"""What will a run take? Items that are missing, their seconds in the published run, and the memory of their kinds."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from interp.core.claim import Claim, Item
from interp.core.engine import rows_file
from interp.core.published import read_published
from interp.cost.kinds import is_within, kind_of
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
    at_most: bool = False
    """Whether that is the memory of larger items of the same family."""

    def sentence(self, workers: int) -> str:
        """The plan in one line."""
        counted = f"{self.claim}: {self.items} items" + (
            f", {self.missing} of them missing" if self.missing < self.items else ""
        )
        with_workers = f"{workers} worker" + "s" * (workers > 1)
        if self.memory is None:
            space = "how much memory they take is not known: cotlens claims plan tells"
        else:
            space = f"{'at most' if self.at_most else 'about'} {self.memory / 1e9:.1f} GB for each worker"
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
    memory = memory_of(claim, missing, results)
    larger = None if memory else memory_of_larger(claim, missing, results)
    return Plan(claim.id, len(items), len(missing), seconds, memory or larger, at_most=larger is not None)


def recorded(claim_id: str, results: Path) -> dict[str, Any]:
    """By preset: the records of estimates (`interp.cost.estimate`) that `results` holds of a claim."""
    file = results / PLANS
    return read_json(file).get(claim_id, {}) if file.is_file() else {}


def memory_of(claim: Claim, items: Sequence[Item], results: Path) -> float | None:
    """Bytes of the largest of `items`, if plans in `results` hold all their kinds."""
    presets = recorded(claim.id, results).values()
    known = {kind: taken for preset in presets for kind, taken in preset["memory"].items()}
    kinds = {kind_of(claim, item) for item in items}
    return max((known[kind] for kind in kinds), default=None) if kinds <= set(known) else None


def memory_of_larger(claim: Claim, items: Sequence[Item], results: Path) -> float | None:
    """A bound on the bytes of the largest of `items`, if plans in `results` hold a larger item like each of them.

    Like an item are those that differ from it in whole numbers alone. Of these the smallest that is no smaller in any
    number bounds it: with more of everything, a process takes no less memory.
    """
    from interp.cost.stand_ins import with_known_size  # and with it torch

    planned = {
        kind_of(claim, item): item
        for name in recorded(claim.id, results)
        for item in claim.items(with_known_size(claim.preset(name)))
    }
    taken = {kind: of for preset in recorded(claim.id, results).values() for kind, of in preset["memory"].items()}
    bounds = [
        min(
            (taken[kind] for kind, other in planned.items() if kind in taken and is_within(claim, item, other)),
            default=None,
        )
        for item in {kind_of(claim, item): item for item in items}.values()
    ]
    known = [bound for bound in bounds if bound is not None]
    return max(known) if known and len(known) == len(bounds) else None


def seconds_by_kind(claim_id: str, results: Path) -> dict[str, float]:
    """The mean seconds of the published run's items, by what their names say beside seed or problems."""
    if not (results / claim_id / "judgement.json").is_file():
        return {}
    by_kind = defaultdict(list)
    for name, seconds in read_published(claim_id, results).provenance.get("seconds", {}).items():
        by_kind[UNIT.sub("", name)].append(seconds)
    return {kind: fmean(found) for kind, found in by_kind.items()}
