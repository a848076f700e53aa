"""When are two answers the same? Numbers, fractions, percentages, option letters and short texts in plain form.

The plain form of an answer has no currency, no thousands separators, no LaTeX and no final full stop: "$70,000." is
"70000", "\\frac{5}{2}" is "5/2", "(b)" is "B". What is none of these is a text and is kept, tidied.
"""

import re
from fractions import Fraction
from functools import lru_cache

_NUMBER = r"[-+−]?\s*\$?\s*[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?"
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_POWER = r"(?:[eE][-+]?\d{1,3}(?!\d)|\s*[x*×]\s*10\s*\^\s*\{?\s*-?\d{1,3}(?!\d)\s*\}?)"
VALUE = re.compile(
    rf"(?<![\w.^)])(?:(?<![)\]}}])-)?(?:(?:\d+\s+)?\d+\s*/\s*\d+(?!\s*/\s*\d)(?![\d.]*\d)"
    rf"|(?:{_DIGITS})(?!\.?\d){_POWER}?)(?:\s*%)?",
    flags=re.ASCII,
)
"""A number, fraction ("5/2", "2 1/2") or percentage in tidied text. A minus is a sign only where no digit or word
stands before it; "1.2.3" is none."""
_LETTER = re.compile(r"\(?([A-Za-z])\)|([A-Z])")
_UNIT = re.compile(r"\s*(?:[A-Za-z°µ][\w°.²³^/ -]*)?", flags=re.ASCII)
_LONGEST = 1000
"""Characters of the longest text that is read as a number: Python refuses to convert much longer ones."""
_REPLACED = (
    (r"\\\(|\\\)|\\\[|\\\]|\\left(?![a-z])|\\right(?![a-z])|\\[!;:]|\\displaystyle", ""),
    (r"\{,\}", ","),
    (r"(?<=\d)(?:\\,|\u202f|\u2009|\u00a0)(?=\d{3})", ","),
    (r"\\,|\\ |~|\u00a0|\u202f|\u2009", " "),
    (r"\\[cdt]frac", r"\\frac"),
    (r"(?<=\d)\s*\\frac", r" \\frac"),
    (r"\\frac\s*\{\s*([^{}]*?)\s*\}\s*\{\s*([^{}]*?)\s*\}", r"\1/\2"),
    (r"\\frac\s*(\d)\s*(\d)", r"\1/\2"),
    (r"\\(?:text|textbf|textit|mathrm|mathbf|mbox|boldsymbol)\s*\{([^{}]*)\}", r"\1"),
    (r"\\(?:times|cdot)(?![a-z])", "*"),
    (r"\\div(?![a-z])", "÷"),
    (r"\\(?:approx|simeq)(?![a-z])", "≈"),
    (r"\^\s*\{?\s*\\circ\s*\}?|\\degree(?![a-z])", "°"),
    (r"\\?[$€£¥₹]|\b(?:USD|EUR|GBP)\b|\bRs\.?(?=\s*\d)", ""),
    (r"\\%", "%"),
    (r"\^\s*\{\s*(-?\d+)\s*\}(?!\d)", r"^\1"),
    (r"\*\*|__|`", ""),
    (r"[−–—﹣－]", "-"),
)
_DOTTED = re.compile(r"(?<![\w.,])(\d{1,3}(?:\.\d{3}){2,})(?:,(\d+))?(?!\w|[.,]\d)", flags=re.ASCII)
"""Thousands with full stops between them, at least twice (once is a decimal), and perhaps a decimal comma."""
_TIDY = [(re.compile(pattern), replacement) for pattern, replacement in _REPLACED]


def plain_number(text: str) -> str | None:
    """`text` as a plain number, percent left out ("$70,000." is "70000"), or None if it is not one number."""
    text = re.sub(r"[.\s%]+$", "", text.strip())
    if not re.search(r"\d", text) or not re.fullmatch(_NUMBER, text, flags=re.ASCII):
        return None
    if sum(text.count(sign) for sign in "-−+") > 1:
        return None
    negative = "-" in text or "−" in text
    digits = re.sub(r"[^\d.]", "", text, flags=re.ASCII)
    return ("-" if negative else "") + ("0" if digits.startswith(".") else "") + digits


def tidied(text: str) -> str:
    """`text` without LaTeX's wrappers, currency signs and emphasis; fractions with a slash, one kind of minus.

    "1.234.567,8" is "1234567.8".
    """
    for pattern, replacement in _TIDY:
        text = pattern.sub(replacement, text)
    return _DOTTED.sub(lambda found: found[1].replace(".", "") + (f".{found[2]}" if found[2] else ""), text)


