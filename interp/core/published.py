"""What has been found so far? `results/`: for each claim its rows, judgement, figures, provenance and a page.

results/<paper>/<claim>/rows.parquet      the rows that the parts and the figures read (zstd)
results/<paper>/<claim>/judgement.json    verdicts, conclusion, finding, preset, command, scale, status
results/<paper>/<claim>/provenance.json   preset, commit, versions, seconds, protocol, units, digest of the rows
results/<paper>/<claim>/figures/          PNG and SVG
results/<paper>/<claim>/README.md         all of it on one page (`interp.report.ledger_pages`)

Whoever has these files can compute the judgement again, on any machine, without a model.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interp.core.claim import PRESETS, Claim, Preset, load_claims
from interp.core.ledger import Record, read_records
from interp.core.protocol import RESULTS, status
from interp.core.runs import read_config, read_provenance
from interp.core.verdict import Verdict
from probes.base.atomic import read_json, write_file, write_json

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("png", "svg")
DECLARED = ("name", "role", "primary", "quantity", "direction", "threshold", "margin", "unit", "n")
"""What must be exactly as published, besides the outcome."""
CLOSE = 1e-6
"""Relative difference of estimates that another machine's arithmetic may make."""
TOLD = 5
"""How many changed numbers of a preset are named."""


@dataclass(frozen=True)
class Published:
    """One claim as it stands in `results/`."""

    directory: Path
    record: Record
    provenance: Mapping[str, Any]

    def rows(self) -> "pd.DataFrame":
        """The published rows; a file that is not the one that was published is refused."""
        from probes import rows

        file = self.directory / "rows.parquet"
        if digest(file) != self.provenance["rows_sha256"]:
            raise ValueError(f"{file} is not the file that was published: its sha256 differs from provenance.json")
        return rows.read(file)


def digest(file: Path) -> str:
    """The sha256 of a file; one that is missing is a ValueError."""
    if not file.is_file():
        raise ValueError(f"{file} is missing")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def check_replacement(claim: Claim, preset_name: str, results: Path) -> None:
    """Refuses to put a smaller preset's run in place of a published larger one."""
    if not (results / claim.id / "judgement.json").is_file():
        return
    published = read_published(claim.id, results).record.preset
    if PRESETS.index(preset_name) < PRESETS.index(published):
        raise ValueError(
            f"{results} holds {claim.id} at the preset {published}: a run at {preset_name} does not replace it"
        )


def publish(claim: Claim, run: Path, results: Path = RESULTS) -> Published:
    """Enters the finished run of `claim` in the directory `run` into `results`, in place of an earlier one."""
    from probes import rows

    config = read_config(run)
    (record,) = read_records(run / "verdicts.json")
    table = claim.published(rows.read(run / "rows.parquet"))
    provenance = {
        "numbers": {name: value for name, value in config.items() if name not in ("claim", "preset")},
        "seconds": seconds_of(run),
        "units": sorted(map(str, table["unit"].unique()), key=_natural),
        **read_provenance(run),
    }
    if before := [[units.start, units.stop] for units in published_units(claim.id, results)]:
        provenance["units_before"] = before
    out = results / claim.id
    out.mkdir(parents=True, exist_ok=True)
    write_file(out / "rows.parquet", lambda path: table.to_parquet(path, index=False, compression="zstd"))
    provenance["rows_sha256"] = digest(out / "rows.parquet")
    write_json(out / "provenance.json", provenance)
    write_json(out / "judgement.json", record.record())
    return refresh(claim, results)


def refresh(claim: Claim, results: Path = RESULTS) -> Published:
    """Judges the published rows by the code as it is, and writes judgement, figures and page anew."""
    from interp.figures.style import save_figures
    from interp.report.ledger_pages import claim_page
    from probes.base.atomic import write_text

    found = read_published(claim.id, results)
    table, record = found.rows(), judged_again(claim, found, results)
    figures = claim.figures(table)
    write_json(found.directory / "judgement.json", record.record())
    save_figures(found.directory / "figures", figures, kinds=KINDS)
    for file in (found.directory / "figures").iterdir():
        if file.stem not in figures:
            file.unlink()
    found = replace(found, record=record, provenance={**found.provenance, "figures": list(figures)})
    write_json(found.directory / "provenance.json", found.provenance)
    write_text(found.directory / "README.md", claim_page(claim, found))
    return found


def read_published(claim_id: str, results: Path = RESULTS) -> Published:
    """What `results` holds of a claim; a ValueError says what is missing."""
    directory = results / claim_id
    if not (directory / "judgement.json").is_file():
        raise ValueError(
            f"{results} holds nothing of {claim_id}; --results says where the repository's results are, and "
            f"cotlens claims run {claim_id} --record enters your own"
        )
    try:
        record = Record.read(read_json(directory / "judgement.json"))
        provenance = read_json(directory / "provenance.json")
        if record.claim != claim_id:
            raise ValueError(f"it holds {record.claim}")
        kinds = (("numbers", dict), ("units", list), ("rows_sha256", str))
        if not all(isinstance(provenance[name], kind) for name, kind in kinds):
            raise TypeError("provenance.json: numbers is an object, units a list and rows_sha256 a text")
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ValueError(f"{directory} is damaged: {error!r}") from error
    return Published(directory, record, provenance)


def all_published(results: Path = RESULTS) -> Iterator[Published]:
    """Everything in `results`, sorted by claim."""
    for file in sorted(results.glob("*/*/judgement.json")):
        yield read_published(f"{file.parent.parent.name}/{file.parent.name}", results)


