"""Which tokens are what: a solution's spans against its text."""

import pytest

from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.problems import Problem, load_problems
from hf_analysis.text.spans import solution


def text(model: LoadedModel, ids, tokens) -> str:
    return model.decode([ids[i] for i in tokens])


PROBLEM = Problem(
    "p",
    "Ann has 12 pens, Bob has 1,200 cups, and 12 of 35 hats are red. How many?",
    "12 pens and 1200 cups: 12+1200=<<12+1200=1212>>1,212.\n\nThen 1212-35=1,177.\n#### 1,177",
    "1177",
)


@pytest.fixture(params=["llama", "builtin"])
def model(request) -> LoadedModel:
    return request.getfixturevalue(request.param)


def test_lines_ending_and_answer_are_found(model):
    found = solution(model, PROBLEM)
    read = [text(model, found.ids, line).strip() for line in found.lines]
    assert read == ["12 pens and 1200 cups: 12+1200=1,212.", "Then 1212-35=1,177."]
    assert text(model, found.ids, found.ending).strip() == "The answer is 1177."
    assert text(model, found.ids, found.final).strip() == "1177"
    assert text(model, found.ids, range(found.n_question)) == PROBLEM.question
    every = sorted(t for part in (*found.lines, found.ending) for t in part)
    assert set(every) <= set(range(found.n_question, len(found.ids)))
    assert len(every) == len(set(every)), "a token is in one line"


def test_numbers_are_found_whole_and_by_value(model):
    found = solution(model, PROBLEM)
    values = [number.value for number in found.numbers]
    assert values == [*["12", "1200", "12", "35"], *["12", "1200"] * 2, *["1212"] * 2, "35", "1177", "1177"]
    for number in found.numbers:
        assert number.value in text(model, found.ids, number.tokens).replace(",", "")
    steps = text(model, found.ids, found.step_numbers).replace(",", "").replace(" ", "")
    assert steps == "1212351177"


def test_copies_are_first_mentions_of_the_questions_numbers(model):
    found = solution(model, PROBLEM)
    copies = found.copies()
    assert set(copies) == {"12", "1200", "35"}
    starts = {value: range(found.n_question, place + 1) for value, (place, _) in copies.items()}
    before = {value: text(model, found.ids, start) for value, start in starts.items()}
    assert before["12"].strip() == ""
    assert before["1200"].strip() == "12 pens and"
    assert before["35"].endswith("1212-")
    sources = {v: text(model, found.ids, tokens).replace(",", "").split() for v, (_, tokens) in copies.items()}
    assert "".join(sources["12"]) == "1212"  # both occurrences
    assert "".join(sources["1200"]) == "1200"


def test_every_builtin_problem_has_lines_and_an_answer(builtin):
    for problem in load_problems("builtin", limit=40):
        found = solution(builtin, problem)
        assert text(builtin, found.ids, found.final) == problem.answer
        assert found.lines
        assert max(t for line in found.lines for t in line) < min(found.ending)
