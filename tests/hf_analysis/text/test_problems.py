"""Problems: the answer parser, the sources, and one clear line for every malformed record."""

import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_analysis.text.problems import (
    N_TEMPLATES,
    Problem,
    final_answer,
    load_problems,
    paper_answer,
    paper_quirks,
    plain_number,
    same_number,
    stated_answer,
    template_of,
    without_annotations,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("70,000", "70000"),
        ("-10", "-10"),
        ("−10", "-10"),
        ("2.5", "2.5"),
        ("$18", "18"),
        ("-$1,234.50", "-1234.50"),
        ("$-5", "-5"),
        (".5", "0.5"),
        ("12%", "12"),
        ("7.", "7"),
        ("0", "0"),
        ("1,2", None),
        ("1,0000", None),
        ("--5", None),
        ("seven", None),
        ("3 apples", None),
        ("3/4", None),
        ("", None),
        ("-", None),
        ("٣", None),
    ],
)
def test_plain_numbers(text, number):
    assert plain_number(text) == number


@given(st.integers(-(10**12), 10**12))
def test_thousands_separators_never_change_a_number(value):
    assert plain_number(f"{value:,}") == str(value)
    assert final_answer(f"Some 5 steps.\n#### {value:,}\n") == str(value)


def test_the_last_marker_counts():
    assert final_answer("#### 3\nno, wait\n#### 4") == "4"


def test_annotations_are_removed_and_nothing_else():
    assert without_annotations("2*3=<<2*3=6>>6 and 1 << 2") == "2*3=6 and 1 << 2"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("so 3-4 = -1. The answer is $1,250.", "1250"),
        ("5-3=2", "2"),
        ("#### 8\nThanks for 2 questions", "8"),
        ("The answer is not known, perhaps 3 or 4", "3"),
        ("no digits", None),
    ],
)
def test_stated_answers(text, number):
    assert stated_answer(text) == number


def test_equal_numbers():
    assert same_number("2.50", "2.5")
    assert not same_number("-10", "10")


def test_the_papers_regex_truncates_and_is_counted():
    solutions = ["a <<1+1=2>>2\n#### 2,125", "b\n#### -10", "c\n#### 18"]
    assert [paper_answer(s) for s in solutions] == ["125", "10", "18"]
    made = [Problem(str(i), "q", s, final_answer(s)) for i, s in enumerate(solutions)]
    assert paper_quirks(made) == {
        "problems": 3,
        "answer_truncated_by_trailing_digits": 2,
        "cot_keeps_calculator_annotations": 1,
        "cot_ends_in_marker_not_in_sentence": 3,
    }


GOOD = {"question": "How many?", "answer": "One.\n#### 1"}


def test_jsonl_and_parquet_give_the_same_problems(tmp_path):
    records = [GOOD, {**GOOD, "id": 17}]
    (tmp_path / "d.jsonl").write_text("\n\n".join(json.dumps(r) for r in records) + "\n")
    pd.DataFrame([GOOD]).to_parquet(tmp_path / "d.parquet")
    from_jsonl = load_problems(str(tmp_path / "d.jsonl"))
    assert from_jsonl == [
        Problem("d-00001", "How many?", "One.\n#### 1", "1"),
        Problem("17", "How many?", "One.\n#### 1", "1"),
    ]
    assert load_problems(str(tmp_path / "d.parquet")) == from_jsonl[:1]
    assert load_problems(str(tmp_path / "d.jsonl"), limit=1) == from_jsonl[:1]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not a JSON object"),
        ("[1, 2]", "got list"),
        (json.dumps({"question": "q"}), "'answer' must be a text"),
        (json.dumps({"question": 3, "answer": "#### 1"}), "'question' must be a text"),
        (json.dumps({"question": " ", "answer": "#### 1"}), "'question' must be a text"),
        (json.dumps({"question": "q", "answer": "just 4"}), "no final '#### N'"),
        (json.dumps({"question": "q", "answer": "#### four"}), "'four', expected a number"),
        (json.dumps({"question": "\ud800", "answer": "#### 1"}), "lone surrogate"),
        ("[" * 100_000, "not a JSON object"),
    ],
)
def test_a_malformed_record_names_file_and_line(tmp_path, line, complaint):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 2: ") as caught:
        load_problems(str(path))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "b.jsonl").write_bytes(b'{"question": "\xff\xfe"}\n')
    with pytest.raises(ValueError, match="line 1"):
        load_problems(str(tmp_path / "b.jsonl"))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(ValueError, match="not a readable Parquet"):
        load_problems(str(tmp_path / "b.parquet"))


def test_ids_occur_once(tmp_path):
    (tmp_path / "d.jsonl").write_text("\n".join(json.dumps({**GOOD, "id": "x"}) for _ in range(2)))
    with pytest.raises(ValueError, match="line 2: the id 'x' occurs twice"):
        load_problems(str(tmp_path / "d.jsonl"))


def test_sources_that_are_none(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "text.txt").write_text("hello")
    for source, complaint in [
        ("empty.jsonl", "no problem"),
        ("text.txt", "expected a .jsonl"),
        ("gone.jsonl", "no such file"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            load_problems(str(tmp_path / source))
    with pytest.raises(ValueError, match="--limit 0"):
        load_problems("builtin", limit=0)


def test_a_dataset_that_is_not_there_is_one_clear_line():
    with pytest.raises(ValueError, match="nobody/nothing: neither a file nor a dataset") as caught:
        load_problems("nobody/nothing", offline=True)
    assert "\n" not in str(caught.value)


def test_builtin_problems_are_seeded_and_well_formed():
    first, again, other = (load_problems("builtin", limit=40, seed=s) for s in (0, 0, 1))
    assert first == again
    assert first != other
    assert len({p.id for p in first}) == 40
    for problem in first:
        assert problem.answer == final_answer(problem.solution)
        assert "Do not include units" not in problem.question


def test_the_template_of_a_built_in_problem_is_the_one_that_made_it():
    import reasoning_gym
    from reasoning_gym.arithmetic.gsm_symbolic.gsm_symbolic import tasks_ok

    assert len(tasks_ok) == N_TEMPLATES
    for seed in (0, 7, -1):
        made_from = reasoning_gym.create_dataset("gsm_symbolic", size=1100, seed=seed).task_indices
        found = [template_of(f"gsm-symbolic-{seed}-{place:05d}") for place in range(1, 1101)]
        assert found == [f"template {tasks_ok.index(task)}" for task in made_from]


def test_any_other_problem_is_its_own_cluster():
    for name in ("openai_gsm8k-00001", "gsm-symbolic-0-00000", "gsm-symbolic-0-99999999999", "gsm-symbolic-x-00001"):
        assert template_of(name) == name