def judged_again(claim: Claim, found: Published, results: Path = RESULTS) -> Record:
    """The record computed anew from the published rows by the code as it is."""
    name = found.record.preset
    preset = preset_with(claim, name, found.provenance["numbers"])
    known = status(claim, name, preset, found.provenance.get("declaration"), results)
    judgement = claim.judge(found.rows(), preset)
    if found.record.status == "exploratory":  # there is no way back: what it was compared with is overwritten
        known = "exploratory"
    published = {v.key for v in found.record.judgement.verdicts}
    new = {part.key for part in claim.parts(preset) if part.added_later} - published
    if differences(found, [v for v in judgement.verdicts if v.key not in new]):  # judged otherwise than published
        known = "exploratory"
    return replace(found.record, judgement=judgement, scale=claim.scale_of(name), status=known)


def differences(found: Published, verdicts: Sequence[Verdict]) -> list[str]:
    """What differs between published verdicts and `verdicts`, in words."""
    published = {v.key: v for v in found.record.judgement.verdicts}
    if list(published) != [v.key for v in verdicts]:
        return [f"parts {[v.key for v in verdicts]}, published {list(published)}"]
    complaints = []
    for v in verdicts:
        earlier = published[v.key]
        if v.outcome != earlier.outcome or not _close(v, earlier):
            complaints.append(f"{v.key}: {v.outcome} {v.interval}, published {earlier.outcome} {earlier.interval}")
        else:
            names = [name for name in DECLARED if getattr(v, name) != getattr(earlier, name)]
            complaints += [
                f"{v.key}: {name} {getattr(v, name)!r}, published {getattr(earlier, name)!r}" for name in names
            ]
    return complaints


def _close(one: Verdict, other: Verdict) -> bool:
    pairs = [(one.estimate, other.estimate), (one.low, other.low), (one.high, other.high)]
    return all(
        (a is None) == (b is None) and (a is None or b is None or math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE))
        for a, b in pairs
    )


def claim_of(found: Published) -> Claim:
    """The claim whose results these are; one that is not registered is a ValueError."""
    claims = load_claims()
    if found.record.claim not in claims:
        raise ValueError(
            f"{found.directory} holds results of {found.record.claim}, which is no claim of this version"
        )
    return claims[found.record.claim]


def preset_with(claim: Claim, name: str, numbers: Mapping[str, Any]) -> Preset:
    """The preset called `name` with the seeds and the first unit that a run had; other numbers must be the same."""
    preset: Any = claim.preset(name)
    changes = {}
    for field in fields(preset):
        present, then = _given(_plain(getattr(preset, field.name))), _given(numbers.get(field.name))
        if field.name not in numbers or present == then:
            continue
        if field.name not in ("seeds", "first_unit"):
            raise ValueError(
                f"{claim.id}: the {name} preset has changed since this run: {_changes(field.name, then, present)}; "
                "its "
                "page tells of the run as it was, and cotlens claims run would replace it"
            )
        changes[field.name] = then
    return replace(preset, **changes)


def _changes(name: str, then: Any, now: Any) -> str:
    """In words, what differs between two numbers of a preset, by the innermost names; a few of them."""
    found = list(dict.fromkeys(_leaves(name, then, now)))
    return ", ".join(found[:TOLD]) + (f" and {len(found) - TOLD} more" if len(found) > TOLD else "")


def _leaves(name: str, then: Any, now: Any) -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in [*then, *(key for key in now if key not in then)]:
            if then.get(key) != now.get(key):
                yield from _leaves(key, then.get(key), now.get(key))
    elif isinstance(then, list) and isinstance(now, list) and any(isinstance(one, dict) for one in [*then, *now]):
        if len(then) != len(now):
            yield f"{name} were {len(then)} and are {len(now)}"
        for one, other in zip(then, now):
            yield from _leaves(name, one, other)
    elif then != now:
        yield f"{name} was {then!r} and is {now!r}"


def _given(value: Any) -> Any:
    """`value` without what is None in it: an option that a run is older than was not used."""
    if isinstance(value, dict):
        return {name: _given(one) for name, one in value.items() if one is not None}
    return [_given(one) for one in value] if isinstance(value, list) else value


def published_units(claim_id: str, results: Path) -> list[range]:
    """The units, seeds or problems counted from 0, of all runs of a claim that were ever published there."""
    if not (results / claim_id / "judgement.json").is_file():
        return []
    provenance = read_published(claim_id, results).provenance
    first = provenance["numbers"].get("first_unit", 0)
    earlier = [range(*ends) for ends in provenance.get("units_before", [])]
    return [*(units for units in earlier if units.start != first), range(first, first + len(provenance["units"]))]


def seconds_of(run: Path) -> dict[str, float]:
    """The seconds that each item of a run took."""
    files = sorted((run / "items").glob("*/seconds.json"))
    return {file.parent.name: float(read_json(file)) for file in files}


def _plain(value: Any) -> Any:
    """What JSON keeps of a preset's number."""
    return json.loads(json.dumps(value, default=lambda v: asdict(v) if is_dataclass(v) else str(v)))  # pyright: ignore


def _natural(text: str) -> tuple[int, int, str]:
    """Numbers in order of size, before words in order of the alphabet."""
    return (0, int(text), "") if text.isdigit() else (1, 0, text)
