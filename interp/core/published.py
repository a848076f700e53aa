"""What has been found so far? `results/`: for each claim its rows, judgement, figures, provenance and a page.

results/<paper>/<claim>/rows.parquet      the rows that the parts and the figures read (zstd)
results/<paper>/<claim>/judgement.json    verdicts, conclusion, finding, scale, status
results/<paper>/<claim>/provenance.json   preset, command, commit, versions, processor, seconds, protocol
results/<paper>/<claim>/figures/          PNG and SVG
results/<paper>/<claim>/README.md         all of it on one page (`interp.core.pages`)

Whoever has these files can compute the judgement again, on any machine, without a model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interp.core.claim import Claim, Preset, load_claims
from interp.core.judgement import Judgement
from interp.core.protocol import Status, status
from probes.base.atomic import read_json, write_file, write_json

if TYPE_CHECKING:
    import pandas as pd

RESULTS = Path("results")


@dataclass(frozen=True)
class Published:
    """One claim as it stands in `results/`."""

    directory: Path
    judgement: Judgement
    scale: str
    status: Status
    provenance: Mapping[str, Any]

    @property
    def claim_id(self) -> str:
        return self.judgement.claim

    def rows(self) -> "pd.DataFrame":
        """The published rows."""
        from probes import rows

        return rows.read(self.directory / "rows.parquet")


def directory_of(results: Path, claim_id: str) -> Path:
    """Where a claim's results are."""
    return results / claim_id


def publish(claim: Claim, run: Path, results: Path) -> Published:
    """Enters the finished run of `claim` in `run` into `results`, in place of an earlier one."""
    from interp.core.pages import write_claim_page
    from interp.figures.style import save_figures
    from probes import rows

    stored = read_json(run / "config.json")
    preset_name, preset = preset_of(claim, stored["config"])
    table = claim.published(rows.read(run / "rows.parquet"))
    out = directory_of(results, claim.id)
    out.mkdir(parents=True, exist_ok=True)
    record = read_json(run / "verdicts.json")
    provenance = {
        "preset": preset_name,
        "numbers": stored["config"],
        "command": record["command"],
        "seconds": record.get("seconds"),
        "units": sorted(table["unit"].unique(), key=_natural),
        **stored["provenance"],
    }
    write_file(out / "rows.parquet", lambda path: table.to_parquet(path, index=False, compression="zstd"))
    write_json(out / "provenance.json", provenance)
    _write_judgement(claim, claim.judge(table, preset), preset_name, preset, provenance, results)
    save_figures(out / "figures", claim.figures(table), kinds=("png", "svg"))
    found = read_published(results, claim.id)
    write_claim_page(claim, found)
    return found


def _write_judgement(
    claim: Claim, judgement: Judgement, preset_name: str, preset: Preset, provenance: Mapping[str, Any], results: Path
) -> None:
    known = status(claim, preset_name, preset, provenance.get("declaration"), results)
    extra = {"scale": str(claim.scale[preset_name]), "status": known}
    write_json(directory_of(results, claim.id) / "judgement.json", {**judgement.record(), **extra})


def read_published(results: Path, claim_id: str) -> Published:
    """What `results` holds of a claim; a ValueError says what is missing."""
    directory = directory_of(results, claim_id)
    if not (directory / "judgement.json").is_file():
        raise ValueError(f"{results} holds nothing of {claim_id}; run it with --record {results}")
    try:
        record = read_json(directory / "judgement.json")
        provenance = read_json(directory / "provenance.json")
        return Published(directory, Judgement.read(record), record["scale"], record["status"], provenance)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{directory} is damaged: {error}") from error


def all_published(results: Path) -> Iterator[Published]:
    """Everything in `results`, sorted by claim; claims without results are left out."""
    for file in sorted(results.glob("*/*/judgement.json")):
        yield read_published(results, f"{file.parent.parent.name}/{file.parent.name}")


def judged_again(found: Published, results: Path) -> tuple[Judgement, Status]:
    """The judgement and status computed anew from the published rows by the code as it is."""
    claim = load_claims()[found.claim_id]
    preset_name, preset = preset_of(claim, found.provenance["numbers"])
    known = status(claim, preset_name, preset, found.provenance.get("declaration"), results)
    return claim.judge(found.rows(), preset), known


def preset_of(claim: Claim, config: Mapping[str, Any]) -> tuple[str, Preset]:
    """The preset that a run's stored configuration came from, with the numbers that the run had."""
    name = config["preset"]
    kind = claim.preset(name)
    numbers = {key: value for key, value in config.items() if key not in ("claim", "preset")}
    if not is_dataclass(kind):
        raise ValueError(f"claim {claim.id}: the preset {name} is no dataclass")
    return name, _revived(kind, numbers)


def _revived(like: Any, numbers: Mapping[str, Any]) -> Any:
    """A copy of the dataclass `like` with the numbers that JSON kept of another of its kind."""
    changes = {}
    for field in fields(like):
        present = getattr(like, field.name)
        if field.name not in numbers or _plain(present) == numbers[field.name]:
            continue
        if field.name not in ("seeds", "first_unit"):
            raise ValueError(
                f"{type(like).__name__}.{field.name} was {numbers[field.name]!r} in this run and is "
                f"{_plain(present)!r} now: the preset has changed since; run the claim again"
            )
        changes[field.name] = numbers[field.name]
    from dataclasses import replace

    return replace(like, **changes)


def _plain(value: Any) -> Any:
    import json

    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    return json.loads(json.dumps(value, default=lambda v: asdict(v) if is_dataclass(v) else str(v)))


def _natural(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdigit() else (1, 0, text)
