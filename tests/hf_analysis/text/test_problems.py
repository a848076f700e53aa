"""Problems: the answer parser, the sources, and one clear line for every malformed record."""

import csv
import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_analysis.text.answers import final_answer
from hf_analysis.text.problems import (
    N_TEMPLATES,
    Problem,
    load_problems,
    paper_answer,
    paper_quirks,
    template_of,
)
from hf_analysis.text.values import plain_number


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
    records = [GOOD, {**GOOD, "question": "How much?", "id": 17}]
    (tmp_path / "d.jsonl").write_text("\n\n".join(json.dumps(r) for r in records) + "\n")
    pd.DataFrame([GOOD]).to_parquet(tmp_path / "d.parquet")
    from_jsonl = load_problems(str(tmp_path / "d.jsonl"))
    assert from_jsonl == [
        Problem("d-00001", "How many?", "One.\n#### 1", "1"),
        Problem("17", "How much?", "One.\n#### 1", "1"),
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
        (json.dumps({"question": "q", "answer": "just 4"}), "the columns are question, answer: say which is which"),
        (json.dumps({"question": "q", "answer": "#### "}), "expected an answer on one line"),
        (json.dumps({"task": "q", "reply": "#### 1"}), "the columns are task, reply: say which is which"),
        (json.dumps({"question": "q", "answer": True}), "'answer' must be a text"),
        (json.dumps({"question": "q", "answer": ["1"]}), "'answer' must be a text"),
        (json.dumps({"question": "q", "answer": "1", "id": "x cluster=y"}), "marks clusters"),
        (json.dumps({"question": "q", "answer": "1", "id": "x copy=y"}), "' copy=', which marks"),
        (json.dumps({"messages": [{"role": "user", "content": "q"}] * 2}), "several messages of the user"),
        (json.dumps({"messages": [{"role": "system", "content": "s"}]}), "no message of a user"),
        (json.dumps({"messages": [{"role": "assistant", "content": "#### 1"}]}), "no message of the user"),
        (json.dumps({"messages": ["q"]}), "messages with role and content"),
        (json.dumps({"question": "\ud800", "answer": "#### 1"}), "lone surrogate"),
        (json.dumps({"question": "q", "answer": "1", "id": "\ud800"}), "'id' holds a lone surrogate"),
        (json.dumps({"question": "q", "answer": "1", "id": "a\x1b[2Jb"}), "'id' holds the control character U+001B"),
        (json.dumps({"question": "q", "answer": "1", "id": "a\nb"}), "'id' holds the control character U+000A"),
        (json.dumps({"question": "q", "answer": "1", "id": "a\u2028b"}), "'id' holds the control character U+2028"),
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


USER, ASSISTANT = {"role": "user", "content": "How many?"}, {"role": "assistant", "content": "One.\n#### 1"}
LAYOUTS = [
    ({"question": "How many?", "answer": "One.\n#### 1"}, {}, "One.\n#### 1", "1"),
    ({"question": "How many?", "answer": "One.\n#### 1", "response": "Two."}, {}, "One.\n#### 1", "1"),
    ({"problem": "How many?", "solution": "$\\boxed{\\frac{5}{2}}$."}, {}, "$\\boxed{\\frac{5}{2}}$.", "5/2"),
    ({"problem": "How many?", "solution": "One.", "answer": "1"}, {}, "One.", "1"),
    ({"problem": "How many?", "solution": "One.", "answer": 1}, {}, "One.", "1"),
    ({"problem": "How many?", "solution": "One.", "answer": 1.0}, {}, "One.", "1"),
    ({"prompt": "How many?", "completion": "One. The answer is 1."}, {}, "One. The answer is 1.", "1"),
    ({"prompt": [USER], "completion": [ASSISTANT]}, {}, "One.\n#### 1", "1"),
    ({"messages": [{"role": "system", "content": "Be brief."}, USER, ASSISTANT]}, {}, "One.\n#### 1", "1"),
    ({"messages": [USER, {**ASSISTANT, "content": [{"type": "text", "text": "#### 7"}]}]}, {}, "#### 7", "7"),
    (
        {"conversations": [{"from": "human", "value": "How many?"}, {"from": "gpt", "value": "\\boxed{B}"}]},
        {},
        "\\boxed{B}",
        "B",
    ),
    ({"question": "How many?", "answer": "7"}, {}, "", "7"),
    ({"question": "How many?", "answer": 7}, {}, "", "7"),
    ({"question": "How many?", "answer": "1,000.50%"}, {}, "", "1000.50%"),
    ({"question": "How many?", "answer": "An eighth.\n#### 12.5%"}, {}, "An eighth.\n#### 12.5%", "12.5%"),
    ({"question": "How many?", "answer": "1 1/2"}, {}, "", "3/2"),
    ({"question": "How many?", "solution": "By train.", "answer": "To Paris."}, {}, "By train.", "To Paris"),
    (
        {"q": "How many?", "steps": "One.", "n": "1,000"},
        {"question": "q", "solution": "steps", "answer": "n"},
        "One.",
        "1000",
    ),
    ({"q": "How many?", "a": "One.\n#### 1"}, {"question": "q", "answer": "a"}, "One.\n#### 1", "1"),
    ({"q": "How many?", "a": "a few"}, {"question": "q", "answer": "a"}, "", "a few"),
    ({"question": "How many?", "rationale": "One.\nAnswer: B", "correct": "B"}, {}, "One.\nAnswer: B", "B"),
    ({"question": "", "problem": "How many?", "answer": "7"}, {}, "", "7"),
    ({"question": "How many?", "solution": " ", "rationale": "One.", "answer": "", "correct": "B"}, {}, "One.", "B"),
    ({"question": "How many?", "solution": "\\boxed{7}", "answer": ""}, {}, "\\boxed{7}", "7"),
    ({"question": "How many?", "completion": [], "answer": float("nan"), "correct": 7}, {}, "", "7"),
]


@pytest.mark.parametrize(("record", "names", "solution", "answer"), LAYOUTS)
def test_records_as_people_have_them(tmp_path, record, names, solution, answer):
    (tmp_path / "d.jsonl").write_text(json.dumps(record))
    assert load_problems(str(tmp_path / "d.jsonl"), **names) == [Problem("d-00001", "How many?", solution, answer)]


def test_options_of_a_multiple_choice_stand_in_the_question(tmp_path):
    record = {"question": "Which?", "options": ["A)21", "B)30"], "rationale": "It is 30.", "correct": "B"}
    (tmp_path / "d.json").write_text(json.dumps([record, {**record, "options": ["21", "30"]}]))
    lettered, plain = load_problems(str(tmp_path / "d.json"))
    assert lettered.question == "Which?\nA)21\nB)30"
    assert plain.question == "Which?\nA) 21\nB) 30"
    assert lettered.answer == plain.answer == "B"


def test_every_kind_of_file_gives_the_same_problems(tmp_path):
    table = [{"problem": 'A "b",\nc?', "solution": f"Line.\nMore, {i}.", "answer": str(i)} for i in range(3)]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, table)))
    (tmp_path / "d.json").write_text(json.dumps(table))
    pd.DataFrame(table).to_csv(tmp_path / "d.csv", index=False)
    pd.DataFrame(table).to_csv(tmp_path / "d.tsv", index=False, sep="\t")
    pd.DataFrame(table).to_parquet(tmp_path / "d.parquet")
    found = [load_problems(str(tmp_path / f"d.{kind}")) for kind in ("jsonl", "json", "csv", "tsv", "parquet")]
    assert len(found[0]) == 3
    assert all(one == found[0] for one in found)
    (tmp_path / "d.json").write_text(json.dumps({"version": 1, "data": table}))
    assert load_problems(str(tmp_path / "d.json")) == found[0]


