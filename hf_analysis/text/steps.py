"""What are the steps of a worked solution, and where does its answer begin?

A step is a line. `<think>` and `</think>` are no steps: they stay where they are, whatever a condition does to the
lines between them, so that no condition tears a span of thought apart or puts its end before its beginning.
"""

import random
import re
from dataclasses import dataclass

from hf_analysis.text.answers import MARKER, boxed, stated_answer
from hf_analysis.text.values import same_answer

TAG = re.compile(r"</?think(?:ing)?>", flags=re.IGNORECASE)
_STATES = re.compile(
    r"(?:^|(?<=[.!?>])\s*|\n)\s*(?:(?:so|thus|hence|therefore|finally)\b,?\s+)?(?:(?:the|our)\s+)?"
    r"(?:(?:final|correct)\s+)?(?:answer|option)\b\s*(?:is\b)?\s*[:=]?\s*(?P<said>(?:[^\n=;.!?]|[.!?](?!\s)){1,80}?)\s*$",
    flags=re.IGNORECASE,
)
_BOX = re.compile(r"(?:^|(?<=[.!?:>])|\n)[\s$\\(\[]*\\(?:boxed|fbox)\s*\{[^\n]*\}[\s$\\)\].]*$")


@dataclass(frozen=True)
class Piece:
    """A tag, or the lines between two tags, with the space that sets them off from the tags."""

    lines: tuple[str, ...]
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        return self.before + "\n".join(self.lines) + self.after


def reasoning(solution: str, answer: str) -> str:
    """A worked solution without its `#### N` and without closing sentences that do nothing but state its `answer`."""
    text = solution.rsplit(MARKER, 1)[0].rstrip()
    while True:
        found = _STATES.search(text) or _BOX.search(text)
        if found is None or not _only_states(found, answer):
            return text
        text = text[: found.start()].rstrip()


def ending_of(solution: str, answer: str) -> str:
    """What `reasoning` leaves out; where there is a `#### N`, that alone."""
    if MARKER in solution:
        return MARKER + solution.rsplit(MARKER, 1)[1].rstrip()
    return solution[len(reasoning(solution, answer)) :].strip()


def pieces(text: str) -> list[Piece]:
    """The lines of a text, empty ones left out, and its tags, in order."""
    found, start = [], 0
    tags = list(TAG.finditer(text))
    for tag in [*tags, None]:
        end = len(text) if tag is None else tag.start()
        found.append(_lines(text[start:end], after_tag=start > 0 and bool(tags), before_tag=tag is not None))
        if tag is not None:
            found.append(Piece((tag.group(),)))
            start = tag.end()
    return [piece for piece in found if piece.text]


def joined(found: list[Piece]) -> str:
    return "".join(piece.text for piece in found).strip()


def shuffled(found: list[Piece], generator: random.Random) -> list[Piece]:
    """The lines of each piece in another order; a piece whose lines are all alike has none and stays as it is."""
    result = []
    for piece in found:
        order = list(range(len(piece.lines)))
        while len(set(piece.lines)) > 1 and [piece.lines[i] for i in order] == list(piece.lines):
            generator.shuffle(order)
        result.append(Piece(tuple(piece.lines[i] for i in order), piece.before, piece.after))
    return result


def _lines(text: str, after_tag: bool, before_tag: bool) -> Piece:
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    blank = "\n" if "\n" in text else " " if text else ""
    if not lines:
        return Piece((), blank if after_tag and before_tag else "")
    leading, trailing = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return Piece(lines, _space(leading) if after_tag else "", _space(trailing) if before_tag else "")


def _space(blank: str) -> str:
    return "\n" if "\n" in blank else blank[:1]


def _only_states(found: re.Match[str], answer: str) -> bool:
    said = found.groupdict().get("said")
    if said is None:  # a box alone
        return len(boxed(found.group())) == 1 and same_answer(boxed(found.group())[0], answer)
    stated = stated_answer(f"The answer is {said}")
    return stated is not None and same_answer(stated, answer)
