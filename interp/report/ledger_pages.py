"""What does a reader see of a claim, a paper, the whole ledger? Markdown pages, made from `results/` alone."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interp.core.claim import Claim, citation, load_claims
from interp.core.judgement import CONCLUSIONS
from interp.core.severity import FAMILY, Severity, read_severity, undecidable
from interp.core.verdict import Verdict
from interp.statistics import ALPHA
from probes.base.atomic import write_text

if TYPE_CHECKING:
    from interp.core.published import Published

MARKS = {"supported": "✅", "refuted": "❌", "inconclusive": "❔", "not testable here": "➖"}
ROLES = {
    "paper": "What the paper says or implies",
    "precondition": "Preconditions",
    "control": "Controls",
    "ours": "Beyond the paper",
}
WORDS = "docs/explain/verdicts.md"
"""The page that says what the words of a claim's page mean, from the top of the repository."""
LESS = (
    "*Less than the sentence*: the paper's sentence says more than the experiment could decide, so that the "
    "conclusion is about a part of it; the claim's page says what is missing."
)

IN_OUR_WORDS = "(The claim in our words; for the paper's, see *where* beside each part.)"
OURS = "The experiment is ours"
"""How `Claim.falls_short` begins where the paper has no experiment for the sentence."""


def claim_page(claim: Claim, found: "Published", as_list: bool = False) -> str:
    """Conclusion, finding, figures, every part, the severity of its judge, deviations, and how to run it again.

    `as_list`: for a terminal, which shows no figure and is too narrow for a table of seven columns.
    """
    record, provenance = found.record, found.provenance
    judgement = record.judgement
    figures = [] if as_list else sorted((found.directory / "figures").glob("*.png"))
    lines = [
        f"# {claim.id}: {judgement.conclusion}",
        "",
        f"> {claim.sentence}",
        ">",
        f"> {IN_OUR_WORDS}",
        "",
        f"**{judgement.finding}**",
        "",
        f"*{record.status}* · primary parts: {judgement.counts} · scale: {record.scale}",
        "",
    ]
    words = WORDS if as_list else f"[How verdicts are made](../../../{WORDS})"
    shown = "marked so" if as_list else "in bold"
    lines += [f"Primary parts, {shown} below, alone decide the conclusion. {words} says what the words mean.", ""]
    if short := claim.shortfall(judgement.conclusion):
        lines += [f"*Less than the sentence:* {short}", ""]
    primary = [v.key for v in judgement.verdicts if v.primary]
    simulated = [row for row in read_severity(found.directory.parents[1]) if row.claim == claim.id]
    if names := [v.name for v in judgement.verdicts if v.primary and v.key in undecidable(simulated)]:
        lines += [f"Too small to show, were it true (below, how often the judge is right): {'; '.join(names)}.", ""]
    lines += [line for file in figures for line in (f"![{file.stem}](figures/{file.name})", "")]
    for role, title in ROLES.items():
        chosen = [v for v in judgement.verdicts if v.role == role]
        if chosen:
            lines += [f"## {title}", "", *(map(_item, chosen) if as_list else _table(chosen)), ""]
    lines += _severity(simulated, primary, {v.key: v.name for v in judgement.verdicts})
    lines += ["## How", "", claim.method, "", "## Deviations from the paper", "", claim.deviations, ""]
    for title, text in (("Clarity", claim.clarity), ("What was tried before", claim.history)):
        if text:
            lines += [f"## {title}", "", text, ""]
    lines += ["## To run it again", "", "```", record.command, "```", "", *_provenance(provenance), ""]
    return "\n".join(lines)


def declared_page(claim: Claim, preset_name: str = "cpu") -> str:
    """What would be tested, for a claim that has not been run."""
    lines = [f"# {claim.id}: not run", "", f"> {claim.sentence}", "", f"Scale: {claim.scale_of(preset_name)}", ""]
    lines += ["| part | claimed | role | where, why |", "|---|---|---|---|"]
    for part in claim.parts(claim.preset(preset_name)):
        where = ". ".join(text for text in (part.source, part.why) if text)
        lines.append(f"| {_cell(part.name)} | {part.claimed} | {part.role} | {_cell(where)} |")
    lines += ["", "## How", "", claim.method, "", "## Deviations from the paper", "", claim.deviations, ""]
    return "\n".join([*lines, "```", f"cotlens claims run {claim.id}", "```", ""])