def test_gaps_of_a_csv_are_filled_from_the_next_usual_column(tmp_path):
    (tmp_path / "d.csv").write_text("question,solution,rationale,answer\nHow many?,,One.,1\nHow much?,Two.,,2\n")
    found = load_problems(str(tmp_path / "d.csv"))
    assert [(p.question, p.solution, p.answer) for p in found] == [
        ("How many?", "One.", "1"),
        ("How much?", "Two.", "2"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("d.json", "{", "not JSON in UTF-8"),
        ("d.json", "3", "expected a list of records, got int"),
        ("d.json", '[{"question": "q"}]', "record 1: 'answer' must be a text"),
        ("d.csv", "question,answer\nq,1\nq\n", r"d\.csv, line 3: its number of fields"),
        ("d.csv", 'question,answer\n"a\nb",1\n,2\n', r"d\.csv, line 4: 'question' must be a text"),
        ("d.csv", "a,b\n1,2\n", r"line 2: 'question' must be .* the columns are a, b"),
        ("d.csv", "question,answer\n", "holds no problem"),
    ],
)
def test_a_damaged_file_names_itself(tmp_path, name, content, complaint):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=complaint) as caught:
        load_problems(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_clusters_by_a_column(tmp_path):
    table = [
        {**GOOD, "question": f"How many {subject}?", "subject": subject, "level": level}
        for subject, level in [("algebra", 1), ("geometry", 1), ("algebra", 2)]
    ]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, table)))
    by_subject = load_problems(str(tmp_path / "d.jsonl"), cluster="subject")
    assert [template_of(p.id) for p in by_subject] == ["cluster algebra", "cluster geometry", "cluster algebra"]
    assert len({p.id for p in by_subject}) == 3
    by_level = load_problems(str(tmp_path / "d.jsonl"), cluster="level")
    assert [template_of(p.id) for p in by_level] == ["cluster 1", "cluster 1", "cluster 1"], "the last is a copy"
    with pytest.raises(
        ValueError, match=r"line 1: 'topic' must be a text .* the columns are question, answer, subject"
    ):
        load_problems(str(tmp_path / "d.jsonl"), cluster="topic")
    with pytest.raises(ValueError, match="built-in problems have no columns"):
        load_problems("builtin", cluster="subject")


