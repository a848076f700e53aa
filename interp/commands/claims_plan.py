"""cotlens claims plan: what a preset would cost, and whether it would run."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interp.core.claim import Claim, Preset, find_claims
from interp.core.plan import PLANS, recorded
from interp.core.runs import check_file, check_results

if TYPE_CHECKING:
    from interp.commands.claims import Plan

UNFINISHED = "plans"
"""Beside the file of plans: what the items of a claim showed of which not all have been tried."""


def plan_claims(options: "Plan") -> None:
    """Prints one estimate for each claim; a dry run ends with an error if an item does not run."""
    from interp.cost.estimate import Process, estimate
    from interp.cost.gpus import find_gpu
    from probes.base.atomic import write_json

    if options.resume and options.record is None:
        raise ValueError("--resume: which estimates are there? Name their directory with --record")
    check_file(options.json, ".json", "--json")
    check_results(options.record, "--record")
    gpu, records, failed, process = find_gpu(options.gpu), {}, 0, Process(_say)
    for claim in find_claims(options.ids):
        preset = claim.preset(options.preset)
        if options.resume and _is_recorded(claim, preset, options):
            continue
        kept = options.record / UNFINISHED / claim.id if options.record else None
        if kept is not None and not options.resume:
            shutil.rmtree(kept, ignore_errors=True)
        found = estimate(claim, options.preset, preset, options.dry_run, _say, kept, process)
        print("\n  ".join(found.lines(gpu)), flush=True)
        failed += len(found.failed)
        records[claim.id] = {options.preset: found.record()}
        if options.json is not None:
            write_json(options.json, records)
        if options.record is not None:
            _enter(options.record / PLANS, records)
            shutil.rmtree(options.record / UNFINISHED / claim.id, ignore_errors=True)
    process.close()
    if failed:
        raise ValueError(f"{failed} of the items tried do not run: what failed stands above")


def _say(line: str) -> None:
    print(line, flush=True)


def _is_recorded(claim: Claim, preset: Preset, options: "Plan") -> bool:
    from interp.cost.estimate import Estimate, outline

    known = options.record and recorded(claim.id, options.record).get(options.preset)
    return bool(known) and Estimate.read(known).answers(outline(claim, options.preset, preset), options.dry_run)


def _enter(file: Path, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds estimates to those of other claims and presets that stand in `file`."""
    from probes.base.atomic import read_json, write_json

    known = read_json(file) if file.exists() else {}
    for claim, presets in records.items():
        known[claim] = {**known.get(claim, {}), **presets}
    write_json(file, {claim: known[claim] for claim in sorted(known)})
