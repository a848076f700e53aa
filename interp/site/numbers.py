"""Are the numbers in hand-written pages those of `results/`? Each stands between two comments that say which it is.

    <!-- wen2024/fig6-gsm8k {published.estimate:.3f} -->-0.031<!-- / -->

The braces are those of a claim's `finding`: {part}, {part.low}, {part.n}, {part.outcome}, with a format, such as
{part.estimate:.0%}; {status} is whether the claim was declared before it was run. `python -m interp.site.numbers`
fills in every page of docs/ anew; a test looks whether that has been done, and the site is always built with the
present numbers. Words cannot be filled in: a page says which outcomes its sentences rest on, and is refused when one
has changed (spaces as underscores), `status` among them:

    <!-- rests on wen2024/fig6-gsm8k published=supported sentence=refuted status=confirmatory -->
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from interp.core.judgement import filled
from interp.core.ledger import Record
from interp.core.protocol import RESULTS
from interp.core.published import read_published

NUMBER = re.compile(r"<!-- (?P<claim>[a-z]+\d{4}/[a-z0-9.-]+) (?P<template>\{.*?\}) -->.*?<!-- / -->", re.DOTALL)

RESTS = re.compile(r"<!-- rests on (?P<claim>\S+) (?P<outcomes>[a-z0-9_= ]+) -->\n?")


def with_numbers(text: str, results: Path = RESULTS) -> str:
    """`text` with every marked number as it is published now; an unknown claim or part is a ValueError."""
    record = cache(lambda claim: read_published(claim, results).record)
    for match in RESTS.finditer(text):
        judged = record(match["claim"])
        found = {v.key: v.outcome.replace(" ", "_") for v in judged.judgement.verdicts} | {"status": judged.status}
        for key, outcome in (pair.split("=") for pair in match["outcomes"].split()):
            if found.get(key) != outcome:
                raise ValueError(
                    f"a page rests on {match['claim']}, {key} being {outcome}; it is {found.get(key)}: "
                    "write its sentences anew"
                )
    return NUMBER.sub(_filling(record), text)


def without_marks(text: str) -> str:
    """`text` without the comments around its numbers."""
    return re.sub(r"<!-- (?:[a-z]+\d{4}/[a-z0-9.-]+ \{.*?\}|/) -->", "", RESTS.sub("", text))


def _filling(record: Callable[[str], Record]) -> Callable[[re.Match[str]], str]:
    def fill(match: re.Match[str]) -> str:
        claim, template = match["claim"], match["template"]
        found = record(claim)
        text = found.status if template == "{status}" else filled(template, found.judgement.verdicts)
        return f"<!-- {claim} {template} -->{text}<!-- / -->"

    return fill


def main(docs: Path = Path("docs"), results: Path = RESULTS) -> list[Path]:
    """Fills in the pages below `docs`; returns those that have changed."""
    changed = []
    for page in sorted(docs.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (fresh := with_numbers(text, results)) != text:
            page.write_text(fresh, encoding="utf-8", newline="\n")
            changed.append(page)
    return changed


if __name__ == "__main__":
    for page in main():
        print(f"{page}: numbers filled in")
