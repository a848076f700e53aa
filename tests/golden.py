"""What did every claim's smoke preset find when it was last looked at? `tests/golden.json`, and how it is compared.

    python -m tests.golden CLAIM...      writes the entries of these claims anew (all: of every claim)

An entry has, by metric and condition, the number of rows and their mean, and every verdict's estimate. A change of
code that moves them is noticed, and entered on purpose or not at all. Numbers are compared within a tolerance: on
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
RELATIVE, ABSOLUTE = 0.02, 1e-3
"""Numbers may differ by the sum of the two; how many rows there are may not differ."""


def summary(table: pd.DataFrame, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The numbers of one run that are compared."""
    groups = table.groupby(["metric", "condition"])["value"]
    means = {" ".join(key): [len(group), float(f"{group.mean():.6g}")] for key, group in groups}
    return {
        "rows": means,
        "verdicts": {verdict.part: float(f"{verdict.estimate:.6g}") for verdict in verdicts},
    }


def differences(found: dict[str, Any], golden: dict[str, Any]) -> list[str]:
    """What differs by more than the tolerance, in words."""
    complaints = []
    for kind in ("rows", "verdicts"):
        if found[kind].keys() != golden[kind].keys():
            complaints.append(f"{kind}: {sorted(found[kind].keys() ^ golden[kind].keys())} on one side only")
            continue
        for name, value in found[kind].items():
            expected = golden[kind][name]
            (count, number), (old_count, old) = (value, expected) if kind == "rows" else ((0, value), (0, expected))
            if count != old_count or abs(number - old) > RELATIVE * abs(old) + ABSOLUTE:
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
