"""Can anybody recompute what was published, and is a difference noticed?"""

import dataclasses
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from interp.commands.claims import main
from interp.core.claim import CLAIMS, load_claims
from interp.core.published import (
    _changes,
    all_published,
    check_replacement,
    judged_again,
    publish,
    read_published,
)
from interp.core.sweep import run_claim
from interp.report.ledger_card import END, START, with_findings
from interp.statistics import Interval
from probes import rows
from tests.interp.core.test_protocol import PART, Size, a_claim

CLAIM = "somebody2020/fig1"
pytestmark = pytest.mark.usefixtures("drawn")


def drawn(table: pd.DataFrame):
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot(table["value"])
    return {"gain": figure}


def measured(item, work) -> pd.DataFrame:
    seed = int(item.name)
    both = [rows.table(run="r", condition="cot", unit=item.name, metric=m, value=v) for m, v in _values(seed)]
    return rows.concat(both)


def _values(seed: int) -> list[tuple[str, float]]:
    return [("gain", 1.0 + 0.1 * seed), ("unread", 5.0)]


@pytest.fixture
def claim():
    """A small claim that is registered for the time of a test."""
    load_claims()
    made = dataclasses.replace(
        a_claim(PART, Size(seeds=3, first_unit=0)),
        measure=measured,
        figures=drawn,
        published=lambda table: table[table["metric"] == "gain"],
        summary=lambda table: table[table["metric"] == "gain"],
        finding="It gains {gain}.",
    )
    CLAIMS[CLAIM] = made
    yield made
    del CLAIMS[CLAIM]


@pytest.fixture
def results(claim, tmp_path) -> Path:
    """The claim, run and published."""
    run_claim(claim, "cpu", tmp_path / "run", workers=1)
    publish(claim, tmp_path / "run", tmp_path / "results")
    return tmp_path / "results"


def test_a_published_claim_has_everything_a_reader_needs(claim, results):
    found = read_published(CLAIM, results)
    assert set(found.rows()["metric"]) == {"gain"}, "rows that nobody reads are left out"
    assert found.record.judgement.conclusion == "reproduced"
    assert found.record.judgement.finding.startswith("It gains 1.1 [")
    assert set(found.provenance["seconds"]) == {"0", "1", "2"}
    assert found.provenance["units"] == ["0", "1", "2"]
    directory = results / CLAIM
    assert {p.name for p in (directory / "figures").iterdir()} == {"gain.png", "gain.svg"}
    page = (directory / "README.md").read_text()
    for text in (f"# {CLAIM}: reproduced", "It gains 1.1", "exploratory", "figures/gain.png", "+0.6", "95%"):
        assert text in page, text


def test_the_rows_give_the_judgement_again(claim, results, capsys):
    (found,) = all_published(results)
    assert judged_again(claim, found, results) == found.record
    main(["judge", "all", "--results", str(results)])
    main(["judge", str(results / CLAIM)])
    assert capsys.readouterr().out.count("1 claim judged from published rows") == 2


def test_a_number_changed_by_hand_is_noticed_and_mended(results, capsys):
    file = results / CLAIM / "judgement.json"
    before = file.read_text()
    record = json.loads(before)
    record["verdicts"][0]["estimate"] = 2.0
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="1 of 1 claims differ"):
        main(["judge", "all", "--results", str(results)])
    assert "gain: supported 1.1" in capsys.readouterr().out
    main(["judge", "all", "--results", str(results), "--write"])
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("file", "name", "value", "said"),
    [
        ("judgement.json", "verdicts", ["x"], "is damaged"),
        ("judgement.json", "conclusion", "proved", "conclusion 'proved'"),
        ("judgement.json", "claim", "somebody2020/fig2", "it holds somebody2020/fig2"),
        ("provenance.json", "numbers", [], "is damaged"),
    ],
)
def test_a_damaged_file_is_one_line(file, name, value, said, results):
    path = results / CLAIM / file
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(ValueError, match=said):
        main(["judge", "all", "--results", str(results)])


def test_rows_that_are_not_those_published_are_refused(results):
    file = results / CLAIM / "rows.parquet"
    table = pd.read_parquet(file)
    table.assign(value=table["value"] * (1 + 1e-9)).to_parquet(file, index=False)
    with pytest.raises(ValueError, match=r"rows\.parquet is not the file that was published"):
        main(["judge", "all", "--results", str(results)])
    file.unlink()
    with pytest.raises(ValueError, match=r"rows\.parquet is missing"):
        main(["judge", "all", "--results", str(results)])


def test_a_place_without_results_is_said(claim, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["list"])
    assert capsys.readouterr().out.splitlines()[-1].startswith("no published results in results/")
    with pytest.raises(ValueError, match="--results nowhere: there is no such directory"):
        main(["list", "--results", "nowhere"])


def test_a_declaration_changed_by_hand_is_noticed(results, capsys):
    file = results / CLAIM / "judgement.json"
    record = json.loads(file.read_text())
    record["verdicts"][0]["n"] = 9999
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="1 of 1 claims differ"):
        main(["judge", "all", "--results", str(results)])
    assert "gain: n 3, published 9999" in capsys.readouterr().out


def test_a_figure_no_longer_drawn_is_removed(results):
    (results / CLAIM / "figures" / "stale.png").write_bytes(b"old")
    main(["judge", "all", "--results", str(results), "--write"])
    assert {p.stem for p in (results / CLAIM / "figures").iterdir()} == {"gain"}


def test_a_smaller_preset_does_not_replace_a_larger_one(claim, results):
    with pytest.raises(
        ValueError, match="holds somebody2020/fig1 at the preset cpu: a run at smoke does not replace"
    ):
        check_replacement(claim, "smoke", results)
    check_replacement(claim, "paper", results)


