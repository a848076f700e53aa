"""Was the test declared before the run? Protocols, their hashes, and what makes a run confirmatory.

A protocol is one JSON file, `results/protocols/<paper>/<claim>/<hash>.json`: the parts with their thresholds, the
preset with its seeds or problems, and a hash of the code that judges. A run is *confirmatory* if its protocol stood
in the commit that the run was started from, and the run used that preset and that code; else it is *exploratory*. A
threshold that changes later changes the hash, and with it the status. A second declaration is a second file: what
was declared before stays to be seen, run or not.
"""

import ast
import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from interp.core.claim import Claim, Preset
from probes.base.atomic import read_json, write_json

Status = Literal["confirmatory", "exploratory"]
RESULTS = Path("results")
"""Where protocols and published results stand, from the top of a checkout."""
PATIENCE = 300.0
"""Seconds that git may take for an answer: on a busy machine or a slow disk it takes many."""
ROOT = Path(__file__).parents[2]
"""The checkout, or where the packages are installed."""
SHARED = (
    *("probes", "toy_models", "hf_analysis", "interp/statistics"),
    *(
        f"interp/core/{name}.py"
        for name in (
            "claim",
            "contrast",
            "judgement",
            "judging",
            "parts",
            "probe_rows",
            "problem_runs",
            "trace_runs",
            "verdict",
        )
    ),
)
"""Code that every measurement and every judge rests on, besides the modules of its own paper."""


def protocol(claim: Claim, preset_name: str, preset: Preset) -> dict[str, Any]:
    """What is declared: everything that decides how rows are made and judged, as plain JSON with its hash."""
    declared = {**_test(claim, preset_name, preset), "code": code_hash(claim)}
    return {**declared, "hash": _digest(declared)}


def _test(claim: Claim, preset_name: str, preset: Preset) -> dict[str, Any]:
    """What is tested, on what; not by which code."""
    return {
        "claim": claim.id,
        "sentence": claim.sentence,
        "preset": preset_name,
        "numbers": json.loads(json.dumps(asdict(preset))),  # pyright: ignore[reportArgumentType]
        "parts": [part.record() for part in claim.parts(preset) if not part.added_later],
    }


def units_of(numbers: Mapping[str, Any]) -> range:
    """The seeds or problems, counted from 0, that a preset of these numbers uses."""
    first = numbers.get("first_unit", 0)
    return range(first, first + max(numbers.get("seeds", 1), numbers.get("limit") or 1))


def declared_units(claim_id: str, results: Path) -> list[tuple[str, range]]:
    """The hash of every protocol of a claim, and its units."""
    found = map(read_json, sorted((results / "protocols" / claim_id).glob("*.json")))
    return [(one["hash"], units_of(one["numbers"])) for one in found]


def protocol_file(results: Path, claim_id: str, digest: str) -> Path:
    """Where the protocol of a claim with that hash stands."""
    return results / "protocols" / claim_id / f"{digest}.json"


def declare(claim: Claim, preset_name: str, preset: Preset, results: Path) -> Path:
    """Writes the protocol; it counts from the commit that it enters."""
    declared = protocol(claim, preset_name, preset)
    file = protocol_file(results, claim.id, declared["hash"])
    write_json(file, declared)
    return file


@dataclass(frozen=True)
class Declaration:
    """The protocol that a run was started under: its hash, and the commit in which it was declared."""

    hash: str
    commit: str

    def record(self) -> dict[str, str]:
        return asdict(self)


def declaration(claim: Claim, preset_name: str, preset: Preset, results: Path) -> Declaration | None:
    """The declaration that covers a run started now; None if there is none, it is not committed, or it differs."""
    if not (results / "protocols" / claim.id).is_dir():
        return None  # and no second spent on hashing all code
    digest = protocol(claim, preset_name, preset)["hash"]
    file = protocol_file(results, claim.id, digest)
    if not file.is_file() or read_json(file).get("hash") != digest:
        return None
    changed = _git(file.parent, "status", "--porcelain", "--", str(file.resolve()))
    commit = _git(file.parent, "log", "-1", "--format=%H", "--", str(file.resolve()))
    return Declaration(digest, commit) if changed == "" and commit else None


def status(claim: Claim, preset_name: str, preset: Preset, declared: dict[str, str] | None, results: Path) -> Status:
    """Whether a recorded run with that declaration is confirmatory: declared then, and the same declared now.

    Code may be tidied after the run, as long as it finds what was recorded (`interp.core.published`), and parts of
    our own be added that say so (`Part.added_later`); declared parts, thresholds, the preset and its units may not
    change.
    """
    if not declared:
        return "exploratory"
    file = protocol_file(results, claim.id, str(declared.get("hash")))
    if not file.is_file() or _contradicted(file, declared):
        return "exploratory"
    stored, now = read_json(file), _test(claim, preset_name, preset)
    same = all(stored.get(name) == now[name] for name in ("claim", "preset", "numbers", "parts"))
    return "confirmatory" if same and stored.get("hash") == declared.get("hash") else "exploratory"


def _contradicted(file: Path, declared: dict[str, str]) -> bool:
    """Whether the repository's history shows that the protocol was not in the commit that the run names."""
    if _git(file.parent, "rev-parse", "--is-shallow-repository") != "false":
        return False  # an installed package or a clone without its history: there is nothing to compare with
    text = _git(file.parent, "show", f"{declared.get('commit')}:./{file.name}")
    return text is None or json.loads(text).get("hash") != declared.get("hash")


def code_hash(claim: Claim) -> str:
    """A hash of the code that measures and judges the claim: comments, docstrings and layout do not count."""
    import inspect

    functions = (inspect.unwrap(f) for f in (claim.measure, claim.summary, claim.parts))
    modules = {Path(file) for f in functions if (file := inspect.getsourcefile(f)) and Path(file).is_file()}
    own = sorted({file for module in modules for file in module.parent.glob("*.py")})
    shared = [
        f for name in SHARED for f in ([ROOT / name] if name.endswith(".py") else sorted((ROOT / name).rglob("*.py")))
    ]
    mine = [file for file in own if file.name.startswith("_") or file in modules]
    return _digest([_meaning(file) for file in (*mine, *shared)])


@cache
def _meaning(file: Path) -> str:
    """The module's code as Python would write it, without docstrings; a dump of the tree differs between Pythons."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    return ast.unparse(tree)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]


def _git(directory: Path, *words: str) -> str | None:
    try:
        found = subprocess.run(
            ["git", *words], cwd=directory, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except OSError:
        return None
    except subprocess.TimeoutExpired as error:  # to take it for a no would make a declared run exploratory for good
        raise ValueError(f"git did not answer within {PATIENCE:g} s in {directory}; try again") from error
    return found.stdout.strip() if found.returncode == 0 else None
