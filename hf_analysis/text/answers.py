"""What answer does a text state? Worked solutions, and whatever a model writes.

Where the answer stands, strongest first: the last \\boxed{...}; after the last `####`; after the last "answer is"
(or "answer:", "option is", ...); else the result of the last equation, or the last number, in the last sentence that
has one. Why not a package: math-verify 0.9 knows neither `####` nor texts, needs a parser generator whose versions
exclude one another, and stops long parses with a signal, which only a main thread may do.
"""

import re

from hf_analysis.text.values import VALUE, plain_answer, plain_number, plain_value, tidied

MARKER = "####"
_BOXES = ("\\boxed", "\\fbox")
_STATED = re.compile(
    r"\b(?:answers?|options?|choices?)\b"
    r"(?:\s+(?:to|of|for|in|that)\b[^.:=\n]{0,80}?)?(?:\s*\([^()\n]{0,30}\))?\s*"
    r"(?:\b(?:is|are|was|were|be|equals|would be|will be|should be|must be)\b\s*:?|[:=]|→)",
    flags=re.IGNORECASE,
)
_OPENING = re.compile(
    r"(?:[\s:=\"'(\[{≈]|\b(?:is|are|therefore|thus|then|simply|just|about|approximately|approx\.?|roughly|exactly|"
    r"equal to|equals|only|now|actually|indeed|either|a total of|option|choice|answer)\b[,:]?)*",
    flags=re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:\b(?:can)?not|n['’]t)\s+(?:(?:be|equal to|exactly)\s+)?"
    rf"{VALUE.pattern}(?:\s*(?:[-+*/×÷=≈]|\bor\b)\s*{VALUE.pattern})*"
    rf"|\bbetween\s+{VALUE.pattern}(?:\s+[a-z]+)?\s+and\s+{VALUE.pattern}",
    flags=re.IGNORECASE | re.ASCII,
)
"""Numbers that are named and not stated: "not 5", "between 3 and 5"."""
_SENTENCE_END = re.compile(r"[.!?;](?=\s|$)|\n")
_CONTINUES = re.compile(
    r"\s*[A-Za-z]?(?![A-Za-z])\s*(?:[-+*/×÷=^≈:]\s*[({\\]*-?(?:\d|\.\d|[A-Za-z](?![A-Za-z])))|\s*\("
    r"(?=\s*\d+\s*[-+*/×÷])"
)
"""An expression or equation goes on: "3 + 4", "2x = 6", "5-7", "3:30"."""
_LETTER = re.compile(r"\(([A-Za-z])\)|([A-Z])(?=\s*(?:[).:,]|$|\n|\s-\s))|([A-Z])(?=\s+(?:because|since|as)\b)")
_NO_ANSWER = ("correct", "right", "wrong", "below", "above", "following", "as follows", "clear", "not", "unknown")
_MOST_WORDS = 8
"""Words of the longest sentence that is taken for a text answer."""


def final_answer(solution: str) -> str:
    """The answer of a worked solution, in plain form: after its last `####`, in \\boxed{...}, or after "answer is".

    A solution that only happens to end in a number is refused: the number may be anything.
    """
    if MARKER in solution:
        after = solution.rsplit(MARKER, 1)[1].strip()
        stated = plain_answer(after)
        if not stated or len(after.splitlines()) > 1:
            raise ValueError(f"the text after '{MARKER}' is {after[:40]!r}, expected an answer on one line")
        if plain_number(after) is None and re.fullmatch(r"\W*\d+,\d+\W*", after, flags=re.ASCII):
            raise ValueError(f"{MARKER} {after[:40]} may be one number or two; write it as 1.5 or as 1, 5")
    else:
        boxes = boxed(solution)
        stated = (plain_answer(boxes[-1]) if boxes else None) or _after_answer_is(_asserted(solution))
    if not stated:
        raise ValueError(f"the answer has no final '{MARKER} N', no \\boxed{{N}} and no 'the answer is N'")
    return stated


def stated_answer(text: str) -> str | None:
    """The final answer of a free text in plain form, such as "7", "5/2", "12%", "B", "2, 3" or "Paris"; or None."""
    text = without_annotations(text)
    thought, _, after = text.rpartition("</think>")
    if thought and after.strip():
        found = stated_answer(after)
        if found is not None:
            return found
    for content in reversed(boxed(text)):
        if plain_answer(content):
            return _value(plain_answer(content)) or plain_answer(content)
    if MARKER in text:
        found = _clause_answer(_asserted(text.rsplit(MARKER, 1)[1]))
        if found:
            return found
    tidy = _asserted(text)
    return _after_answer_is(tidy) or _last_result(tidy)


def without_annotations(solution: str) -> str:
    """`solution` without GSM8K's calculator annotations `<<...>>`."""
    return re.sub(r"<<[^<>]*>>", "", solution)


def boxed(text: str) -> list[str]:
    """What stands in every \\boxed{...} of a text, braces balanced, in order."""
    found = []
    for command in re.finditer("|".join(re.escape(box) + r"\s*\{" for box in _BOXES), text):
        depth, start = 1, command.end()
        for i in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0:
                found.append(text[start:i])
                break
    return found


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text; a full stop within a number ends none."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


def _asserted(text: str) -> str:
    """`text`, tidied, without the numbers that it denies or only bounds."""
    return _DENIED.sub("not", tidied(text))


def _after_answer_is(tidy: str) -> str | None:
    """The answer after the last "answer is" that has one; a number or letter goes before a text."""
    clauses = [tidy[place.end() :] for place in _STATED.finditer(tidy)]
    texts = []
    for clause in reversed(clauses):
        found = _clause_answer(clause)
        if found and (VALUE.match(found) or _LETTER.fullmatch(found)):
            return found
        texts.append(found)
    return next((text for text in texts if text), None)


def _clause_answer(clause: str) -> str | None:
    """The answer that a clause begins with, or else the result of its equation, its first number, or its words."""
    clause = clause[_blank(clause) :]
    clause = clause[: _sentence_end(clause)]
    letter = _letter(clause)
    if letter is not None:
        return letter
    opened = clause[_length(_OPENING, clause) :]
    whole = _unwrapped(opened)
    several = plain_answer(whole) if VALUE.match(whole) else ""
    if several and all(VALUE.fullmatch(part) for part in several.split(", ")):
        return several
    first = VALUE.match(opened)
    if first is not None and not _CONTINUES.match(opened, first.end()):
        return plain_value(first.group())
    result = _equation_result(clause)
    if result is not None:
        return result
    if first is None:
        later = VALUE.search(clause)
        if later is not None and not _CONTINUES.match(clause, later.end()):
            return plain_value(later.group())
    return _text(whole)


def _unwrapped(opened: str) -> str:
    """`opened` without what closes it, except the brackets that it opens itself."""
    whole = re.sub(r"[\s.)\]}\"']+$", "", opened)
    while sum(map(whole.count, "([{")) > sum(map(whole.count, ")]}")) and len(whole) < len(opened):
        whole = opened[: len(whole) + 1]
    return whole


def _letter(clause: str) -> str | None:
    opened = re.sub(r"^(?:[\s:\"'*]|\b(?:option|choice|answer|letter)\b)*", "", clause, flags=re.IGNORECASE)
    found = _LETTER.match(opened)
    return None if found is None else str(found[1] or found[2] or found[3]).upper()


def _equation_result(clause: str) -> str | None:
    """The value behind the last equals sign that is followed by one value and no further calculation."""
    for sign in reversed(list(re.finditer(r"[=≈]", clause))):
        start = sign.end() + _length(_OPENING, clause[sign.end() :])
        value = VALUE.match(clause, start)
        if value is not None and not _CONTINUES.match(clause, value.end()):
            return plain_value(value.group())
    return None


def _last_result(tidy: str) -> str | None:
    """The result of the last equation, or the last number, of the last sentence with a number."""
    for sentence in reversed(sentences(tidy)):
        values = list(VALUE.finditer(sentence))
        if values:
            return _equation_result(sentence) or plain_value(values[-1].group())
    whole = re.sub(r"[\s.]+$", "", tidy.strip())
    return plain_answer(whole) if _LETTER.fullmatch(whole) else None


def _value(answer: str) -> str | None:
    """The number of a boxed answer: behind its last equals sign, without a unit."""
    result = _equation_result(answer)
    if result is not None:
        return result
    value = VALUE.match(answer)
    whole = value is not None and re.fullmatch(r"\s*[A-Za-z°][\w°. ^²³/]*", answer[value.end() :] or "x")
    return (
        plain_value(value.group())
        if value is not None and whole and not answer[value.end() :].startswith("^")
        else None
    )


def _text(text: str) -> str | None:
    text = " ".join(text.split()).rstrip(" .,:;!?")
    first = text.casefold().split(" ")[0].rstrip(",:")
    if not text or len(text.split()) > _MOST_WORDS or first in _NO_ANSWER or not re.search(r"\w", text):
        return None
    return text


def _blank(text: str) -> int:
    return len(text) - len(text.lstrip())


def _sentence_end(text: str) -> int:
    found = _SENTENCE_END.search(text)
    return len(text) if found is None else found.start()


def _length(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.match(text)
    return 0 if found is None else found.end()
