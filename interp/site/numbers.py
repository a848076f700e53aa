"""Are the numbers in hand-written pages those of `results/`? Each stands between two comments that say which it is.

    <!-- wen2024/fig6-gsm8k {published.estimate:.3f} -->-0.031<!-- / -->

The braces are those of a claim's `finding`: {part}, {part.low}, {part.n}, {part.outcome}, with a format, such as
{part.estimate:.0%}; {status} is whether the claim was declared before it was run. `python -m interp.site.numbers`
fills in every page of docs/ anew; a test looks whether that has been done, and the site is always built with the
present numbers. Words cannot be filled in: a page says which outcomes its sentences rest on, and is refused when one
has changed (spaces as underscores), `status` among them:

    <!-- rests on wen2024/fig6-gsm8k published=supported sentence=refuted status=confirmatory -->

What published runs took, in hours of work over all processes, is filled in from their provenance; claims are named by
patterns, of which those after `but` are left out:

    <!-- hours of wen2024/* but wen2024/fig6* -->12.3<!-- / -->
"""

import re
from collections.abc import Callable
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from interp.core.judgement import filled
from interp.core.ledger import Record
from interp.core.protocol import RESULTS
from interp.core.published import read_published
from probes.base.atomic import read_json

NUMBER = re.compile(r"<!-- (?P<claim>[a-z]+\d{4}/[a-z0-9.-]+) (?P<template>\{.*?\}) -->.*?<!-- / -->", re.DOTALL)

HOURS = re.compile(
    r"<!-- hours of (?P<chosen>[a-z0-9/.* -]+?)(?: but (?P<left>[a-z0-9/.* -]+?))? -->.*?<!-- / -->", re.DOTALL
)

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
    text = NUMBER.sub(_filling(record), text)
    return HOURS.sub(lambda match: _with_hours(match, results), text)


def hours_of(chosen: str, left_out: str, results: Path = RESULTS) -> float:
    """Hours of work that the published claims of these patterns took, as their provenance records."""
    seconds = {
        file.parent.relative_to(results).as_posix(): read_json(file).get("seconds") or {}
        for file in sorted(results.glob("*/*/provenance.json"))
    }
    named = lambda claim, patterns: any(fnmatch(claim, pattern) for pattern in patterns.split())  # noqa: E731
    found = [claim for claim in seconds if named(claim, chosen) and not named(claim, left_out)]
    if not found:
        raise ValueError(f"no published claim is named by {chosen!r}")
    return sum(sum(seconds[claim].values()) for claim in found) / 3600


def without_marks(text: str) -> str:
    """`text` without the comments around its numbers."""
    return re.sub(r"<!-- (?:[a-z]+\d{4}/[a-z0-9.-]+ \{.*?\}|hours of [^>]*?|/) -->", "", RESTS.sub("", text))


def _with_hours(match: re.Match[str], results: Path) -> str:
    opening = match[0][: match[0].index("-->") + 3]
    return f"{opening}{hours_of(match['chosen'], match['left'] or '', results):.1f}<!-- / -->"


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
