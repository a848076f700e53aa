"""Are held-out problems held out, are solutions right, and does the tokenizer know every word of the family?"""

import re

from hf_analysis.scratch.family import LARGEST, MOST_EVENTS, VERBS, held_out_problems, training_problem
from hf_analysis.scratch.vocabulary import family_tokenizer
from hf_analysis.text.problems import template_of

HELD_OUT = held_out_problems(300)
TRAINING = [training_problem(7, place) for place in range(2_000)]


def test_held_out_problems_are_all_different_and_go_on_where_the_first_ones_end():
    assert len({problem.solution for problem in HELD_OUT}) == len({problem.id for problem in HELD_OUT}) == 300
    assert held_out_problems(50, first=250) == HELD_OUT[250:]
    assert len({template_of(problem.id) for problem in HELD_OUT}) == 300, "problems are the units"


def test_the_story_solved_word_by_word_has_the_solutions_answer():
    """What a reader would do: start with the number one has, add what is gained and take away what is lost."""
    seen = set()
    for problem in HELD_OUT + TRAINING:
        start, *events = re.findall(r"\w+ (\w+) (\d+)", problem.question)
        has = int(start[1])
        for verb, number in events:
            has += int(number) if verb in VERBS["+"] else -int(number)
            assert 0 <= has <= LARGEST
        *steps, last = problem.solution.split("\n")
        assert [eval(step.rstrip(".").replace("=", "==")) for step in steps] == [True] * len(events)
        assert last == f"#### {has}" == f"#### {problem.answer}"
        seen.add(len(events))
    assert seen == set(range(1, MOST_EVENTS + 1))


def test_training_problems_depend_on_seed_and_place_alone_and_some_would_be_held_out():
    assert training_problem(7, 5) == training_problem(7, 5) != training_problem(8, 5)
    taken = {problem.solution for problem in HELD_OUT}
    assert 0 < sum(problem.solution in taken for problem in TRAINING) < len(TRAINING) / 2


def test_the_tokenizer_knows_every_word_and_keeps_numbers_whole():
    tokenizer = family_tokenizer()
    for problem in HELD_OUT + TRAINING:
        ids = tokenizer(f"{problem.question} {problem.solution}")["input_ids"]
        assert tokenizer.unk_token_id not in ids, problem
    assert tokenizer.tokenize("Ann has 15-12=3.", add_special_tokens=True) == [
        "<s>", "Ann", "has", "15", "-", "12", "=", "3", ".",
    ]  # fmt: skip
