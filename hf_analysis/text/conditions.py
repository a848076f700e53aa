"""What does the model read after the question? The conditions that a measurement compares.

A condition turns a problem into a passage: the question and what follows it. `cot` against `no_cot` is the
paper's comparison; the others hold one explanation fixed at a time: format (`cot_clean`), order
(`shuffled_steps`, `shuffled_tokens`), length (`filler`), relevance (`swapped_cot`), authorship (`generated`, and
`generated_clean` against `cot_clean`); `same_sentence` has those that end in the sentence of `no_cot`.
docs/conditions.md says which pair differs in what.
A passage depends on the seed, the problem and the set of problems only, never on their order. A condition is one
function with one `@register`, here or in a plug-in (`probes.base.plugins`).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hf_analysis.models.generation import Decoding
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.answers import MARKER, without_annotations
from hf_analysis.text.own import CUE, OwnText, before_answer, own_texts
from hf_analysis.text.places import overlapping, token_places
from hf_analysis.text.problems import Problem, paper_answer
from hf_analysis.text.steps import TAG, ending_of, joined, pieces, reasoning, shuffled
from hf_analysis.text.values import same_answer
from probes.base.names import unknown
from probes.base.plugins import load_plugins, registered_by_name

OWN = ("generated", "generated_clean")
"""The conditions whose text the model writes."""


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
    decoding: Decoding = field(default_factory=Decoding)
    cue: str = CUE  # between a question and what the model writes; none in a chat
    sample: int = 0  # which of the texts that the model wrote
    own: dict[str, list[OwnText]] = field(default_factory=dict)  # what it has written so far, by problem

    def own_text(self, problem: Problem) -> OwnText:
        """What the model wrote after the question of `problem`; it writes now if it has not."""
        if problem.id not in self.own:
            self.own.update(own_texts(self.model, [problem], self.decoding, self.seed, self.cue))
        return self.own[problem.id][self.sample]


class SetAside(ValueError):
    """A problem has no text under a condition; it is left out there, and counted."""


Condition = Callable[[Problem, Context], Passage]
CONDITIONS: dict[str, Condition] = {}


def register(condition: Condition) -> Condition:
    """Makes `condition` known under its function's name; a name is taken once, except by a rerun cell."""
    return registered_by_name(CONDITIONS, "condition", condition)


def find_condition(name: str) -> Condition:
    """The condition registered as `name`; an unknown name lists the known ones."""
    if name not in CONDITIONS:
        load_plugins()
    if name not in CONDITIONS:
        raise ValueError(f"{unknown('condition', name)}; the conditions are {', '.join(sorted(CONDITIONS))}")
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


def check_length(problem: Problem, model: LoadedModel, n_tokens: int) -> None:
    """Refuses a passage that is longer than the model's context."""
    if model.max_tokens is not None and n_tokens > model.max_tokens:
        raise ValueError(
            f"problem {problem.id}: a passage of {n_tokens} tokens, but {model.name} takes at most "
            f"{model.max_tokens}; leave the problem out or use a model with a longer context"
        )


def replaceable(model: LoadedModel, passage: Passage) -> tuple[list[int], int]:
    """`tokenise`, for a condition that puts other tokens after the question: none of them may hold a part of it.

    Else the question would be left with a token too many, or lose its end, and the texts would not be of one length.
    """
    ids, n_question = tokenise(model, passage)
    if n_question < len(model.encode(passage.question)):
        raise SetAside("a token holds both the end of the question and the beginning of its solution")
    return ids, n_question


@register
def cot(problem: Problem, context: Context) -> Passage:
    """The gold solution as it stands, annotations and `#### N` included: the paper's text with CoT."""
    return Passage(problem.question, f" {_solution(problem)}")


@register
def no_cot(problem: Problem, context: Context) -> Passage:
    """Only the answer, as a sentence: the paper's text without CoT."""
    answer = paper_answer(problem.solution) if context.paper_mode else problem.answer
    return Passage(problem.question, closing_sentence(answer), ending=closing_sentence(answer))


@register
def cot_clean(problem: Problem, context: Context) -> Passage:
    """The solution without annotations, ending in the sentence of `no_cot`: removes the format confound.

    A closing sentence of the solution itself that only states the answer is left out; a solution without a step
    before its answer is the sentence alone, as in `no_cot`.
    """
    steps = joined(pieces(reasoning(without_annotations(_solution(problem)), problem.answer)))
    sentence = closing_sentence(problem.answer)
    return Passage(problem.question, f" {steps}{sentence}" if steps else sentence, ending=sentence)