def plain_value(found: str) -> str:
    """What `VALUE` matches, in plain form: "2 1/2" is "5/2", "1.5e3" is "1500", "12 %" is "12%"."""
    percent = "%" if found.rstrip().endswith("%") else ""
    bare = found.rstrip("% \n\t")
    if len(bare) > _LONGEST:
        return bare + percent
    if "/" in bare:
        *whole, numerator = bare.split("/")[0].split()
        denominator = int(bare.split("/")[1])
        if not whole:
            return f"{numerator}/{denominator}{percent}"
        sign = "-" if whole[0].startswith("-") else ""
        return f"{sign}{abs(int(whole[0])) * denominator + int(numerator)}/{denominator}{percent}"
    power = re.fullmatch(r"(-?[\d.,]+)(?:[eE]|\s*[x*×]\s*10\s*\^\s*\{?\s*)([-+]?\d+)\s*\}?", bare)
    if power is not None:
        return _shifted(plain_number(power[1]) or power[1], int(power[2])) + percent
    return (plain_number(bare) or bare) + percent


def plain_answer(text: str) -> str:
    """An answer in plain form: a number, fraction, percentage, option letter, several of these, or a tidied text."""
    number = plain_number(text)
    if number is not None:
        return number + ("%" if "%" in text else "")
    tidy = re.sub(r"[.\s]+$", "", " ".join(tidied(text).split()))
    letter = _LETTER.fullmatch(tidy)
    if letter is not None:
        return (letter[1] or letter[2]).upper()
    return _several(tidy) or tidy


def same_answer(first: str, second: str) -> bool:
    """Whether two answers are equal: as numbers ("5/2" and "2.5"), letters ("(b)" and "B") or texts.

    A percentage equals its number with and without the sign ("12%" equals "12" and "0.12"); a unit counts only where
    both have one; several values are compared in any order; texts without case, articles and punctuation.
    """
    (one, a), (other, b) = _read(first), _read(second)
    if a is not None and b is not None:
        return _same_number(a, b)
    if ", " in one and ", " in other:
        mine, others = one.split(", "), other.split(", ")
        return len(mine) == len(others) and _matched(mine, others)
    return _words(one) == _words(other)


@lru_cache(maxsize=1 << 16)  # every problem is compared with every other to find one with another answer
def _read(text: str) -> tuple[str, tuple[Fraction, str] | None]:
    plain = plain_answer(text)
    return plain, _number_and_unit(plain)


def _same_number(a: tuple[Fraction, str], b: tuple[Fraction, str]) -> bool:
    if a[1] == "%" or b[1] == "%":
        scales = (1, 100) if a[1] != b[1] else (1,)
        percent, plain = (a[0], b[0]) if a[1] == "%" else (b[0], a[0])
        return any(percent == scale * plain for scale in scales)
    return a[0] == b[0] and (not a[1] or not b[1] or a[1] == b[1])


def _number_and_unit(answer: str) -> tuple[Fraction, str] | None:
    found = VALUE.match(answer)
    if found is None or len(answer) > _LONGEST:
        return None
    value, rest = plain_value(found.group()), answer[found.end() :]
    if not _UNIT.fullmatch(rest):
        return None
    unit = "%" if value.endswith("%") else re.sub(r"(?<=\w\w)s\b", "", rest.strip().casefold())
    try:
        return Fraction(value.rstrip("%")), unit
    except (ValueError, ZeroDivisionError):
        return None


def _several(text: str) -> str | None:
    """One value, or several with "and", "or" or a comma between them, in plain form; None for anything else."""
    bare = re.fullmatch(r"[{(\[]?(.*?)[})\]]?", text)
    parts = re.split(r"\s*(?:,\s*(?:and|or)\b|,(?!\d{3}(?!\d))|;|\b(?:and|or)\b)\s*", bare[1] if bare else text)
    values = [re.sub(r"^[A-Za-z]\s*=\s*", "", part) for part in parts]
    if not all(VALUE.fullmatch(value) for value in values):
        return None
    return ", ".join(plain_value(value) for value in values)


def _matched(mine: list[str], others: list[str]) -> bool:
    if not mine:
        return True
    rest = next((others[:i] + others[i + 1 :] for i, one in enumerate(others) if same_answer(mine[0], one)), None)
    return rest is not None and _matched(mine[1:], rest)


def _words(text: str) -> list[str]:
    bare = re.sub(r"[^\w\s+*/^=<>-]", " ", text.casefold())
    return [word for word in bare.split() if word not in ("a", "an", "the")] or bare.split()


def _shifted(number: str, power: int) -> str:
    """A plain number times ten to the `power`, written out."""
    value = Fraction(number) * Fraction(10) ** power
    if value.denominator == 1:
        return str(value.numerator)
    digits = max(0, len(number.partition(".")[2]) - power)
    scaled = abs(value) * 10**digits
    text = str(int(scaled)).rjust(digits + 1, "0")
    return f"{'-' if value < 0 else ''}{text[:-digits]}.{text[-digits:]}"