def planned(claim_id: str, results: Path, gpu: str = "A100") -> str:
    """What the paper's own numbers would take, as recorded plans say; empty if there is none of the claim."""
    from interp.core.plan import recorded
    from interp.cost.estimate import Estimate
    from interp.cost.gpus import find_gpu

    found = recorded(claim_id, results).get("paper")
    if found is None:
        return ""
    lines = [f"- {line}" for line in Estimate.read(found).lines(find_gpu(gpu))]
    what = "Estimated from items cut short (`cotlens claims plan`), not run:"
    return "\n".join(["", "## What the paper's own numbers would take", "", what, "", *lines, ""])


def _table(verdicts: Sequence[Verdict]) -> list[str]:
    columns = ("", "part", "supported if", "estimate [interval]", "minus threshold", "n", "where, why this threshold")
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *map(_line, verdicts)]


def _item(v: Verdict) -> str:
    name = f"{v.name} (primary)" if v.primary else v.name
    said = ". ".join(text for text in (name, v.quantity, v.note) if text)
    return f"- {MARKS[v.outcome]} {said}. **{_outcome(v)}**; supported if {v.claimed}; n: {v.n} {v.unit}. {_where(v)}"


def _outcome(v: Verdict) -> str:
    return f"{v.outcome}: {v.interval}{'' if v.level is None else f' at {100 * v.level:.4g}%'}"


def _where(v: Verdict) -> str:
    return ". ".join(text.rstrip(".") for text in (v.source, v.why) if text)


def _line(v: Verdict) -> str:
    name = f"**{v.name}**" if v.primary else v.name
    difference = "" if v.estimate is None else f"{v.estimate - v.threshold:+.3g}"
    note = f"<br>{v.note}" if v.note else ""
    cells = (
        MARKS[v.outcome],
        f"{name}<br>{v.quantity}{note}",
        v.claimed,
        _outcome(v),
        difference,
        f"{v.n} {v.unit}",
        _where(v),
    )
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _severity(rows: Sequence[Severity], primary: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """How often the judge errs in simulated worlds, if it has been measured: what decides the conclusion, one by one,
    and the other parts together."""
    if not rows:
        return []
    lines = [
        "## How often the judge would be wrong",
        "",
        f"A *world* is a simulated experiment of this size in which the truth of a part is known, drawn {rows[0].n} "
        f"times. At most {ALPHA:.0%} should be decided wrongly; chance allows up to {rows[0].limit:.0%} of so many "
        "draws.",
        "",
        "| world | part | truth there | decided rightly | decided wrongly |",
        "|---|---|---|---|---|",
    ]
    for world in dict.fromkeys(row.world for row in rows):
        here = [row for row in rows if row.world == world]
        shown = [row for row in here if row.part in (FAMILY, *primary)]
        cells = [
            (_cell(names.get(row.part, row.part)), str(row.truth).lower(), f"{row.right:.0%}", f"{row.wrong:.1%}")
            for row in shown
        ]
        if others := [row for row in here if row not in shown]:
            least, most = (f"{end(row.right for row in others):.0%}" for end in (min, max))
            wrong = f"at most {max(row.wrong for row in others):.1%}"
            count = "1 other part" if len(others) == 1 else f"{len(others)} other parts"
            cells.append((count, "", least if least == most else f"{least} to {most}", wrong))
        lines += ["| " + " | ".join((_cell(world), *line)) + " |" for line in cells]
    return [*lines, ""]


def _provenance(provenance: Mapping[str, Any]) -> list[str]:
    packages = provenance.get("packages") or {}
    seconds = provenance.get("seconds")
    facts = {
        "commit": provenance.get("commit"),
        "units": _units(provenance.get("units") or []),
        "processor": provenance.get("processor"),
        "python": provenance.get("python"),
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items() if version),
        "seconds of work": f"{sum(seconds.values()):.0f}" if seconds else None,
        "protocol": (provenance.get("declaration") or {}).get("hash"),
        "declared in": (provenance.get("declaration") or {}).get("commit"),
    }
    return [f"- {name}: {value}" for name, value in facts.items() if value]


