"""Are the numbers in hand-written pages those of `results/`? Each stands between two comments that say which it is.

    <!-- wen2024/fig6-gsm8k {published.estimate:.3f} -->-0.031<!-- / -->

The braces are those of a claim's `finding`: {part}, {part.low}, {part.n}, {part.outcome}, with a format. A percent sign
is `{part.estimate:.0%}`. `python -m interp.site.numbers` fills in every page of docs/ anew; a test looks whether it has
been done, and the site is always built with the present numbers.
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from interp.core.judgement import filled
from interp.core.protocol import RESULTS
from interp.core.published import read_published

NUMBER = re.compile(r"<!-- (?P<claim>[a-z]+\d{4}/[a-z0-9.-]+) (?P<template>\{.*?\}) -->.*?<!-- / -->", re.DOTALL)


def with_numbers(text: str, results: Path = RESULTS) -> str:
    """`text` with every marked number as it is published now; an unknown claim or part is a ValueError."""
    verdicts = cache(lambda claim: read_published(claim, results).record.judgement.verdicts)
    return NUMBER.sub(_filling(verdicts), text)


def without_marks(text: str) -> str:
    """`text` without the comments around its numbers."""
    return re.sub(r"<!-- (?:[a-z]+\d{4}/[a-z0-9.-]+ \{.*?\}|/) -->", "", text)


def _filling(verdicts: Callable) -> Callable[[re.Match[str]], str]:
    def fill(match: re.Match[str]) -> str:
        claim, template = match["claim"], match["template"]
        return f"<!-- {claim} {template} -->{filled(template, verdicts(claim))}<!-- / -->"

    return fill


def main(docs: Path = Path("docs"), results: Path = RESULTS) -> list[Path]:
    """Fills in the pages below `docs`; returns those that have changed."""
    changed = []
    for page in sorted(docs.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (fresh := with_numbers(text, results)) != text:
            page.write_text(fresh, encoding="utf-8")
            changed.append(page)
    return changed


if __name__ == "__main__":
    for page in main():
        print(f"{page}: numbers filled in")
