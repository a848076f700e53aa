r"""Where does each sentence of a reasoning trace begin and end? In characters, by rules that survive mathematics.

Traces are full of what splitters stumble over: decimals, LaTeX, code, list numbers, lines without a full stop.
Here a sentence ends
- at `.`, `!`, `?` or `…` (with the quotes, brackets and asterisks that close it), where a space and what may
  begin a sentence follow: no lower-case letter, and the stop is not that of a number, an abbreviation, an initial
  ("J. Smith") or a list number ("2. Then");
- at the end of a line, unless the next one goes on in lower case or with a displayed formula;
- at `。`, `！` and `？` without a space.
Nothing ends within $...$, $$...$$, \(...\), \[...\], \begin{...}...\end{...}, `code` and fenced code; a fenced
block is one sentence. A piece without a letter or digit ("---", "**") goes with the one before it.

Why not a package: of the 104 cases in this module's tests, which were collected for it, pysbd 0.3.4 splits 79 as
marked, sentencex 1.0.32 76, syntok 1.4.4 65 and blingfire 0.1.8 62; what they miss is LaTeX, code and lines.
"""

import re
from bisect import bisect_left

_PROTECTED = re.compile(
    r"(?P<fence>^[ \t]*(?:```|~~~)[^\n]*\n.*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z))"
    r"|(?P<display>\$\$.+?\$\$|\\\[.+?\\\]|\\begin\{(?P<name>[a-zA-Z]+\*?)\}.*?\\end\{(?P=name)\})"
    r"|\\\(.+?\\\)"
    r"|(?<![\\$\w])\$(?=[^\s$])(?:\\.|[^$\\\n])*?(?<![\s\\])\$(?![\d$])"
    r"|`[^`\n]+`",
    flags=re.DOTALL | re.MULTILINE,
)
_STOP = re.compile(r"[.!?…]+(?:[\"'”’»)\]*_}]|\$+|\\\)|\\\])*(?=\s)|[。！？]+[”’」』）]*")
_LINE = re.compile(r"[ \t]*\n\s*")
_TITLES = "mr mrs ms dr prof sr jr st mt rev gen col sgt capt lt gov sen rep hon"
_LATIN = "vs v cf viz resp approx est incl excl e.g i.e eg ie ca al"
_REFERENCES = "fig figs eq eqs eqn thm lem prop cor def ex sec ch vol no nos pp p art dept"
_UNITS = "min max avg std dist alt temp oz lb lbs ft yd mi sq cu hr hrs mins secs wt qty amt"
_ABBREVIATIONS = frozenset(f"{_TITLES} {_LATIN} {_REFERENCES} {_UNITS}".split())
_MAY_END = frozenset(("min", "max", "mins", "secs", "hr", "hrs", "oz", "lb", "lbs", "ft", "yd", "mi", "no", "p", "v"))
"""Abbreviations that also end sentences, or are words and units: one of them goes on only before a digit."""
_INITIALS = re.compile(r"(?:\b[A-Za-z]\.)+[A-Za-z]?$")
_ENUMERATOR = re.compile(
    r"(?:^|\n)[ \t]*(?:[-*>#]+[ \t]*)*(?:(?:step|case|part|option|point)[ \t]+)?\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})$",
    flags=re.IGNORECASE,
)
_WORD = re.compile(r"[\w.]*\w$")
_BEGINS = re.compile(
    r"(?:The|This|That|It|He|She|They|We|So|Then|But|And|In|At|After|If|I|Now|How|Therefore|Thus|Hence|Let|Since|Next"
    r"|Wait)\b"
)
"""Words that usually begin a sentence: before them, initials and "U.S." or "a.m." end one."""
REACH = 24
"""Characters around a stop that are looked at."""


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """First character and the one behind the last of every sentence; together they are the whole text, in order.

    White space belongs to the sentence before it, at the very beginning to the first. A text without a letter or
    digit has no sentence.
    """
    found = list(_PROTECTED.finditer(text))
    protected = [one.span() for one in found]
    fences = [one.span() for one in found if one["fence"]]
    displays = {one.start() for one in found if one["display"]}
    ends = {end for span in fences for end in (span[0], _behind_space(text, span[1]))}
    ends |= {_behind_space(text, one.end()) for one in found if one["display"] and _closes(text, one)}
    for line in _LINE.finditer(text):
        if not _within(line.start(), protected) and not _goes_on(text, line, displays):
            ends.add(line.end())
    for stop in _STOP.finditer(text):
        if not _within(stop.end(), protected) and not _within(stop.start(), fences) and _ends_here(text, stop):
            ends.add(_behind_space(text, stop.end()))
    return _merged(text, sorted(end for end in ends if 0 < end < len(text)))


def _within(place: int, spans: list[tuple[int, int]]) -> bool:
    """Whether `place` is inside one of the spans, which are in order, and not at its end."""
    last = bisect_left(spans, (place, 0)) - 1
    return last >= 0 and spans[last][0] < place < spans[last][1]


def _closes(text: str, formula: re.Match[str]) -> bool:
    """Whether a displayed formula that holds a full stop at its end is followed by a new sentence on its line."""
    stop = re.search(r"\.\s*(?:\$\$|\\\])$", formula.group()[-REACH:])
    begin = _behind_space(text, formula.end())
    return stop is not None and text[begin : begin + 1].isupper()


def _behind_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _goes_on(text: str, line: re.Match[str], displays: set[int]) -> bool:
    """Whether the next line belongs to the sentence of this one."""
    before, after = text[max(0, line.start() - REACH) : line.start()], text[line.end() : line.end() + REACH]
    if line.group().count("\n") > 1 and line.end() not in displays:
        return False
    if before.endswith((".", "!", "?", "。")):
        return False
    return line.end() in displays or (after[:1].islower() and not re.match(r"[a-z][.)]\s", after))


def _ends_here(text: str, stop: re.Match[str]) -> bool:
    """Whether a stop with a space behind it ends a sentence."""
    mark, begin = stop.group(), _behind_space(text, stop.end())
    after = text[begin : begin + REACH]
    if mark[0] in "。！？":
        return True
    if not after or "\n" in text[stop.end() : begin]:
        return False  # the end of a line is judged as such
    if after[0].islower():
        return False
    if mark != ".":  # "!", "?", an ellipsis, or closed by a quote or bracket
        return True
    before = text[max(0, stop.start() - REACH) : stop.start()]
    if _ENUMERATOR.search(before):
        return False
    word = _WORD.search(before)
    if word is None:
        return True
    name = word.group().lower()
    if name in _ABBREVIATIONS:
        return name in _MAY_END and not after[0].isdigit()
    return not (_INITIALS.search(word.group() + ".") and _is_name(word.group(), after))


def _is_name(word: str, after: str) -> bool:
    """Whether single letters with stops ("J.", "U.S.", "a.m.") go on with what follows: a name, or a number."""
    if _BEGINS.match(after):
        return False
    if "." in word:
        return True
    return word.isupper() and word not in ("I", "A") and bool(re.match(r"[A-Z](?:\.|[a-z]+)", after))


def _merged(text: str, ends: list[int]) -> list[tuple[int, int]]:
    """The spans between `ends`; one without a letter or digit joins the one before, at the start the one behind."""
    spans: list[tuple[int, int]] = []
    start = 0
    for end in [*ends, len(text)]:
        if end == start:
            continue
        if any(character.isalnum() for character in text[start:end]):
            spans.append((start, end))
            start = end
        elif spans:
            spans[-1] = (spans[-1][0], end)
            start = end
    return spans
