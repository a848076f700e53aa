"""cotlens demo: the main job on built-in defaults, in a few minutes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interp.claims.wen2024._fig6 import Fig6
from interp.claims.wen2024.fig2 import Fig2
from interp.claims.wen2024.fig3b import Fig3b, Width
from interp.cli import parse
from interp.core.claim import find_claims
from interp.core.protocol import RESULTS

SMALL = {
    "wen2024/fig3b": Fig3b((Width(128, 512, n=20, k=5, lr=1e-4, budget=150_000),), 2048, 2048, seeds=3),
    "wen2024/fig2": Fig2(20, (1, 2, 3), ((1, 1),), 128, 512, (1e-4,), 250_000, 2048, 2048, seeds=3),
    "wen2024/fig6": Fig6("builtin", "builtin", limit=16, shard=8, baseline_limit=8, keep_tokens=2),
}
"""The demo's versions of the claims: 20 bits and 3 seeds, and 16 problems, instead of the cpu preset's numbers."""


@dataclass(frozen=True)
class Demo:
    """Train parity with and without chain of thought, measure a pretrained model, and judge what the paper claims.

    A second run in the same directory finds its work done and only judges and draws again.
    """

    out: Path = Path("demo")
    """Directory for rows, verdicts, figures and the report."""
    workers: int = 2
    """Processes."""


def main(arguments: Sequence[str]) -> None:
    """Runs the small claims and says what was found and where it is."""
    from rich.console import Console

    from hf_analysis.models.builtin import check_builtin
    from interp.core.ledger import concluded, footnote
    from interp.core.reproduce import command
    from interp.core.sweep import Pace, kinds_of, run_claim
    from interp.core.verdict import verdict_table
    from interp.report import write_report

    options = parse(Demo, arguments, "demo")
    if options.workers < 1:
        raise ValueError(f"--workers must be at least 1, got {options.workers}")
    check_builtin()
    print("Does chain of thought (CoT) make attention sparse? Toy transformers on the parity of secret bits, and a")
    print("pretrained language model on grade-school problems.", flush=True)
    claims = find_claims(list(SMALL))
    pace = Pace(kind for claim in claims for kind in kinds_of(claim, claim.items(SMALL[claim.id])))
    records = []
    for claim in claims:
        print(f"\n{claim.id}: {claim.sentence}", flush=True)
        record = run_claim(
            claim,
            "demo",
            options.out / claim.id.replace("/", "-"),
            preset=SMALL[claim.id],
            command=command("demo"),
            resume=True,
            workers=options.workers,
            pace=pace,
            report=lambda line: print(line, flush=True),
        )
        records.append(record)
    told = [concluded(claim, record.judgement) for claim, record in zip(claims, records)]
    for record, conclusion in zip(records, told):
        primary = [v for v in record.judgement.verdicts if v.primary]
        Console().print(verdict_table(primary, title=f"{record.claim}, the parts that decide"))
        print(f"{record.claim}: {conclusion} ({record.status}; {record.scale})")
        print(f"{record.judgement.finding}\n")
    page = options.out / "report.html"
    write_report([options.out], page)
    for record, conclusion in zip(records, told):
        print(f"{record.claim:<14} {conclusion}")
    published = beside([record.claim for record in records], RESULTS)
    print(published)
    print(footnote([*told, published]), end="")
    print(f"Open {page} in a browser: every part, control and head. Figures are in {options.out}/*/figures.")


def beside(claims: Sequence[str], results: Path) -> str:
    """That the demo decides little, and what the published runs of `claims` concluded, where `results` has them."""
    from interp.core.ledger import concluded
    from interp.core.published import claim_of, read_published

    little = "So few seeds and problems decide little."
    there = [name for name in claims if (results / name / "judgement.json").is_file()]
    if not there:
        return little
    told = []
    for found in (read_published(name, results) for name in there):
        unit = "seeds" if found.provenance["numbers"].get("seeds", 1) > 1 else "problems"
        size = f"{len(found.provenance['units'])} {unit}"
        told.append(f"{found.record.claim}, {size}: {concluded(claim_of(found), found.record.judgement)}")
    pages = dict.fromkeys(str(results / name.split("/")[0] / "README.md") for name in there)
    return f"{little} The published runs: {'; '.join(told)} ({', '.join(pages)})."
