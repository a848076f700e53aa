"""What did every claim's smoke preset find when it was last looked at? `tests/golden.json`, and how it is compared.

    python -m tests.golden CLAIM...      writes the entries of these claims anew (all: of every claim)

An entry has, by metric and condition, the number of rows and their mean, and every part's estimate. A change of
code that moves them is noticed, and entered on purpose or not at all. On the kind of processor that made the file,
numbers must agree within 2%. Another kind rounds matrix products otherwise, and training carries that on: there the
tolerance is wider, and entries marked `chaotic`, which AVX2 instructions were seen to lead elsewhere, are not
compared. An entry that another kind made says so.
"""

import hashlib
import json
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from interp.core.verdict import Verdict

FILE = Path(__file__).parent / "golden.json"
SAME, OTHER = (0.02, 1e-3), (0.2, 0.05)
"""Relative and absolute tolerance, which add up, on the kind of processor that made the file, and on others."""


def processor() -> str:
    """What decides how matrix products round: the processor's kind and the instructions it has."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    wanted = ("vendor_id", "cpu family", "model\t", "flags")
    kind = "\n".join(line for line in dict.fromkeys(lines) if line.startswith(wanted))
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{platform.machine()} {capability} {hashlib.sha256(kind.encode()).hexdigest()[:12]}"


def summary(table: pd.DataFrame, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The numbers of one run that are compared."""
    groups = table.groupby(["metric", "condition"])["value"]
    means = {" ".join(key): [len(group), float(f"{group.mean():.6g}")] for key, group in groups}
    return {
        "rows": means,
        "verdicts": {v.key: None if v.estimate is None else float(f"{v.estimate:.6g}") for v in verdicts},
    }


def differences(found: dict[str, Any], golden: dict[str, Any], kind: str) -> list[str]:
    """What differs by more than the tolerance, in words; `kind` is the processor of the golden file."""
    same = golden.get("processor", kind) == processor()
    if not same and golden.get("chaotic"):
        return []
    relative, absolute = SAME if same else OTHER
    complaints = []
    for kind in ("rows", "verdicts"):
        if found[kind].keys() != golden[kind].keys():
            complaints.append(f"{kind}: {sorted(found[kind].keys() ^ golden[kind].keys())} on one side only")
            continue
        for name, value in found[kind].items():
            expected = golden[kind][name]
            (count, number), (old_count, old) = (value, expected) if kind == "rows" else ((0, value), (0, expected))
            if number is None or old is None:
                moved = number is not old
            else:
                moved = abs(number - old) > relative * abs(old) + absolute
            if moved or (same and count != old_count):
                complaints.append(f"{name}: {value}, was {expected}")
    return complaints


def stored() -> dict[str, Any]:
    """The file: `processor`, and `claims` by id."""
    empty = {"processor": processor(), "claims": {}}
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else empty


def write(ids: Sequence[str]) -> None:
    """Runs the smoke presets of these claims and stores what they find."""
    from interp.core.claim import find_claims
    from interp.core.sweep import run_claim
    from probes import rows

    golden = stored()
    entries = golden["claims"]
    kind = {} if golden["processor"] == processor() else {"processor": processor()}
    for claim in find_claims(ids):
        with tempfile.TemporaryDirectory() as scratch:
            record = run_claim(claim, "smoke", Path(scratch) / "run")
            found = summary(rows.read(Path(scratch) / "run" / "rows.parquet"), record.judgement.verdicts)
        chaotic = {"chaotic": True} if entries.get(claim.id, {}).get("chaotic") else {}
        entries[claim.id] = found | chaotic | kind
        print(claim.id, flush=True)
    golden["claims"] = {name: entries[name] for name in sorted(entries)}
    FILE.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
