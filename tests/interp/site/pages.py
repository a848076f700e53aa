"""Which code stands on the hand-written pages, and how is it run?"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
PUBLISHED = sorted((ROOT / "results").rglob("README.md"))
"""Pages that were made, each with the command that runs its claim again."""
FENCE = re.compile(r"^```(?P<kind>\w*)[^\n]*\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL = ("", "sh", "bash")
KINDS = {*SHELL, "python", "toml", "text"}


@dataclass(frozen=True)
class Block:
    """Code between two fences."""

    kind: str
    code: str
    line: int
    """Where the code begins in its page."""


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [Block(m["kind"], m["code"], text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]


def commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    """The arguments of every `cotlens` in the shell blocks of a page, with its line; continued lines are joined."""
    for block in blocks(page):
        if block.kind not in SHELL:
            continue
        joined = re.sub(r"\\\n", " ", block.code)
        for number, line in enumerate(joined.splitlines()):
            if found := re.search(r"(?:^|[\s/;])cotlens\s(?!\s)(?P<rest>.*)", line):
                yield block.line + number, shlex.split(found["rest"], comments=True)
