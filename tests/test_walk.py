"""Can somebody who has never seen this house type what the pages say, in their order, and see it work?

Every block of the first pages a newcomer reads is run as it stands, with the sizes it shows: Python in one session
for each page, commands by the command line itself. What a page shows as output must have been printed, but for its
digits. What needs the hub or hours is left out by name.
"""

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interp.cli import main
from tests.interp.site.pages import ROOT, SHELL, blocks

WALKED = ("start", "how/own-model", "how/own-data", "how/one-figure")
NOT_HERE = ("Qwen/", "openai/", "--preset cpu")
"""Parts of commands that fetch from the hub, or take long; tests/test_documentation.py has them parsed."""
OF_THE_SHELL = ("make", "source")
"""What installs, which has happened where this runs."""
pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    """The top of a checkout without runs, and the checkpoints that a reader of `own-model` has."""
    from hf_analysis import load_model
    from hf_analysis.models.builtin import builtin_gguf
    from hf_analysis.models.loading import tiny_twin

    (tmp_path / "results").symlink_to(ROOT / "results")
    (tmp_path / "model.Q4_K_M.gguf").symlink_to(builtin_gguf())
    builtin = load_model("builtin")
    for seed, name in enumerate(("my-checkpoint", "tuned", "base")):
        tiny = tiny_twin(builtin, seed=seed)
        tiny.model.save_pretrained(tmp_path / name)
        tiny.tokenizer.save_pretrained(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(page: Path) -> Iterator[tuple[str, str]]:
    """What a reader types: whole blocks of Python, single lines of the shell; and what they are shown to print."""
    for block in blocks(page):
        if block.kind in ("python", "text"):
            yield block.kind, block.code
        elif block.kind in SHELL:
            yield from (("shell", line) for line in block.code.splitlines() if line.strip())


def without_digits(text: str) -> str:
    """Other machines find other numbers, of other widths."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*", "#", text))


@pytest.mark.parametrize("name", WALKED)
def test_a_page_can_be_followed_to_its_end(name, desk, capsys):
    from hf_analysis.text.conditions import CONDITIONS

    known, session, seconds, printed = dict(CONDITIONS), {"__name__": "__main__"}, {}, ""
    for kind, text in typed(ROOT / "docs" / f"{name}.md"):
        begun = time.perf_counter()
        if kind == "text":
            for line in filter(str.strip, text.splitlines()):
                assert without_digits(line).strip() in without_digits(printed), f"{line!r} was not printed"
            continue
        if kind == "python":
            exec(compile(text, name, "exec"), session)
        elif any(part in text for part in NOT_HERE) or text.split()[0] in OF_THE_SHELL:
            continue
        else:
            follow(text)
        printed += capsys.readouterr().out
        seconds[text.splitlines()[0][:90]] = time.perf_counter() - begun
    CONDITIONS.clear()
    CONDITIONS.update(known)
    with capsys.disabled():
        print(f"\n{name}: {sum(seconds.values()):.0f} s")
        print(*(f"{took:7.1f}  {what}" for what, took in seconds.items()), sep="\n")


def follow(line: str) -> None:
    """Runs one line of a shell block; what it is to write is there afterwards."""
    program, *words = shlex.split(line, comments=True)
    assert program == "cotlens", line
    assert main([*words, *(["--offline"] if words[0] == "doctor" else [])]) == 0, line
    if "--out" in words:
        assert Path(words[words.index("--out") + 1]).exists(), line