@register
def shuffled_steps(problem: Problem, context: Context) -> Passage:
    """The gold solution with its lines in another order; `#### N` stays last, `<think>` and `</think>` in place.

    A solution of one line has no other order and stays as it is.
    """
    ending = ending_of(_solution(problem), problem.answer)
    marked = MARKER in problem.solution
    steps = problem.solution.rsplit(MARKER, 1)[0] if marked else reasoning(problem.solution, problem.answer)
    mixed = joined(shuffled(pieces(steps), seeded(context, problem, "shuffled_steps")))
    return Passage(problem.question, " " + "\n".join(part for part in (mixed, ending) if part))


@register
def shuffled_tokens(problem: Problem, context: Context) -> Passage:
    """The tokens of `cot` in random order: same tokens, same length, no reasoning."""
    passage = cot(problem, context)
    generator = seeded(context, problem, "shuffled_tokens")
    tokens = shuffled_between_tags(_cot_tokens(problem, context), passage, context, generator)
    return Passage(problem.question, context.model.decode(tokens), tokens=tuple(tokens))


@register
def filler(problem: Problem, context: Context) -> Passage:
    """As many full stops as `cot` has tokens: same length, no content."""
    tokens = [stop_token(problem, context)] * len(_cot_tokens(problem, context))
    return Passage(problem.question, context.model.decode(tokens), tokens=tuple(tokens))


@register
def swapped_cot(problem: Problem, context: Context) -> Passage:
    """The gold solution of another problem, with another final answer if there is one: irrelevant text."""
    return Passage(problem.question, f" {another_problem(problem, context).solution}")


@register
def generated(problem: Problem, context: Context) -> Passage:
    """The model's own continuation of the question, measured by teacher forcing over its tokens."""
    own = context.own_text(problem)
    if own.outcome == "empty":
        raise SetAside("the model wrote nothing")
    text = context.model.decode(list(own.tokens))
    return Passage(problem.question, text, tokens=own.tokens, correct=own.outcome == "right")


@register
def generated_clean(problem: Problem, context: Context) -> Passage:
    """The model's own CoT without the sentence of its answer, ending in the sentence of `no_cot`."""
    own = context.own_text(problem)
    thoughts = before_answer(own.text)
    if not thoughts.strip():
        raise SetAside("the model wrote no reasoning before an answer")
    if "<think>" in f"{problem.question}{thoughts}".rpartition("</think>")[2]:
        raise SetAside("the model's thought does not end")
    sentence = closing_sentence(problem.answer)
    correct = own.outcome == "right"
    return Passage(problem.question, f"{own.cue}{thoughts}{sentence}", correct=correct, ending=sentence)


def closing_sentence(answer: str) -> str:
    """The sentence that states an answer."""
    return f" The answer is {answer}."


def another_problem(problem: Problem, context: Context) -> Problem:
    """A random problem with a solution, and with another final answer if there is one."""
    others = sorted((p for p in context.problems if p.id != problem.id and p.solution), key=lambda p: p.id)
    if not others:
        raise ValueError("the conditions swapped_cot and swapped_clean need at least two problems; raise --limit")
    different = [p for p in others if not same_answer(p.answer, problem.answer)]
    return seeded(context, problem, "swapped_cot").choice(different or others)


def stop_token(problem: Problem, context: Context) -> int:
    """The token of a full stop after a space."""
    return context.model.encode(f"{problem.question} .")[-1]


def shuffled_between_tags(
    tokens: Sequence[int], passage: Passage, context: Context, generator: random.Random
) -> list[int]:
    """`tokens`, the first ones of the continuation of `passage`, in random order.

    Those of `<think>` and `</think>` stay in place, and so does every other token on its side of them.
    """
    fixed: set[int] = set()
    if TAG.search(passage.continuation):
        text, (ids, start) = passage.question + passage.continuation, tokenise(context.model, passage)
        places = token_places(context.model, text, ids)
        for tag in TAG.finditer(text, len(passage.question)):
            fixed |= {token - start for token in overlapping(places, *tag.span())}
    ends = [*sorted(place for place in fixed if 0 <= place < len(tokens)), len(tokens)]
    mixed: list[int] = []
    for end in ends:
        part = list(tokens[len(mixed) : end])
        generator.shuffle(part)
        mixed += [*part, *tokens[end : end + 1]]
    return mixed


def seeded(context: Context, problem: Problem, condition: str) -> random.Random:
    """The random numbers of a condition for one problem."""
    return random.Random(f"{context.seed} {condition} {problem.id}")


def _solution(problem: Problem) -> str:
    if not problem.solution:
        raise ValueError(
            "it has no worked solution, which this condition needs; name its column with --solution, "
            "or measure only no_cot, generated and generated_clean"
        )
    return problem.solution


def _cot_tokens(problem: Problem, context: Context) -> list[int]:
    ids, start = replaceable(context.model, cot(problem, context))
    return ids[start:]


# Registers the conditions that end in the same sentence. At the end, because they are made of what stands above.
from hf_analysis.text import same_sentence  # noqa: E402, F401
