"""Does what `results/` says follow from its rows, on this machine, by the code as it is?"""

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from interp.core.claim import load_claims
from interp.core.plan import recorded
from interp.core.published import all_published, claim_of, differences, judged_again, preset_with
from interp.core.severity import read_severity
from interp.cost.estimate import Estimate, outline
from interp.figures.style import STYLE, new_figure
from interp.report.ledger_card import BY_HAND, HEADLINES, IN_SHORT, dataset_card, headlines, in_short, with_findings
from interp.report.ledger_pages import claim_page, is_ours, paper_lines
from tests.tiers import slow_but

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PUBLISHED = list(all_published(RESULTS))
LIMIT = 45e6
"""Bytes that all results may take."""
ONE_OF_EACH_PAPER = {one.record.claim.split("/")[0]: one for one in PUBLISHED}.values()
claim_id = lambda one: one.record.claim  # noqa: E731
slow_but_one_of_each_paper = pytest.mark.parametrize(
    "published", slow_but(ONE_OF_EACH_PAPER, PUBLISHED), ids=claim_id, indirect=True, scope="module"
)


@pytest.fixture(params=PUBLISHED, ids=claim_id, scope="module")
def published(request):
    return request.param


def cut_labels(figure: Figure) -> list[str]:
    """Titles and labels of axes within half a percent of the figure's edge, where other rows would cut them."""
    figure.dpi = STYLE["savefig.dpi"]
    figure.draw_without_rendering()
    sides = [(label, 0) for axes in figure.axes for label in (axes.title, axes.xaxis.label)]
    sides += [(axes.yaxis.label, 1) for axes in figure.axes]
    cut = []
    for label, side in sides:
        (low, high), most = label.get_window_extent().get_points()[:, side], figure.bbox.max[side]
        if label.get_text() and not (0.005 * most <= low and high <= 0.995 * most):
            cut.append(label.get_text())
    return cut


def test_a_label_beyond_the_edge_is_found():
    figure = new_figure(2.0, 2.0)
    axes = figure.subplots()
    axes.set_xlabel("short")
    assert cut_labels(figure) == []
    axes.set_xlabel("far too long for so small a figure, on one line")
    assert cut_labels(figure) == [axes.get_xlabel()]


@slow_but_one_of_each_paper
def test_the_rows_give_the_published_judgement(published):
    again = judged_again(claim_of(published), published, RESULTS)
    assert differences(published, again.judgement.verdicts) == []
    assert again.judgement.conclusion == published.record.judgement.conclusion
    assert (again.status, again.scale) == (published.record.status, published.record.scale)


def test_a_run_has_as_many_seeds_as_its_judge_was_simulated_with(published):
    claim = claim_of(published)
    preset = claim.preset(published.record.preset)
    ran = preset_with(claim, published.record.preset, published.provenance["numbers"])
    assert getattr(ran, "seeds", None) == getattr(preset, "seeds", None)


@slow_but_one_of_each_paper
def test_the_rows_give_the_published_figures(published):
    claim = claim_of(published)
    drawn = {file.stem for file in (published.directory / "figures").iterdir()}
    figures = claim.figures(published.rows())
    assert figures.keys() == drawn
    for name, figure in figures.items():
        assert cut_labels(figure) == [], f"{name}: write them in two lines"


def test_the_page_is_that_of_the_published_result(published):
    claim = claim_of(published)
    assert (published.directory / "README.md").read_text(encoding="utf-8") == claim_page(claim, published)


def test_no_judge_errs_more_often_than_it_says_and_all_were_simulated():
    rows = read_severity(RESULTS)
    assert [row for row in rows if row.above_nominal] == []
    declared = {(row.claim, row.world) for row in rows}
    assert declared == {(claim.id, world.name) for claim in load_claims().values() for world in claim.worlds}


def test_the_card_and_the_readme_say_what_was_found():
    assert (RESULTS / "README.md").read_text(encoding="utf-8") == dataset_card(PUBLISHED)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_findings(readme, headlines(PUBLISHED, "results/")) == readme
    assert len(readme.splitlines()) <= 200


