"""cotlens claims plan: what a preset would cost, and whether it would run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interp.core.claim import find_claims
from interp.core.plan import PLANS

if TYPE_CHECKING:
    from interp.commands.claims import Plan


def plan_claims(options: "Plan") -> None:
    """Prints one estimate for each claim; a dry run ends with an error if an item does not run."""
    from interp.cost.estimate import estimate
    from interp.cost.gpus import find_gpu
    from probes.base.atomic import write_json

    gpu, records, failed = find_gpu(options.gpu), {}, 0
    for claim in find_claims(options.ids):
        report = (lambda line: print(line, flush=True)) if options.dry_run else (lambda _: None)
        found = estimate(claim, options.preset, claim.preset(options.preset), options.dry_run, report)
        print("\n  ".join(found.lines(gpu)), flush=True)
        failed += len(found.failed)
        records[claim.id] = {options.preset: found.record()}
        if options.json is not None:
            write_json(options.json, records)
        if options.record is not None:
            _enter(options.record / PLANS, records)
    if failed:
        raise ValueError(f"{failed} of the items tried do not run: what failed stands above")


def _enter(file: Path, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds estimates to those of other claims and presets that stand in `file`."""
    from probes.base.atomic import read_json, write_json

    known = read_json(file) if file.exists() else {}
    for claim, presets in records.items():
        known[claim] = {**known.get(claim, {}), **presets}
    write_json(file, {claim: known[claim] for claim in sorted(known)})