def test_another_preset_cannot_judge_these_rows(claim, results):
    larger = dataclasses.make_dataclass("Larger", [("depth", int, 3)], bases=(Size,), frozen=True)
    file = results / CLAIM / "provenance.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "numbers": {"seeds": 3, "depth": 2}}))
    CLAIMS[CLAIM] = dataclasses.replace(claim, presets=dict.fromkeys(claim.presets, larger()))
    with pytest.raises(ValueError, match="preset has changed since this run: depth was 2 and is 3; its page tells"):
        main(["judge", "all", "--results", str(results)])


def test_a_claim_that_cannot_be_judged_does_not_stop_the_others(results, capsys):
    shutil.copytree(results / CLAIM, results / "somebody2020" / "fig0")
    file = results / "somebody2020" / "fig0" / "judgement.json"
    file.write_text(file.read_text().replace(CLAIM, "somebody2020/fig0"))
    with pytest.raises(ValueError, match="1 of 2 claims were not judged"):
        main(["judge", "all", "--results", str(results)])
    said = capsys.readouterr().out
    assert "somebody2020/fig0                NOT JUDGED: " in said
    assert f"{CLAIM:<32} reproduced, exploratory" in said


def test_of_a_changed_preset_the_innermost_numbers_are_named():
    runs = [{"steps": 2, "rate": 1e-3, "seed": 0}, {"steps": 2, "rate": 1e-3, "seed": 0}]
    now = [{**one, "steps": 3, "reads": [5]} for one in runs]
    assert _changes("runs", runs, now) == "steps was 2 and is 3, reads was None and is [5]"
    assert _changes("runs", runs, now[:1]) == "runs were 2 and are 1, steps was 2 and is 3, reads was None and is [5]"
    assert _changes("sizes", list(range(9)), [1]) == "sizes was [0, 1, 2, 3, 4, 5, 6, 7, 8] and is [1]"
    many = {str(i): i for i in range(8)}
    assert _changes("runs", many, dict.fromkeys(many, -1)).endswith("4 was 4 and is -1 and 3 more")


def test_a_confirmatory_result_that_another_estimator_judges_is_exploratory(claim, results, monkeypatch):
    import interp.core.published as published

    monkeypatch.setattr(published, "status", lambda *_: "confirmatory")
    (found,) = all_published(results)
    assert judged_again(claim, found, results).status == "exploratory", "once exploratory, always so"
    found = dataclasses.replace(found, record=dataclasses.replace(found.record, status="confirmatory"))
    assert judged_again(claim, found, results).status == "confirmatory"
    other = dataclasses.replace(PART, estimate=lambda table, level: Interval(9.0, 8.0, 10.0, level, 3))
    changed = dataclasses.replace(claim, parts=lambda preset: [other])
    assert judged_again(changed, found, results).status == "exploratory"


def test_problems_that_were_used_cannot_be_declared_again(claim, results):
    problems = dataclasses.make_dataclass("Problems", [("limit", int, 5)], bases=(Size,), frozen=True)
    CLAIMS[CLAIM] = dataclasses.replace(claim, presets=dict.fromkeys(claim.presets, problems(1, 0)))
    with pytest.raises(ValueError, match="used the units 0 to 2 already"):
        main(["declare", CLAIM, "--results", str(results)])
    with pytest.raises(ValueError, match="used the units 2 to 2 already"):
        main(["declare", CLAIM, "--first-unit", "2", "--results", str(results)])


def test_units_that_were_used_cannot_be_declared_again(results):
    with pytest.raises(ValueError, match="used the units 0 to 2 already; declare fresh ones with --first-unit 3"):
        main(["declare", CLAIM, "--results", str(results)])
    main(["declare", CLAIM, "--first-unit", "3", "--results", str(results)])
    main(["declare", CLAIM, "--first-unit", "3", "--results", str(results)])  # the same again is no second protocol
    assert len(list((results / "protocols" / CLAIM).glob("*.json"))) == 1
    with pytest.raises(ValueError, match="an earlier protocol used the units 4 to 5 already"):
        main(["declare", CLAIM, "--first-unit", "4", "--results", str(results)])
    provenance = json.loads((results / CLAIM / "provenance.json").read_text())
    provenance["numbers"]["first_unit"], provenance["units_before"] = 20, [[0, 3]]  # a second run in place of it
    (results / CLAIM / "provenance.json").write_text(json.dumps(provenance))
    with pytest.raises(ValueError, match="used the units 0 to 2 already; declare fresh ones with --first-unit 23"):
        main(["declare", CLAIM, "--results", str(results)])


def test_the_card_lists_columns_and_loads(results, tmp_path, monkeypatch):
    import datasets

    main(["judge", "all", "--results", str(results), "--write"])
    card = (results / "README.md").read_text()
    assert all(f"`{name}`" in card for name in rows.COLUMNS)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    file = str(results / CLAIM / "rows.parquet")
    loaded = datasets.load_dataset("parquet", data_files=file, cache_dir=str(tmp_path / "cache"))["train"]
    assert loaded["value"][:] == [1.0, 1.1, 1.2]
    assert set(loaded.column_names) == set(rows.COLUMNS)


def test_findings_replace_what_is_between_the_markers_only():
    text = f"# Title\n{START}\nold\n{END}\nrest\n"
    once = with_findings(text, "new")
    assert once == f"# Title\n{START}\nnew\n{END}\nrest\n"
    assert with_findings(once, "new") == once


@pytest.mark.parametrize("text", ["", START, END, f"{END}{START}", f"{START}{END}{START}{END}"])
def test_a_file_without_its_two_markers_is_refused(text):
    with pytest.raises(ValueError, match="once each and in this order"):
        with_findings(text, "new")
