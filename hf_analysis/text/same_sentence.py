"""What stands before the sentence " The answer is N."? Conditions that differ from `cot_clean` in that one thing.

All of them end in the sentence of `no_cot` and `cot_clean`, so its tokens can be compared under all of them: same
tokens, other context. Those that replace tokens (`shuffled_tokens_clean`, `filler_clean`, `prose_clean`) have exactly
as many before the sentence as `cot_clean`, or set the problem aside where that cannot be (`replaceable`); lines in
another order (`shuffled_steps_clean`) may be cut into a few tokens more or fewer; another problem's solution
(`swapped_clean`) has a length of its own.
"""

from hf_analysis.text.conditions import (
    Context,
    Passage,
    another_problem,
    closing_sentence,
    cot_clean,
    register,
    replaceable,
    seeded,
    shuffled_between_tags,
    stop_token,
)
from hf_analysis.text.problems import Problem
from hf_analysis.text.prose import prose_tokens
from hf_analysis.text.steps import joined, pieces, shuffled


@register
def swapped_clean(problem: Problem, context: Context) -> Passage:
    """Another problem's reasoning, the one of `swapped_cot`, then this problem's sentence: irrelevant reasoning."""
    other = cot_clean(another_problem(problem, context), context)
    return _with_sentence(problem, other.continuation.removesuffix(other.ending))


@register
def shuffled_steps_clean(problem: Problem, context: Context) -> Passage:
    """The lines of `cot_clean` in another order, then its sentence: the same steps, out of order."""
    clean = cot_clean(problem, context)
    steps = pieces(clean.continuation.removesuffix(clean.ending))
    return _with_sentence(problem, f" {joined(shuffled(steps, seeded(context, problem, 'shuffled_steps_clean')))}")


@register
def shuffled_tokens_clean(problem: Problem, context: Context) -> Passage:
    """The tokens of `cot_clean` in random order, then its sentence: the same tokens, no reasoning."""
    cot, sentence = _tokens(problem, context)
    generator = seeded(context, problem, "shuffled_tokens_clean")
    mixed = shuffled_between_tags(cot, cot_clean(problem, context), context, generator)
    return _with_tokens(problem, context, mixed, sentence)


@register
def filler_clean(problem: Problem, context: Context) -> Passage:
    """As many full stops as `cot_clean` has tokens, then its sentence: the same length, no content."""
    cot, sentence = _tokens(problem, context)
    return _with_tokens(problem, context, [stop_token(problem, context)] * len(cot), sentence)


@register
def prose_clean(problem: Problem, context: Context) -> Passage:
    """As many tokens of a story as `cot_clean` has, then its sentence: the same length, fluent, no reasoning."""
    cot, sentence = _tokens(problem, context)
    generator = seeded(context, problem, "prose_clean")
    told = prose_tokens(context.model, problem.question, len(cot), generator)
    return _with_tokens(problem, context, told, sentence)


def _tokens(problem: Problem, context: Context) -> tuple[list[int], list[int]]:
    """The tokens of `cot_clean` after the question: those before its sentence, and those of the sentence."""
    clean = cot_clean(problem, context)
    ids, start = replaceable(context.model, clean)
    before = context.model.encode(clean.question + clean.continuation.removesuffix(clean.ending))
    cut = next((i for i, (a, b) in enumerate(zip(before, ids)) if a != b), min(len(before), len(ids)))
    return ids[start:cut], ids[max(start, cut) :]


def _with_sentence(problem: Problem, text: str) -> Passage:
    sentence = closing_sentence(problem.answer)
    return Passage(problem.question, f"{text}{sentence}", ending=sentence)


def _with_tokens(problem: Problem, context: Context, before: list[int], sentence: list[int]) -> Passage:
    text = context.model.decode(before) + closing_sentence(problem.answer)
    return Passage(problem.question, text, tokens=(*before, *sentence), ending=closing_sentence(problem.answer))
