"""What does the demo say of its own size?"""

from pathlib import Path

from interp.commands.demo import SMALL, beside
from interp.core.protocol import ROOT
from interp.core.published import read_published


def test_the_demo_ends_with_what_the_published_runs_concluded():
    said = beside(list(SMALL), ROOT / "results")
    assert "\n" not in said
    assert said.startswith("So few seeds and problems decide little. The published runs: wen2024/fig3b, 6 seeds: ")
    for claim in SMALL:
        assert f": {read_published(claim, ROOT / 'results').record.judgement.conclusion}" in said
    assert "wen2024/fig6, 400 problems: " in said
    assert said.endswith(f"({ROOT / 'results' / 'wen2024' / 'README.md'}).")


def test_a_wheel_has_no_published_runs(tmp_path: Path):
    assert beside(list(SMALL), tmp_path) == "So few seeds and problems decide little."
