"""What was found of each claim and paper? Pages of the site, from `results/` and from what is declared."""

from collections.abc import Sequence
from pathlib import Path

from interp.core.claim import Claim, citation, load_claims
from interp.core.published import Published, all_published
from interp.report.board import PART_MARKS
from interp.report.ledger_pages import MARKS, declared_page, ledger_table, paper_lines, planned

ABOUT = """# Claims

Every claim of the papers that CoTLens tests, with its conclusion. A page shows the paper's sentence, each part with
estimate, interval and threshold, how often its judge errs, every deviation, what was tried before, and the command
that runs it again. [How verdicts are made](../explain/verdicts.md) says what the words mean. A conclusion that
differs from the paper's is a finding about that scale, which every page names.

"""


def claim_pages(results: Path) -> dict[str, str]:
    """By path within the site: one page for each claim, one for each paper, and one for all."""
    found = {one.record.claim: one for one in all_published(results)}
    claims = {claim.id: claim for claim in load_claims().values() if _ours(claim)}
    pages = {"claims/index.md": ABOUT + _as_pages(paper_lines(list(found.values()))) + "\n"}
    for claim_id, claim in sorted(claims.items()):
        pages[f"claims/{claim_id}/index.md"] = _claim_page(claim, found.get(claim_id)) + planned(claim_id, results)
    for paper in papers(results):
        of_paper = [claims[claim_id] for claim_id in sorted(claims) if claim_id.startswith(f"{paper}/")]
        pages[f"claims/{paper}/index.md"] = _paper_page(paper, of_paper, found)
    for paper in papers(results):
        bare = f"| {paper} |"
        pages["claims/index.md"] = pages["claims/index.md"].replace(bare, f"| [{paper}]({paper}/index.md) |")
    return pages


def papers(results: Path) -> list[str]:
    """Papers with claims of ours or results, by name."""
    declared = {claim.paper for claim in load_claims().values() if _ours(claim)}
    return sorted(declared | {one.record.claim.split("/")[0] for one in all_published(results)})


def figure_files(results: Path) -> dict[str, Path]:
    """By path within the site: the published figures, PNG for the page and SVG to take along."""
    files = (file for one in all_published(results) for file in sorted((one.directory / "figures").iterdir()))
    return {f"claims/{file.relative_to(results).as_posix()}": file for file in files}


def navigation(results: Path) -> list:
    """The section *Claims* of the site: papers, and below each its claims."""
    pages = sorted(path for path in claim_pages(results) if path.count("/") == 3)
    section: list = ["claims/index.md"]
    for paper in papers(results):
        own = [path for path in pages if path.startswith(f"claims/{paper}/")]
        section.append({paper: [f"claims/{paper}/index.md", *({path.split("/")[2]: path} for path in own)]})
    return section


def _ours(claim: Claim) -> bool:
    return claim.measure.__module__.startswith("interp.claims.")


def _claim_page(claim: Claim, found: Published | None) -> str:
    if found is None:
        return declared_page(claim)
    text = _marked((found.directory / "README.md").read_text(encoding="utf-8"))
    vectors = [file.name for file in sorted((found.directory / "figures").glob("*.svg"))]
    taken = ", ".join(f"[{name}](figures/{name})" for name in vectors)
    return f"{text}\nFigures as SVG: {taken}. Rows: `results/{claim.id}/rows.parquet`.\n"


def _paper_page(paper: str, claims: Sequence[Claim], found: dict[str, Published]) -> str:
    published = [found[claim.id] for claim in claims if claim.id in found]
    lines = [f"# {paper}", "", citation(paper), ""]
    if published:
        lines += [_as_pages(ledger_table(published, "../")), ""]
    if waiting := [claim for claim in claims if claim.id not in found]:
        lines += ["Declared, not run yet:", ""]
        lines += [f"- [`{claim.id}`](../{claim.id}/index.md): {claim.sentence}" for claim in waiting]
    return "\n".join([*lines, ""])


def _marked(text: str) -> str:
    """Outcomes by the report's signs, which every font has; the emoji of `results/` are pictures of some systems."""
    for outcome, emoji in MARKS.items():
        sign = f'<span class="outcome {outcome.replace(" ", "-")}" title="{outcome}">{PART_MARKS[outcome]}</span>'
        text = text.replace(f"| {emoji} |", f"| {sign} |").replace(f"- {emoji} ", f"- {sign} ")
    return text


def _as_pages(text: str) -> str:
    return text.replace("/README.md)", "/index.md)")
