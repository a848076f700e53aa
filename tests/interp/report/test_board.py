"""What does a claim's card say: conclusion, parts with their roles and levels, error rates, published files?"""

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from interp.core.claim import load_claims
from interp.core.published import publish
from interp.core.severity import Severity
from interp.core.verdict import Verdict
from interp.report import build
from interp.report.board import MARKS, PART_MARKS, card, cards, counts_line, papers
from interp.report.errors import errors
from interp.report.forest import WIDTH, forest
from interp.report.sources import Run, read_runs, read_severity
from interp.report.templates import environment
from tests.interp.report.elements import Elements
from tests.interp.report.synthetic import plain_toy_run


def drawn(call: str, **values) -> str:
    """What a macro of the template for claims draws."""
    imports = "{% from 'claim.html' import claim, forest, not_run, part with context %}"
    template = environment().from_string(f"{imports}{{{{ {call} }}}}")
    return template.render(marks=MARKS | PART_MARKS, **values)


def at_preset(run: Run, name: str, **changed) -> Run:
    """The run as if it had had the numbers of its claim's preset `name`, but for those `changed`."""
    assert run.judged is not None
    preset: Any = run.judged.claim.preset(name)
    numbers = json.loads(json.dumps(asdict(preset))) | changed
    judged = replace(run.judged, record=replace(run.judged.record, preset=name))
    return replace(run, config={"claim": run.judged.claim.id, "preset": name, **numbers}, judged=judged)


def verdict(low: float | None = 0.0, high: float | None = 1.0, estimate: float | None = 1.0, **more) -> Verdict:
    told = {
        "claim": "wen2024/fig2", "key": "part", "name": "a part", "role": "paper", "primary": True, "quantity": "q",
        "direction": "above", "threshold": 0.5, "margin": None, "why": "because", "source": "Figure 2",
        "outcome": "inconclusive", "estimate": estimate, "low": low, "high": high, "level": 0.975, "n": 3,
        "unit": "seeds",
    }  # fmt: skip
    return Verdict(**told | more)


@pytest.mark.parametrize("low", [-np.inf, 0.0, np.inf])
@pytest.mark.parametrize("high", [1.0, np.inf])
def test_a_forest_plot_stays_in_its_frame(low, high):
    plot = forest(verdict(low, high, estimate=np.inf if low == np.inf else 1.0))
    assert plot is not None
    shown = drawn("forest(plot)", plot=plot)
    assert "nan" not in shown.lower()
    assert "inf" not in shown.replace("interval", "")
    shapes = [a for tag, a in Elements(shown).found if tag in ("line", "rect")]
    assert len(shapes) == 3
    assert all(0 <= float(a[name]) <= WIDTH for a in shapes for name in ("x1", "x2", "x") if name in a)


def test_a_margin_has_two_ends_and_the_claimed_values_lie_between():
    plot = forest(verdict(direction="within", threshold=2.0, margin=0.5, low=1.0, high=2.2, estimate=1.6))
    assert plot is not None
    assert len(plot.bounds) == 2
    assert plot.claimed == (plot.bounds[0], pytest.approx(plot.bounds[1] - plot.bounds[0]))
    assert "97.5% interval" in plot.label
    assert "claimed to be 2 ± 0.5" in plot.label


def test_what_was_not_measured_is_told_without_a_number(runs):
    (run,) = read_runs([runs / "fig3b"])
    nothing = verdict(None, None, None, level=None, n=0, outcome="not testable here", note="0 of 2 models learn it")
    assert run.judged is not None
    judgement = replace(run.judged.record.judgement, verdicts=(nothing,), conclusion="undecided")
    judged = replace(run.judged, record=replace(run.judged.record, judgement=judgement))
    one = card(judged.claim, run=replace(run, judged=judged))
    assert [(line.forest, line.difference, line.level) for line in one.lines] == [(None, "", "")]
    shown = drawn("part(line)", line=one.lines[0])
    assert "No estimate: 0 of 2 models learn it" in shown
    assert "svg" not in shown
    assert "0 seeds" not in shown


def test_claims_that_were_not_run_are_one_folded_line():
    claims = load_claims()
    (paper,) = papers([card(claims["wen2024/fig2"]), card(claims["wen2024/fig3a"])])
    assert not paper.ran
    assert not paper.outcomes
    shown = drawn("not_run(cards)", cards=paper.not_run)
    assert "not run" in shown
    elements = Elements(shown).found
    assert [tag for tag, _ in elements].count("details") == 1
    assert {a["id"] for _, a in elements if "id" in a} == {"claim-wen2024-fig2", "claim-wen2024-fig3a"}


def test_a_paper_counts_the_conclusions_of_its_claims(runs):
    found = cards(load_claims(), read_runs([runs]), {})
    (ran,) = [one for one in found if one.run]
    first, *others = papers(found)
    assert (ran.id, ran.conclusion, first.name) == ("wen2024/fig3b", "undecided", "wen2024")
    assert first.outcomes == {"undecided": 1}
    assert first.not_run[0].conclusion == "not run"
    assert first.line == f"1 claim: 1 undecided; none confirmatory. {len(first.not_run)} not run."
    assert "Sparse Attention" in first.title
    assert not any(paper.ran for paper in others)
    several = [replace(ran, conclusion=name, status="confirmatory") for name in ("undecided", *MARKS)][:-1]
    told = "5 claims: 1 reproduced, 1 partly reproduced, 1 not reproduced, 2 undecided; all confirmatory."
    assert counts_line(several, []) == told