def test_a_repeated_problem_is_of_the_cluster_of_the_first(tmp_path):
    other = {"question": "How many?", "answer": "Two.\n#### 2"}
    table = [GOOD, {**other, "id": "x"}, {**GOOD, "id": "made up"}, GOOD]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, table)))
    found = load_problems(str(tmp_path / "d.jsonl"))
    assert [p.id for p in found] == ["d-00001", "x", "made up copy=d-00001", "d-00004 copy=d-00001"]
    assert [template_of(p.id) for p in found] == ["d-00001", "x", "d-00001", "d-00001"]
    assert load_problems(str(tmp_path / "d.jsonl"), limit=2) == found[:2], "a copy does not rename the first"
    assert template_of("y copy=x cluster=a copy=b") == "cluster a copy=b", "a cluster may have any name"


def test_chance_repeats_of_built_in_problems_keep_their_ids():
    found = load_problems("builtin", limit=1500)
    assert len({(p.question, p.solution) for p in found}) < 1500, "the seed no longer repeats a problem: take another"
    assert [p.id for p in found] == [f"gsm-symbolic-0-{place:05d}" for place in range(1, 1501)]


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


def test_an_own_copy_stands_in_for_a_dataset_of_the_hub(tmp_path, monkeypatch):
    record = {"question": "Two and two?", "answer": "2 + 2 = 4\n#### 4"}
    (tmp_path / "openai_gsm8k.jsonl").write_text(json.dumps(record) + "\n")
    monkeypatch.setenv("COTLENS_DATA", str(tmp_path))
    (problem,) = load_problems("openai/gsm8k", offline=True)
    assert (problem.id, problem.answer) == ("openai_gsm8k-00001", "4")
    with pytest.raises(ValueError, match="neither a file nor a dataset of the hub"):
        load_problems("somebody/else", offline=True)


def test_two_columns_of_one_name_are_refused_not_read_as_the_last(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("question,answer,answer\nHow many?,3,4\n")
    with pytest.raises(ValueError, match="line 1: two columns are called 'answer'; which is meant"):
        load_problems(str(path))


def test_a_field_of_a_csv_file_may_be_long_and_other_readers_notice_nothing(tmp_path):
    path = tmp_path / "d.csv"
    before = csv.field_size_limit()
    path.write_text(f"question,answer\n{'many ' * 50_000}?,3\n")
    assert len(load_problems(str(path))[0].question) == 250_001
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_directory_in_place_of_a_file_is_called_one(kind, tmp_path):
    (tmp_path / f"d.{kind}").mkdir()
    with pytest.raises(ValueError, match="it is there, and is no file"):
        load_problems(str(tmp_path / f"d.{kind}"))


def test_more_built_in_problems_than_anyone_waits_for_are_refused_at_once():
    with pytest.raises(ValueError, match="at most 100000 built-in problems"):
        load_problems("builtin", limit=10**9)


def test_an_empty_cell_is_no_id(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("id,question,answer\n,How many?,3\n ,How much?,3\nx,How few?,3\n")
    assert [problem.id for problem in load_problems(str(path))] == ["d-00001", "d-00002", "x"]
