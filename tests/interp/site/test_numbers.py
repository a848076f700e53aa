"""Are the numbers of hand-written pages those of the results, and does a changed outcome stop the page?"""

import json

import pytest

from interp.core.published import read_published
from interp.site.numbers import NUMBER, main, with_numbers, without_marks
from tests.interp.site.pages import PAGES, ROOT

RESULTS = ROOT / "results"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_numbers_of_a_page_are_current(page):
    text = page.read_text(encoding="utf-8")
    assert with_numbers(text, RESULTS) == text, "python -m interp.site.numbers fills them in"


def test_the_note_takes_its_numbers_from_results():
    assert len(NUMBER.findall((ROOT / "docs" / "note.md").read_text(encoding="utf-8"))) > 40


def test_a_stale_number_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "It is <!-- wen2024/fig9 {cot_fails.n} -->many<!-- / --> seeds.".replace("cot_fails", _first_key())
    )
    assert main(tmp_path, RESULTS) == [page]
    assert "many" not in page.read_text()
    assert main(tmp_path, RESULTS) == []
    assert without_marks(page.read_text()).startswith("It is ")
    assert "<!--" not in without_marks(page.read_text())


def test_a_page_whose_outcome_has_changed_is_refused():
    text = f"<!-- rests on wen2024/fig9 {_first_key()}=inconclusive -->\nIt is unknown."
    with pytest.raises(ValueError, match="write its sentences anew"):
        with_numbers(text, RESULTS)


def test_a_page_whose_claim_was_declared_since_is_refused():
    with pytest.raises(ValueError, match="status being exploratory; it is confirmatory"):
        with_numbers("<!-- rests on wen2024/fig6-gsm8k status=exploratory -->\nNobody declared it.", RESULTS)
    with_numbers("<!-- rests on wen2024/fig6-gsm8k status=confirmatory -->\nIt was declared.", RESULTS)


def test_the_note_tells_the_status_of_every_claim_that_it_takes_numbers_from():
    text = (ROOT / "docs" / "note.md").read_text(encoding="utf-8")
    told = {match["claim"]: match[0] for match in NUMBER.finditer(text) if match["template"] == "{status}"}
    assert {match["claim"] for match in NUMBER.finditer(text)} == told.keys()
    for claim, shown in told.items():
        assert f"-->{read_published(claim, RESULTS).record.status}<!--" in shown


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match="the parts are"):
        with_numbers("<!-- wen2024/fig9 {nothing} -->0<!-- / -->", RESULTS)


def test_hours_are_those_of_the_provenance_of_the_claims_that_are_named(tmp_path):
    for claim, seconds in (("a2024/fig1", {"x": 3600, "y": 1800}), ("a2024/fig2", {"x": 900}), ("b2024/fig1", {})):
        (tmp_path / claim).mkdir(parents=True)
        (tmp_path / claim / "provenance.json").write_text(json.dumps({"seconds": seconds}))
    text = "It took <!-- hours of a2024/* b2024/* but a2024/fig2 -->9<!-- / --> hours."
    found = with_numbers(text, tmp_path)
    assert without_marks(found) == "It took 1.5 hours."
    assert "hours of a2024/* b2024/* but a2024/fig2 -->" in found
    assert without_marks(with_numbers("<!-- hours of a2024/* -->0<!-- / -->", tmp_path)) == "1.8"
    with pytest.raises(ValueError, match="no published claim"):
        with_numbers("<!-- hours of c2024/* -->0<!-- / -->", tmp_path)


def _first_key() -> str:
    return read_published("wen2024/fig9", RESULTS).record.judgement.verdicts[0].key