def test_primary_parts_come_first_and_the_rest_folds(runs):
    (run,) = read_runs([runs / "fig3b"])
    (one,) = [c for c in cards(load_claims(), [run], {}) if c.run]
    assert [line.verdict.key for line in one.first_lines] == ["mass", "points", "one_hot"]
    many = replace(one, lines=[replace(one.lines[-1])] * 9 + list(one.lines[:1]))
    assert [line.verdict.key for line in many.first_lines] == ["mass"] + ["one_hot"] * 5
    assert len(many.other_lines) == 4
    assert one.lines[0].difference == "−0.269 [−0.5, +0.5]"  # estimate and interval, minus the threshold


def test_error_rates_stand_beside_the_verdict(runs, tmp_path):
    rates = [
        Severity("wen2024/fig3b", "elsewhere", "mass", truth=False, right=0.6, wrong=0.04, n=50),
        Severity("wen2024/fig3b", "one-hot", "mass", truth=True, right=0.9, wrong=0.02, n=50),
        Severity("wen2024/fig3b", "predominant", "mass", truth=True, right=1.0, wrong=0.0, n=50),
    ]
    found = errors(rates, ["mass"])
    assert found is not None
    assert found.words == "false support 4%, false refutation 2%, power 90% to 100%"
    assert (found.worlds, found.draws) == (3, 50)
    assert errors(rates, ["points"]) is None
    (tmp_path / "severity.json").write_text(json.dumps([rate.record() for rate in rates]))
    assert read_severity([tmp_path / "none", tmp_path]) == {"wen2024/fig3b": rates}
    (run,) = read_runs([runs / "fig3b"])
    shown = drawn("claim(card)", card=card(load_claims()["wen2024/fig3b"], 1, at_preset(run, "cpu"), rates))
    assert "This judge in 3 simulated worlds, 50 draws each, primary parts: false support 4%" in shown
    assert "not known for a run of this size" not in shown
    page = build([runs], results=tmp_path)
    told = "At the published size (6 seeds) in 3 simulated worlds, 50 draws each, primary parts: false support 4%"
    assert told in page  # that run has two seeds
    assert "This judge in" not in page
    (tmp_path / "severity.json").write_text('[{"claim": 1}]')
    with pytest.raises(ValueError, match="severity"):
        read_severity([tmp_path])


def test_what_was_written_of_the_published_run_says_so_beside_a_smaller_one(runs):
    (run,) = read_runs([runs / "fig3b"])
    assert run.judged is not None
    judgement = replace(run.judged.record.judgement, conclusion="partly reproduced")
    judged = replace(run.judged, record=replace(run.judged.record, judgement=judgement))
    claim = replace(judged.claim, falls_short="From k=2 to k=4 no law is told.")
    rates = [Severity(claim.id, "one-hot", "mass", truth=True, right=1.0, wrong=0.0, n=50)]
    small, whole = replace(run, judged=judged), at_preset(replace(run, judged=judged), "cpu", first_unit=40)
    assert card(claim, run=small).short == "Of the published run: From k=2 to k=4 no law is told."
    same, fewer = card(claim, 1, whole, rates), card(claim, 1, at_preset(whole, "cpu", seeds=3), rates)
    assert same.short == claim.falls_short
    assert (same.errors is None, same.errors_elsewhere) == (False, "")
    assert fewer.short.startswith("Of the published run: ")
    assert fewer.errors is None
    assert all(line.errors is None for line in fewer.lines)
    assert fewer.errors_elsewhere.endswith("power 100%; not known for a run of this size.")


@pytest.mark.usefixtures("drawn")
def test_published_results_are_reported_from_their_files(runs, tmp_path):
    (run,) = read_runs([runs / "fig3b"])
    copy = plain_toy_run(tmp_path / "run")
    claim = load_claims()["wen2024/fig3b"]
    publish(claim, copy, tmp_path / "results")
    (published,) = read_runs([tmp_path / "results"])
    assert published.judged == run.judged
    assert published.name == run.name == "wen2024/fig3b, smoke preset"
    drawn_order = list(claim.figures(published.table))
    assert [file.stem for file in published.figures] == drawn_order
    one, same = card(claim, run=published), card(claim, run=run)
    assert [(p.caption, p.width, p.height) for p in one.pictures] == [
        (p.caption, p.width, p.height) for p in same.pictures
    ]
    assert one.facts["units"] == "0, 1"
    both = read_runs([copy, tmp_path / "results" / "wen2024"])
    assert [run.name for run in both] == [f"{run.name} ({name})" for name in ("run", "fig3b")]
    found = [c for c in cards(load_claims(), both, {}) if c.run]
    assert [c.anchor for c in found] == ["claim-wen2024-fig3b", "claim-wen2024-fig3b:2"]
