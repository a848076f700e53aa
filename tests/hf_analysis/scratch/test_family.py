"""Are held-out problems held out, and does the tokenizer know every word of the family?"""

import re

from hf_analysis.scratch.family import LARGEST, TEMPLATES, held_out_problems, numbers_of, training_problem
from hf_analysis.scratch.vocabulary import family_tokenizer
from hf_analysis.text.problems import template_of

HELD_OUT = held_out_problems(300)
TRAINING = [problem for place in range(2_000) if (problem := training_problem(7, place))]


def test_held_out_problems_are_all_different_and_go_on_where_the_first_ones_end():
    assert len({numbers_of(problem) for problem in HELD_OUT}) == len({problem.id for problem in HELD_OUT}) == 300
    assert held_out_problems(50, first=250) == HELD_OUT[250:]
    assert {template_of(problem.id) for problem in HELD_OUT} == {f"cluster {template}" for template in TEMPLATES}


def test_every_number_of_the_family_is_whole_and_small_and_the_answer_ends_the_solution():
    for problem in HELD_OUT + TRAINING:
        numbers = re.findall(r"[\d.,/]*\d", f"{problem.question} {problem.solution}".replace(". ", " "))
        assert all(int(number) <= LARGEST for number in numbers), problem
        assert problem.solution.endswith(f"#### {problem.answer}")


def test_training_problems_depend_on_seed_and_place_alone_and_some_would_be_held_out():
    assert training_problem(7, 5) == training_problem(7, 5) != training_problem(8, 5)
    taken = {numbers_of(problem) for problem in HELD_OUT}
    assert 0 < sum(numbers_of(problem) in taken for problem in TRAINING) < len(TRAINING) / 2


def test_the_tokenizer_knows_every_word_and_keeps_numbers_whole():
    tokenizer = family_tokenizer()
    for problem in HELD_OUT + TRAINING:
        ids = tokenizer(f"{problem.question} {problem.solution}")["input_ids"]
        assert tokenizer.unk_token_id not in ids, problem
    assert tokenizer.tokenize("She has 150-12=138.", add_special_tokens=True) == [
        "<s>", "She", "has", "150", "-", "12", "=", "138", ".",
    ]  # fmt: skip
