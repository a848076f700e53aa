"""What does the model itself write after a question, and is it right? Its own CoT, and what became of it.

Outcomes: `right` and `wrong`, by the answer it states; `truncated`, cut off at the limit of tokens before the text
was over; `unparsable`, over without an answer; `empty`, nothing but the end of the text. A text is over at an end
token, or when it has stated its answer ("The answer is N.", "#### N"); a thought (`<think>`) may state what it likes.

Without a chat template the question is followed by a cue, which belongs to what is read after the question: so the
question is the same in every condition.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hf_analysis.models.generation import Continuation, Decoding, continuations
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.answers import stated_answer
from hf_analysis.text.problems import Problem
from hf_analysis.text.values import same_answer
from probes.base.streams import torch_stream

OUTCOMES = ("right", "wrong", "truncated", "unparsable", "empty")
CUE = "\nSolution: Let's think step by step."
"""After less of a cue the built-in model ends most texts at once."""
_TAIL = 96  # tokens in which a stated answer is looked for while a text is being written
_STATED = (
    r"\b(?i:answer)\s+is\b[^\n]*?(?:\d|\b[A-E]\b)[^\n]*?(?:[.!](?=\s{end})|(?=\n))"  # 3.5 has no end after its 3
    r"|####[^\n]*?\w[^\n]*?(?=\n{end})"
)
_STATED_FOR_SURE = re.compile(_STATED.format(end=""))
_STATED_AT_THE_END = re.compile(_STATED.format(end="|$"))
_STATEMENT = re.compile(r"\banswer\s+is\b|####|\\boxed", re.IGNORECASE)
_SENTENCE_START = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class OwnText:
    """One text that the model wrote after a question."""

    problem: str
    sample: int
    cue: str
    """What stood between question and text."""
    text: str
    tokens: tuple[int, ...]
    """Of cue and text."""
    outcome: str

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "tokens": list(self.tokens)}


def own_texts(
    model: LoadedModel, problems: Sequence[Problem], decoding: Decoding, seed: int, cue: str = CUE
) -> dict[str, list[OwnText]]:
    """What the model writes after the question of each problem, by its id: `decoding.samples` texts each."""
    cue_tokens = list(model.tokenizer(cue, add_special_tokens=False)["input_ids"]) if cue else []
    asked = [(problem, sample) for problem in problems for sample in range(decoding.samples)]
    found: dict[str, list[OwnText]] = {problem.id: [] for problem in problems}
    streams = None
    if decoding.temperature:
        streams = [torch_stream(seed, f"generated {problem.id} sample {sample}") for problem, sample in asked]

    def is_done(place: int, tokens: list[int]) -> bool:
        return is_over(model, asked[place][0].question + cue, tokens)

    try:
        written = continuations(
            model, [model.encode(problem.question) + cue_tokens for problem, _ in asked], decoding, streams, is_done
        )
    except ValueError as error:
        raise ValueError(f"problems {problems[0].id} to {problems[-1].id}: {error}") from error
    for (problem, sample), one in zip(asked, written):
        found[problem.id].append(_own_text(model, problem, sample, cue, cue_tokens, one))
    return found


def is_over(model: LoadedModel, prompt: str, tokens: list[int]) -> bool:
    """Whether what is being written after `prompt` has stated its answer, outside of a thought."""
    if not _STATED_FOR_SURE.search(model.decode(tokens[-_TAIL:])):
        return False
    return not _is_thinking(prompt + model.decode(tokens))


def outcome(text: str, complete: bool, answer: str, prompt: str = "") -> str:
    """What became of a text; `complete` is False where it was cut off. A prompt may begin a thought."""
    if not text.strip():
        return "empty"
    stated_all = _STATED_AT_THE_END.search(_after_thought(text)) and not _is_thinking(prompt + text)
    if not complete and not stated_all:
        return "truncated"
    stated = stated_answer(text)
    if stated is None:
        return "unparsable"
    return "right" if same_answer(stated, answer) else "wrong"


def before_answer(text: str) -> str:
    """`text` up to the sentence in which it states its answer; all of it where it states none.

    A thought is kept whole: only what follows it is searched for the answer.
    """
    start = len(text) - len(_after_thought(text))
    statements = list(_STATEMENT.finditer(text, start))
    if not statements:
        return text.rstrip()
    starts = [place.end() for place in _SENTENCE_START.finditer(text, start, statements[-1].start())]
    return text[: max([start, *starts])].rstrip()


def _own_text(
    model: LoadedModel, problem: Problem, sample: int, cue: str, cue_tokens: list[int], one: Continuation
) -> OwnText:
    tokens = list(one.tokens)
    text = model.decode(tokens)
    stated = None if _is_thinking(problem.question + text) else _STATED_FOR_SURE.search(_after_thought(text))
    if stated:  # what it began to write after its answer
        end = len(text) - len(_after_thought(text)) + stated.end()
        while len(model.decode(tokens[:-1])) >= end:
            tokens.pop()
        text = model.decode(tokens)
    judged = outcome(text, one.complete, problem.answer, problem.question)
    return OwnText(problem.id, sample, cue, text, (*cue_tokens, *tokens), judged)


def _is_thinking(text: str) -> bool:
    """Whether a thought has begun and not ended."""
    return text.rfind("<think>") > text.rfind("</think>")


def _after_thought(text: str) -> str:
    return text.rpartition("</think>")[2]