def test_the_number_by_hand_is_the_published_one(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    exec(BY_HAND, {})
    (one,) = [one for one in PUBLISHED if one.record.claim == "wen2024/fig6-gsm8k"]
    published = next(v for v in one.record.judgement.verdicts if v.key == "published")
    assert float(capsys.readouterr().out) == pytest.approx(published.estimate, abs=1e-6)


@pytest.mark.parametrize("claim", load_claims().values(), ids=lambda claim: claim.id)
def test_a_recorded_plan_is_of_the_preset_as_it_is_and_everything_tried_ran(claim):
    """A claim without a record can be planned nevertheless: tests/test_contracts.py."""
    for preset, record in recorded(claim.id, RESULTS).items():
        told = outline(claim, preset, claim.preset(preset))
        command = f"cotlens claims plan {claim.id} --preset {preset} --dry-run --record results"
        assert Estimate.read(record).answers(told, every_kind=False), f"planned before it changed: {command}"


def test_results_stay_small():
    assert sum(file.stat().st_size for file in RESULTS.rglob("*") if file.is_file()) < LIMIT


def test_what_is_said_in_short_is_said_only_with_the_outcomes_that_it_rests_on():
    assert len(in_short(PUBLISHED, "")) == len(IN_SHORT), "an outcome has changed: write its sentence anew"
    assert in_short([_turned(IN_SHORT[0])], "") == []


def _turned(told):
    """What is published of a claim, with every outcome that a sentence rests on changed."""
    claim_id, needed, _ = told
    one = next(one for one in PUBLISHED if one.record.claim == claim_id)
    judgement = one.record.judgement
    turned = [replace(v, outcome="inconclusive") if v.key in needed else v for v in judgement.verdicts]
    return replace(one, record=replace(one.record, judgement=replace(judgement, verdicts=tuple(turned))))


@pytest.mark.parametrize("told", HEADLINES, ids=lambda told: told[0])
def test_a_headline_whose_outcome_has_changed_is_told_in_the_claim_s_own_words(told):
    claim_id, _, sentence = told
    lead, said = sentence.split("** ")[0], load_claims()[claim_id].sentence
    now, then = (headlines(found, "") for found in (PUBLISHED, [_turned(told)]))
    assert lead in now, "an outcome has changed: write its sentence anew"
    assert said not in now
    assert lead not in then
    assert said in then


def test_what_a_verdict_leaves_of_its_sentence_is_told_only_where_it_counts_as_reproduced():
    claim = load_claims()["wen2024/thm2"]
    assert claim.falls_short
    for conclusion, told in (("reproduced", True), ("partly reproduced", True), ("undecided", False)):
        assert (claim.shortfall(conclusion) == claim.falls_short) is told
    (published,) = (one for one in PUBLISHED if one.record.claim == claim.id)
    assert f"*Less than the sentence:* {claim.falls_short}" in claim_page(claim, published)
    told = paper_lines([published])
    head, _, *lines = [line.split(" | ") for line in told.splitlines() if line.startswith("|")]
    (of_paper,) = (line for line in lines if "wen2024" in line[0])
    assert of_paper[head.index("less than the sentence")] == "1"
    assert "wen2024, *From Sparse Dependence to Sparse Attention" in told
    assert "[wen2024/thm2](wen2024/thm2/README.md)" in told.rsplit("\n", 1)[-1]


def test_claims_about_the_mechanism_of_wen2024_say_that_the_experiment_is_ours():
    ours = {name for name, claim in load_claims().items() if is_ours(claim) and name.startswith("wen2024/")}
    assert {name for name in load_claims() if name.startswith("wen2024/mechanism")} < ours
    assert "wen2024/fig2" not in ours
    told = {line.split("](")[-1].split("/README")[0]: line for line in headlines(PUBLISHED, "").splitlines()}
    assert "(ours: " in told["wen2024/mechanism-knockout"]
    assert "(ours: " not in told["li2024/fig4"]
    assert "[wen2024/mechanism-knockout]" in paper_lines(PUBLISHED).rsplit("\n", 1)[-1]
