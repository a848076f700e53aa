"""Conditions: what each one keeps and changes, and that all of them are deterministic."""

import functools

import pytest

from hf_analysis.text.conditions import CONDITIONS, Context, Passage, find_condition, register, tokenise
from hf_analysis.text.own import CUE
from hf_analysis.text.problems import Problem

HOSTILE = Problem("h", "مرحبا \x00 👩‍👩‍👧 <end> {x} %s\u200b?", "e\u0301 ☃ <<\n>>\n#### 5", "5")


def context(llama, problems, seed=0, **options):
    return Context(problems, seed, llama, **options)


def made(name, problem, ctx) -> Passage:
    return find_condition(name)(problem, ctx)


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_every_condition_is_deterministic_and_keeps_the_question(name, llama, problems):
    for problem in [*problems, HOSTILE]:
        pool = [*problems, HOSTILE]
        passage = made(name, problem, context(llama, pool))
        assert passage == made(name, problem, context(llama, pool[::-1])), "the order of problems must not matter"
        assert passage.question == problem.question
        ids, start = tokenise(llama, passage)
        assert 0 < start < len(ids)
        assert ids[:start] == llama.encode(problem.question)[:start]


@pytest.mark.parametrize("name", ["shuffled_tokens", "swapped_cot"])
def test_the_seed_matters(name, llama, problems):
    passages = {made(name, problems[1], context(llama, problems, seed)).continuation for seed in range(20)}
    assert len(passages) > 1


def test_the_papers_two_conditions(llama, problems):
    ctx = context(llama, problems)
    assert made("cot", problems[0], ctx).continuation == " She has 3+4=<<3+4=7>>7 apples.\n#### 7"
    assert made("no_cot", problems[1], ctx).continuation == " The answer is 2000."
    assert made("no_cot", problems[2], ctx).continuation == " The answer is -10."


def test_paper_mode_reads_trailing_digits(llama, problems):
    ctx = context(llama, problems, paper_mode=True)
    assert made("no_cot", problems[1], ctx).continuation == " The answer is 000."
    assert made("no_cot", problems[2], ctx).continuation == " The answer is 10."


def test_cot_clean_ends_as_no_cot_does(llama, problems):
    ctx = context(llama, problems)
    for problem in problems:
        clean = made("cot_clean", problem, ctx).continuation
        assert clean.endswith(made("no_cot", problem, ctx).continuation)
        assert {made(name, problem, ctx).ending for name in ("cot_clean", "no_cot")} == {
            f" The answer is {problem.answer}."
        }
        assert "<<" not in clean
        assert "####" not in clean
    assert made("cot_clean", problems[0], ctx).continuation == " She has 3+4=7 apples. The answer is 7."


def test_shuffled_steps_are_the_same_lines_in_another_order(llama, problems):
    ctx = context(llama, problems)
    passage = made("shuffled_steps", problems[3], ctx).continuation
    lines, gold = passage[1:].split("\n"), problems[3].solution.split("\n")
    assert sorted(lines[:-1]) == sorted(gold[:-1])
    assert lines[:-1] != gold[:-1]
    assert lines[-1] == gold[-1] == "#### $2.50"


def test_controls_have_as_many_tokens_as_cot(llama, problems):
    ctx = context(llama, problems)
    for problem in problems:
        ids, start = tokenise(llama, made("cot", problem, ctx))
        shuffled, filler = (tokenise(llama, made(name, problem, ctx)) for name in ("shuffled_tokens", "filler"))
        assert sorted(shuffled[0][start:]) == sorted(ids[start:])
        assert shuffled[0][start:] != ids[start:]
        assert len(filler[0]) == len(ids)
        assert len(set(filler[0][start:])) == 1


def test_swapped_cot_is_another_problems_solution(llama, problems):
    ctx = context(llama, problems)
    for problem in problems:
        passage = made("swapped_cot", problem, ctx)
        owners = [p for p in problems if passage.continuation == f" {p.solution}"]
        assert len(owners) == 1
        assert owners[0].answer != problem.answer
    with pytest.raises(ValueError, match="at least two problems"):
        made("swapped_cot", problems[0], context(llama, problems[:1]))


def test_generated_is_the_models_greedy_text(llama, problems):
    passage = made("generated", problems[0], context(llama, problems))
    assert passage.tokens is not None
    assert passage.correct in (True, False)
    import torch

    question = llama.encode(problems[0].question)
    cue = len(llama.tokenizer(CUE, add_special_tokens=False)["input_ids"])
    ids = torch.tensor([[*question, *passage.tokens[: cue + 5]]])
    with torch.no_grad():
        logits = llama.model(ids).logits[0, len(question) + cue - 1 : -1]
    assert logits.argmax(-1).tolist() == list(passage.tokens[cue : cue + 5])


def test_a_token_across_the_boundary_belongs_to_the_answer(llama):
    passage = Passage("She has 3 app", "les more")
    ids, start = tokenise(llama, passage)
    question = llama.encode("She has 3 app")
    assert ids != question + llama.encode("les more"), "the tokenizer must join here for this test"
    assert start < len(question)
    assert ids[:start] == question[:start]


def test_an_empty_continuation_is_refused(llama):
    with pytest.raises(ValueError, match="no token of its own"):
        tokenise(llama, Passage("She has", ""))


def test_the_registry_refuses_duplicates_and_lists_what_it_knows():
    def cot(problem, context):
        return Passage("", "")

    with pytest.raises(ValueError, match="already registered"):
        register(cot)
    with pytest.raises(ValueError, match="unknown condition 'cott'; the conditions are cot, cot_clean, filler"):
        find_condition("cott")


@pytest.mark.parametrize("nameless", [lambda problem, context: Passage("", ""), functools.partial(len)])
def test_the_registry_refuses_what_has_no_name_of_its_own(nameless):
    before = dict(CONDITIONS)
    with pytest.raises(ValueError, match=r"known by its function's name, and (<lambda>|functools.partial.*) is none"):
        register(nameless)
    assert before == CONDITIONS
