"""Over which tokens of a text are statistics reduced? The registry of scopes.

To add a scope, write one function with one `register_scope`, here or in a plug-in (`probes.base.plugins`):

    from hf_analysis import Selection, register_scope

    @register_scope("question", label="tokens of the question")
    def question(text):
        return Selection(range(text.n_question))

A scope that also takes `m` depends on the pair of texts that are compared: m is the smaller of their numbers of
answer tokens, so that both sides of the pair have equally many. `identical` scopes compare the same tokens: a problem
in which two texts differ there, by one token id, is set aside for the scope.

No torch here: a report is built without it.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probes.base.names import unknown
from probes.base.plugins import is_rerun, load_plugins

if TYPE_CHECKING:
    from hf_analysis.models.loading import LoadedModel
    from hf_analysis.text.conditions import Passage


@dataclass(frozen=True)
class TokenCounts:
    """How the tokens of a text are divided: the question, then the answer, which may end in a closing sentence."""

    n: int
    n_question: int
    n_ending: int | None = None
    """Tokens of the closing sentence; None: there is none; 0: it does not begin with a token of its own."""

    @property
    def n_answer(self) -> int:
        return self.n - self.n_question


@dataclass(frozen=True)
class Selection:
    """The tokens of a text that are in a scope."""

    tokens: range
    window: int | None = None
    """If given: a reduction is taken over so many neighbouring tokens, and its mean over all places of them."""

    def __post_init__(self) -> None:
        if self.tokens.step != 1 or not 0 <= self.tokens.start <= self.tokens.stop:
            raise ValueError(
                f"Selection of {self.tokens}: expected neighbouring tokens in their order, counted from 0"
            )
        if self.window is not None and self.window < 1:
            raise ValueError(f"Selection with a window of {self.window} tokens; expected 1 or more, or None")


@dataclass(frozen=True)
class Scope:
    """Which tokens count."""

    name: str
    label: str
    function: Callable[..., Selection | None]
    identical: bool = False

    @property
    def paired(self) -> bool:
        """Whether it depends on the text that a text is compared with."""
        return "m" in inspect.signature(self.function).parameters

    def selection(self, text: TokenCounts, m: int | None = None) -> Selection | None:
        """The tokens of `text` in scope, None if it has no such part; `m` tokens where the scope is of a pair."""
        found = self.function(text, m=m) if self.paired else self.function(text)
        if found is not None and found.tokens.stop > text.n:
            raise ValueError(
                f"scope {self.name!r} chose {found.tokens} of a text of {text.n} tokens; end it at the text's `n`"
            )
        return found


SCOPES: dict[str, Scope] = {}
DEFAULT_SCOPES = ("all", "answer", "final")
"""What is measured unless something else is asked for."""
PAPER_SCOPES = ("all",)

Function = Callable[..., Selection | None]


def register_scope(name: str, *, label: str, identical: bool = False) -> Callable[[Function], Function]:
    """Makes the decorated function known as a scope; a name is taken once, except by a rerun cell."""

    def registered(function: Function) -> Function:
        if not name.isidentifier() or not label.strip():
            raise ValueError(f"scope {name!r}, label {label!r}: need a name of letters, digits and _, and a label")
        if name in SCOPES and not is_rerun(SCOPES[name].function, function):
            raise ValueError(f"a scope named {name!r} is already registered")
        SCOPES[name] = Scope(name, label, function, identical)
        return function

    return registered


def find_scope(name: str) -> Scope:
    """The scope registered as `name`; an unknown name lists the known ones."""
    if name not in SCOPES:
        load_plugins()
    if name not in SCOPES:
        raise ValueError(f"{unknown('scope', name)}; the scopes are {', '.join(SCOPES)}")
    return SCOPES[name]


@register_scope("all", label="all tokens")
def all_tokens(text: TokenCounts) -> Selection:
    """Every token."""
    return Selection(range(text.n))


@register_scope("answer", label="answer tokens")
def answer(text: TokenCounts) -> Selection:
    """Every token after the question."""
    return Selection(range(text.n_question, text.n))


@register_scope("final", label="tokens of the closing sentence", identical=True)
def final(text: TokenCounts) -> Selection | None:
    """The sentence " The answer is N.": the same tokens in every text that ends in it, whatever stands before."""
    return None if text.n_ending is None else Selection(range(text.n - text.n_ending, text.n))


@register_scope("first", label="first m tokens of the answer")
def first(text: TokenCounts, m: int) -> Selection:
    """The first m tokens after the question: both texts of a pair at the same positions."""
    return Selection(range(text.n_question, text.n_question + m))


@register_scope("window", label="m neighbouring tokens of the answer")
def window(text: TokenCounts, m: int) -> Selection:
    """m neighbouring tokens at a random place of the answer: tokens of one sentence are no random subset."""
    return Selection(range(text.n_question, text.n), window=m)


def ending_tokens(model: "LoadedModel", passage: "Passage", ids: tuple[int, ...]) -> int | None:
    """How many of the last `ids`, the tokens of `passage`, are its closing sentence: `TokenCounts.n_ending`.

    What stands before the sentence must have the same tokens with it and without it. Where the condition fixes
    tokens, the last ones must be those that the sentence has after the question.
    """
    if not passage.ending:
        return None
    if passage.tokens is None:
        before = model.encode(passage.question + passage.continuation.removesuffix(passage.ending))
        return len(ids) - len(before) if list(ids[: len(before)]) == before else 0
    question, whole = model.encode(passage.question), model.encode(passage.question + passage.ending)
    sentence = whole[len(question) :]
    alike = whole[: len(question)] == question and list(ids[len(ids) - len(sentence) :]) == sentence
    return len(sentence) if alike else 0
