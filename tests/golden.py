"""What did every claim's smoke preset find when it was last looked at? `tests/golden.json`, and how it is compared.

    python -m tests.golden CLAIM...      writes the entries of these claims anew (all: of every claim)

An entry has, by metric and condition, the number of rows and their mean, and every verdict's estimate. A change of
code that moves them is noticed, and entered on purpose or not at all. Numbers are compared within TOLERANCE: on
another processor matrix products round otherwise, and training carries that on.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from interp.verdict import Verdict

FILE = Path(__file__).parent / "golden.json"
TOLERANCE = 0.02
"""Of the larger of 1 and the number itself."""


def summary(table: pd.DataFrame, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The numbers of one run that are compared."""
    groups = table.groupby(["metric", "condition"])["value"]
    means = {" ".join(key): [len(group), float(f"{group.mean():.6g}")] for key, group in groups}
    return {
        "rows": means,
        "verdicts": {verdict.part: float(f"{verdict.estimate:.6g}") for verdict in verdicts},
    }


def differences(found: dict[str, Any], golden: dict[str, Any]) -> list[str]:
    """What differs by more than TOLERANCE, in words."""
    complaints = []
    for kind in ("rows", "verdicts"):
        if found[kind].keys() != golden[kind].keys():
            complaints.append(f"{kind}: {sorted(found[kind].keys() ^ golden[kind].keys())} on one side only")
            continue
        for name, value in found[kind].items():
            expected = golden[kind][name]
            pairs = zip(value, expected) if kind == "rows" else [(value, expected)]
            if not all(abs(a - b) <= TOLERANCE * max(1, abs(b)) for a, b in pairs):
                complaints.append(f"{name}: {value}, was {expected}")
    return complaints


def stored() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def write(ids: Sequence[str]) -> None:
    """Runs the smoke presets of these claims and stores what they find."""
    from interp.claim import find_claims
    from interp.sweep import run_claim
    from probes import rows

    entries = stored()
    for claim in find_claims(ids):
        with tempfile.TemporaryDirectory() as scratch:
            verdicts = run_claim(claim, "smoke", Path(scratch) / "run")
            entries[claim.id] = summary(rows.read(Path(scratch) / "run" / "rows.parquet"), verdicts)
        print(claim.id, flush=True)
    FILE.write_text(json.dumps({name: entries[name] for name in sorted(entries)}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