def _units(units: Sequence[str]) -> str:
    return ", ".join(units) if len(units) <= 12 else f"{len(units)}, from {units[0]} to {units[-1]}"


def is_ours(claim: Claim) -> bool:
    """Whether the claim says of its experiment that it is ours and not the paper's."""
    return claim.falls_short.startswith(OURS)


def _short(one: "Published") -> str:
    claim = load_claims().get(one.record.claim)
    return claim.shortfall(one.record.judgement.conclusion) if claim else ""


def ledger_table(found: Sequence["Published"], link: str = "") -> str:
    """One line for each claim: conclusion, scale, status and finding."""
    lines = ["| claim | conclusion | finding |", "|---|---|---|"]
    for one in found:
        page = f"{link}{one.record.claim}/README.md"
        judgement = one.record.judgement
        less = ", less than the sentence" if _short(one) else ""
        concluded = f"{judgement.conclusion}{less} ({judgement.counts}); {one.record.status}"
        lines.append(f"| [`{one.record.claim}`]({page}) | {concluded} | {_cell(judgement.finding)} |")
    return "\n".join(lines)


def paper_lines(found: Sequence["Published"], link: str = "") -> str:
    """One line for each paper: how many of its claims ended how."""
    by_paper = _by_paper(found)
    missing = {paper: len(not_run(paper, of_paper)) for paper, of_paper in by_paper.items()}
    columns = ["paper", "claims", *CONCLUSIONS, "less than the sentence", "confirmatory"]
    columns += ["not run yet"] if any(missing.values()) else []
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for paper, of_paper in by_paper.items():
        counts = Counter(one.record.judgement.conclusion for one in of_paper)
        short = sum(bool(_short(one)) for one in of_paper)
        sure = sum(one.record.status == "confirmatory" for one in of_paper)
        name = f"[{paper}]({link}{paper}/README.md)" if of_paper else paper
        cells = [name, len(of_paper) + missing[paper], *(counts[c] for c in CONCLUSIONS), short, sure]
        cells += [missing[paper]] if any(missing.values()) else []
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    titles = "; ".join(f"{paper}, *{title}*" for paper in by_paper if (title := _title(paper)))
    less = [LESS] if any(_short(one) for one in found) else []
    known = load_claims()
    ours = [one.record.claim for one in found if one.record.claim in known and is_ours(known[one.record.claim])]
    pages = ", ".join(f"[{name}]({link}{name}/README.md)" for name in ours)
    counted = [f"Counted above, though the experiment is ours and not the paper's: {pages}."] if ours else []
    return "\n".join([*lines, "", " ".join([f"The papers: {titles}.", *less, *counted])])


def _title(paper: str) -> str:
    found = re.search(r'"(.+)"', citation(paper))
    return found[1].rstrip(",.") if found else ""


def not_run(paper: str, published: Sequence["Published"]) -> list[str]:
    """The claims of a paper that nothing is published of; those of plug-ins do not count."""
    done = {one.record.claim for one in published}
    return sorted(claim for claim in _ours() if claim.startswith(f"{paper}/") and claim not in done)


def _ours() -> list[str]:
    known = load_claims().values()
    return [claim.id for claim in known if claim.measure.__module__.startswith("interp.claims.")]


def _by_paper(found: Sequence["Published"]) -> dict[str, list["Published"]]:
    """Papers in order of their names, with what is published of each."""
    papers = sorted({claim.split("/")[0] for claim in [*_ours(), *(one.record.claim for one in found)]})
    return {paper: [one for one in found if one.record.claim.startswith(f"{paper}/")] for paper in papers}


def write_paper_pages(found: Sequence["Published"], results: Path) -> None:
    """Writes a README.md for every paper in `results`."""
    for paper, of_paper in _by_paper(found).items():
        if not of_paper:
            continue
        missing = not_run(paper, of_paper)
        lines = [f"# {paper}", "", citation(paper), "", ledger_table(of_paper, "../"), ""]
        lines += [f"Not run yet: {', '.join(missing)}.", ""] if missing else []
        write_text(results / paper / "README.md", "\n".join(lines))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
