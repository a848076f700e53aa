"""Which tokens of a worked solution are what? Question, reasoning lines, final answer and numbers, as token places.

Found by characters: the fast tokenizer tells where each token stands in the text. The text is the condition
`cot_clean`: question, reasoning lines, "The answer is N.", a sentence that models know; `#### N` is GSM8K's own.
"""

import re
from dataclasses import dataclass

from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.conditions import Context, check_length, cot_clean, tokenise
from hf_analysis.text.places import Places, overlapping, token_places
from hf_analysis.text.problems import Problem
from hf_analysis.text.values import plain_number

_NUMBER = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)", flags=re.ASCII)


@dataclass(frozen=True)
class Number:
    """One number in the text: its plain value, and its tokens."""

    value: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Solution:
    """The tokens of one problem with its worked solution, and what they are."""

    ids: tuple[int, ...]
    n_question: int
    lines: tuple[tuple[int, ...], ...]  # the reasoning lines
    ending: tuple[int, ...]  # "The answer is N."
    final: tuple[int, ...]  # N alone
    numbers: tuple[Number, ...]  # all of them, in order

    @property
    def step_numbers(self) -> tuple[int, ...]:
        """The tokens of numbers in the second and later reasoning lines."""
        later = {token for line in self.lines[1:] for token in line}
        return tuple(sorted({t for number in self.numbers for t in number.tokens} & later))

    def copies(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """For every number that the continuation takes from the question: where it is about to be written, and
        the tokens of all its occurrences in the question.

        The place is the token before its first mention in the continuation: there the model has to predict it, and
        can have it from nowhere but the question.
        """
        sources: dict[str, list[int]] = {}
        found: dict[str, tuple[int, tuple[int, ...]]] = {}
        for number in self.numbers:
            first = number.tokens[0]
            if first < self.n_question:
                sources.setdefault(number.value, []).extend(number.tokens)
            elif number.value in sources and number.value not in found:
                found[number.value] = (first - 1, tuple(sources[number.value]))
        return found


def solution(model: LoadedModel, problem: Problem) -> Solution:
    """The tokens of `problem` with its worked solution."""
    passage = cot_clean(problem, Context([problem], 0, model))
    text, start = passage.question + passage.continuation, len(passage.question)
    ids, n_question = tokenise(model, passage)
    check_length(problem, model, len(ids))
    places = token_places(model, text, ids)
    ending = len(text) - len(passage.ending.lstrip())
    lines, begin = [], start
    for line in text[start:ending].splitlines(keepends=True):
        lines.append(_ending_in(places, begin, begin + len(line), n_question))
        begin += len(line)
    final = len(text) - len(f"{problem.answer}.")
    return Solution(
        ids=tuple(ids),
        n_question=n_question,
        lines=tuple(line for line in lines if line),
        ending=_ending_in(places, ending, len(text), n_question),
        final=overlapping(places, final, final + len(problem.answer)),
        numbers=_numbers(text, places),
    )


def _numbers(text: str, places: Places) -> tuple[Number, ...]:
    found = []
    for match in _NUMBER.finditer(text):
        value, tokens = plain_number(match.group()), overlapping(places, *match.span())
        if value is not None and tokens:
            found.append(Number(value, tokens))
    return tuple(found)


def _ending_in(places: Places, start: int, end: int, first: int) -> tuple[int, ...]:
    """The tokens of the continuation whose last character lies in [start, end): every token is in one line."""
    return tuple(i for i, (a, b) in enumerate(places) if i >= first and a < b and start <= b - 1 < end)
