"""What does the model read after the question? The conditions that a measurement compares.

A condition turns a problem into a passage: the question and what follows it. `cot` against `no_cot` is the
paper's comparison; the others hold one explanation fixed at a time: format (`cot_clean`), order
(`shuffled_steps`, `shuffled_tokens`), length (`filler`), relevance (`swapped_cot`), authorship (`generated`).
A passage depends on the seed, the problem and the set of problems only, never on their order. A condition is one
function with one `@register`, here or in a plug-in (`probes.base.plugins`).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.problems import (
    MARKER,
    Problem,
    paper_answer,
    same_number,
    stated_answer,
    without_annotations,
)
from probes.base.plugins import is_rerun, load_plugins

MAX_NEW_TOKENS = 256
MIN_NEW_TOKENS = 8


@dataclass(frozen=True)
class Passage:
    """A question and its continuation, which carries its own separator: the text is their concatenation."""

    question: str
    continuation: str
    tokens: tuple[int, ...] | None = None  # of the continuation, where the condition fixes tokens, not text
    correct: bool | None = None  # whether a generated continuation states the right answer
    ending: str = ""  # the closing sentence " The answer is N.", with which the continuation ends, if it does


@dataclass(frozen=True)
class Context:
    """What a condition may look at besides its problem."""

    problems: Sequence[Problem]
    seed: int
    model: LoadedModel
    paper_mode: bool = False


Condition = Callable[[Problem, Context], Passage]
CONDITIONS: dict[str, Condition] = {}


def register(condition: Condition) -> Condition:
    """Makes `condition` known under its function's name; a name is taken once, except by a rerun cell."""
    name = condition.__name__
    if name in CONDITIONS and not is_rerun(CONDITIONS[name], condition):
        raise ValueError(f"a condition named {name!r} is already registered")
    CONDITIONS[name] = condition
    return condition


def find_condition(name: str) -> Condition:
    """The condition registered as `name`; an unknown name lists the known ones."""
    if name not in CONDITIONS:
        load_plugins()
    if name not in CONDITIONS:
        raise ValueError(f"unknown condition {name!r}; the conditions are {', '.join(sorted(CONDITIONS))}")
    return CONDITIONS[name]


def tokenise(model: LoadedModel, passage: Passage) -> tuple[list[int], int]:
    """The tokens of the whole passage, and how many of them belong to the question.

    Where the tokenizer joins the end of the question with the continuation, the question ends at their
    longest common prefix: a token with any character of the continuation belongs to the continuation.
    """
    question = model.encode(passage.question)
    if passage.tokens is not None:
        return question + list(passage.tokens), len(question)
    whole = model.encode(passage.question + passage.continuation)
    common = next((i for i, (a, b) in enumerate(zip(question, whole)) if a != b), min(len(question), len(whole)))
    if common == len(whole):
        raise ValueError(f"the continuation {passage.continuation[:40]!r} has no token of its own")
    return whole, common


@register
def cot(problem: Problem, context: Context) -> Passage:
    """The gold solution as it stands, annotations and `#### N` included: the paper's text with CoT."""
    return Passage(problem.question, f" {problem.solution}")


@register
def no_cot(problem: Problem, context: Context) -> Passage:
    """Only the answer, as a sentence: the paper's text without CoT."""
    answer = paper_answer(problem.solution) if context.paper_mode else problem.answer
    return Passage(problem.question, _sentence(answer), ending=_sentence(answer))


@register
def cot_clean(problem: Problem, context: Context) -> Passage:
    """The solution without annotations, ending in the sentence of `no_cot`: removes the format confound."""
    steps = "\n".join(_steps(without_annotations(problem.solution)))
    sentence = _sentence(problem.answer)
    return Passage(problem.question, f" {steps}{sentence}", ending=sentence)


@register
def shuffled_steps(problem: Problem, context: Context) -> Passage:
    """The gold solution with its lines in another order; `#### N` stays last.

    A solution of one line has no other order and stays as it is.
    """
    steps = _steps(problem.solution)
    ending = MARKER + problem.solution.rsplit(MARKER, 1)[1].rstrip()
    order = list(range(len(steps)))
    generator = _generator(context, problem, "shuffled_steps")
    while len(set(steps)) > 1 and [steps[i] for i in order] == steps:
        generator.shuffle(order)
    return Passage(problem.question, " " + "\n".join([*(steps[i] for i in order), ending]))


@register
def shuffled_tokens(problem: Problem, context: Context) -> Passage:
    """The tokens of `cot` in random order: same tokens, same length, no reasoning."""
    tokens = _cot_tokens(problem, context)
    _generator(context, problem, "shuffled_tokens").shuffle(tokens)
    return Passage(problem.question, context.model.decode(tokens), tokens=tuple(tokens))


@register
def filler(problem: Problem, context: Context) -> Passage:
    """As many full stops as `cot` has tokens: same length, no content."""
    stop = context.model.encode(f"{problem.question} .")[-1]
    tokens = [stop] * len(_cot_tokens(problem, context))
    return Passage(problem.question, context.model.decode(tokens), tokens=tuple(tokens))


@register
def swapped_cot(problem: Problem, context: Context) -> Passage:
    """The gold solution of another problem, with another final answer if there is one: irrelevant text."""
    others = sorted((p for p in context.problems if p.id != problem.id), key=lambda p: p.id)
    if not others:
        raise ValueError("the condition swapped_cot needs at least two problems; raise --limit")
    different = [p for p in others if not same_number(p.answer, problem.answer)]
    other = _generator(context, problem, "swapped_cot").choice(different or others)
    return Passage(problem.question, f" {other.solution}")


@register
def generated(problem: Problem, context: Context) -> Passage:
    """The model's own greedy continuation of the question, measured by teacher forcing over its tokens.

    The prompt is the bare question, so that every condition has the same context.
    """
    prompt = context.model.encode(problem.question)
    room = MAX_NEW_TOKENS
    if context.model.max_tokens is not None:
        room = min(room, context.model.max_tokens - len(prompt))
    if room < MIN_NEW_TOKENS:
        raise ValueError(f"problem {problem.id}: its question leaves no room to generate an answer")
    tokens = context.model.generate(prompt, room, MIN_NEW_TOKENS)
    text = context.model.decode(tokens)
    stated = stated_answer(text)
    correct = stated is not None and same_number(stated, problem.answer)
    return Passage(problem.question, text, tokens=tuple(tokens), correct=correct)


def _sentence(answer: str) -> str:
    return f" The answer is {answer}."


def _steps(solution: str) -> list[str]:
    """The lines of a solution before its last `####`, empty ones left out."""
    lines = solution.rsplit(MARKER, 1)[0].splitlines()
    return [line.strip() for line in lines if line.strip()]


def _cot_tokens(problem: Problem, context: Context) -> list[int]:
    ids, start = tokenise(context.model, cot(problem, context))
    return ids[start:]


def _generator(context: Context, problem: Problem, condition: str) -> random.Random:
    return random.Random(f"{context.seed} {condition} {problem.id}")
