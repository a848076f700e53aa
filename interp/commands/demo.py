"""cotlens demo: the main job on built-in defaults, in a few minutes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interp.claim import find_claims
from interp.claims.wen2024_fig2 import Fig2
from interp.claims.wen2024_fig3b import Fig3b, Width
from interp.cli import parse

SMALL = {
    "wen2024/fig3b": Fig3b((Width(128, 512, n=20, k=5, lr=1e-4, budget=150_000),), 2048, 2048, seeds=3),
    "wen2024/fig2": Fig2(20, (1, 2, 3), ((1, 1),), 128, 512, (1e-4,), 250_000, 2048, 2048, seeds=3),
}
"""The demo's versions of the claims: 20 bits and 3 seeds instead of the cpu preset's 30 or 40 bits and 5."""


@dataclass(frozen=True)
class Demo:
    """Train parity with and without chain of thought, look at the attention, and judge two claims.

    A second run in the same directory finds its work done and only judges and draws again.
    """

    out: Path = Path("demo")
    """Directory for rows, verdicts and figures."""
    workers: int = 2
    """Processes."""


def main(arguments: Sequence[str]) -> None:
    """Runs the small claims and says what was found and where it is."""
    from rich.console import Console

    from interp.sweep import run_claim
    from interp.verdict import verdict_table

    options = parse(Demo, arguments, "demo")
    print("Transformers learn the parity of secret bits: with chain of thought (CoT) and without.", flush=True)
    verdicts, pictures = [], []
    for claim in find_claims(list(SMALL)):
        print(f"\n{claim.id}: {claim.sentence}", flush=True)
        directory = options.out / claim.id.replace("/", "-")
        verdicts += run_claim(
            claim,
            "demo",
            directory,
            preset=SMALL[claim.id],
            resume=True,
            workers=options.workers,
            report=lambda line: print(line, flush=True),
        )
        pictures += sorted(directory.glob("figures/*.png"))
    Console().print(verdict_table(verdicts))
    print("Figures:", *(f"  {picture}" for picture in pictures), sep="\n")
