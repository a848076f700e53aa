"""Hostile records through `cotlens entropy`: one clear line, or measured and shown as text; no file outside --out."""

import json
from pathlib import Path

import pandas as pd
import pytest

from interp.cli import main
from tests.interp.report.browsing import needs_chromium, opening

QUESTION = "Tom has 3 apples and buys 4. How many?"
ANSWER = "He has 3 + 4 = <<3+4=7>>7 apples.\n#### 7"
SHOWN = {
    "../../outside": "</script><script>window.attacked = 1</script>",
    "/tmp/outside": "<!-- <script>",
    "..": "separated\u2028by\u2029lines",
    "a/b": "\u202eright to left\u202c",
    "NUL": "zero \x00 byte",
    "marker": "#### 5 is not the answer;",
    "<img src=x onerror='window.attacked = 1'>": "<img src=x onerror='window.attacked = 1'>",
    "x" * 300: "1" * 400,
}
"""Questions by the ids of their problems."""


def line(**changes) -> str:
    return json.dumps({"question": QUESTION, "answer": ANSWER, **changes})


REFUSED = {
    "lone surrogate in a question": (line(question="\ud800 " + QUESTION), "lone surrogate"),
    "lone surrogate in a solution": (line(answer="\ud800 so\n#### 7"), "lone surrogate"),
    "lone surrogate in an id": (line(id="\ud800"), "lone surrogate"),
    "NUL in an id": (line(id="a\0b"), "control character U+0000"),
    "a number for a question": (line(question=5), "'question'"),
    "a list for a question": (line(question=["a"]), "'question'"),
    "no question": (line(question=None), "'question'"),
    "an empty question": (line(question=""), "'question'"),
    "a list for an id": (line(id=["a"]), "'id' must be a text or a number, got list"),
    "NaN for an answer": (line(answer=float("nan")), "'answer'"),
    "an infinite answer": (line(answer=float("inf")), "'answer'"),
    "one id twice": (line(id="a") + "\n" + line(id="a", question="Again: " + QUESTION), "'a' occurs twice"),
    "an id that names a cluster": (line(id="a cluster=b"), "marks clusters"),
    "a number of 5000 digits": (f'{{"id": {"9" * 5000}, "question": "a", "answer": "b"}}', "line 1"),
    "brackets without end": ("[" * 100_000, "line 1"),
}


def entropy(data: Path, model: str | Path, out: Path, *options: str) -> int:
    words = ["--conditions", "cot", "no_cot", "--offline", "--threads", "1", *options]
    return main(["entropy", "--model", str(model), "--data", str(data), "--out", str(out), *words])


@pytest.mark.parametrize("name", REFUSED)
def test_a_record_that_cannot_be_a_problem_is_refused_in_one_line(name, tmp_path, capsys):
    text, complaint = REFUSED[name]
    (tmp_path / "data.jsonl").write_text(text + "\n", encoding="utf-8")
    assert entropy(tmp_path / "data.jsonl", "builtin", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("cotlens: ")
    assert complaint in said
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_an_empty_id_is_none(tmp_path):
    from hf_analysis.text.problems import load_problems

    (tmp_path / "data.jsonl").write_text(line(id=float("nan")) + "\n", encoding="utf-8")
    assert load_problems(str(tmp_path / "data.jsonl"))[0].id == "data-00001"


@pytest.mark.slow
@needs_chromium
def test_hostile_texts_are_measured_and_shown_as_text(tiny_model, tmp_path, browser):
    records = [line(id=name, question=f"{text} {QUESTION}") for name, text in SHOWN.items()]
    (tmp_path / "data.jsonl").write_text("\n".join(records) + "\n", encoding="utf-8")
    out = tmp_path / "deep" / "er" / "out"
    options = ("--keep-tokens", str(len(SHOWN)))
    assert entropy(tmp_path / "data.jsonl", tiny_model, out, *options) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl", "deep"]
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert not Path("/tmp/outside").exists()
    assert main(["report", str(out), "--out", str(out / "report.html")]) == 0
    assert set(pd.read_parquet(out / "rows.parquet")["unit"]) == set(SHOWN)
    with opening(browser, out / "report.html") as opened:
        tab = opened()
        for number in range(len(SHOWN)):
            tab.select_option("#pt-problem", index=number)
            assert tab.locator("#pt-view :is(img, script)").count() == 0
        assert tab.evaluate("window.attacked === undefined")
        assert "\u202e" not in tab.content()


def test_a_line_of_a_megabyte_is_too_long_for_a_model_not_for_us(tiny_model, tmp_path, capsys):
    (tmp_path / "data.jsonl").write_text(line(question="word " * 200_000 + QUESTION) + "\n", encoding="utf-8")
    assert entropy(tmp_path / "data.jsonl", tiny_model, tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "takes at most 2048; leave the problem out" in said.strip().splitlines()[-1]
