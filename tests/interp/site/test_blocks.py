"""Does every code block of the documentation run? Python is executed, page by page; commands are read by their parser,
and those that take no model are run too."""

import importlib
import linecache
from functools import cache
from pathlib import Path

import pytest

import hf_analysis
from hf_analysis.models import loading
from interp.cli import COMMANDS, main
from tests.interp.site.pages import KINDS, PAGES, ROOT, blocks, commands

TINY = [
    "--n", "8", "--k", "2", "--d-model", "16", "--budget", "512", "--eval-every", "256", "--batch-size", "64",
    "--n-validation", "16", "--n-test", "16",
]  # fmt: skip
RUN = ("--version", "doctor", "claims list", "claims show", "claims judge")
"""Commands that are run as they stand; `claims judge all` is what tests/test_results.py does."""
PYTHON = [page for page in PAGES if any(block.kind == "python" for block in blocks(page))]
COMMANDED = [(page, line, words) for page in PAGES for line, words in commands(page)]
name = lambda page: str(page.relative_to(ROOT))  # noqa: E731


class Read(Exception):
    """The parser has accepted a command, and nothing else is to happen."""


@pytest.fixture(scope="module")
def built_in_once():
    """The built-in model is loaded once for all pages; it is the model itself."""
    with pytest.MonkeyPatch.context() as patch:
        once = cache(loading.load_model)
        patch.setattr(hf_analysis, "load_model", once)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run as the pages make it, but tiny."""
    out = tmp_path_factory.mktemp("runs") / "cot"
    assert main(["train", "parity", *TINY, "--out", str(out)]) == 0
    return out


@pytest.fixture
def desk(tmp_path, monkeypatch, trained) -> Path:
    """An empty directory with the results beside it and the run that the pages train."""
    (tmp_path / "results").symlink_to(ROOT / "results")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "cot").symlink_to(trained)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def registries():
    """What a page registers is forgotten afterwards."""
    from hf_analysis.text.conditions import CONDITIONS
    from interp.core.claim import load_claims
    from probes.attention.statistics import load_statistics

    before = [(known, dict(known)) for known in (CONDITIONS, load_claims(), load_statistics())]
    yield
    for known, earlier in before:
        known.clear()
        known.update(earlier)


def test_blocks_are_found_and_of_a_known_kind():
    found = [(page, block) for page in PAGES for block in blocks(page)]
    assert len(PYTHON) > 10
    assert len(COMMANDED) > 40
    assert {block.kind for _, block in found} <= KINDS


@pytest.mark.parametrize("page", PYTHON, ids=name)
@pytest.mark.usefixtures("built_in_once", "registries")
def test_the_python_of_a_page_runs(page, desk, capsys):
    shared = {"__name__": "__page__"}
    for block in blocks(page):
        if block.kind == "python":
            place = f"{name(page)}:{block.line}"
            linecache.cache[place] = (len(block.code), None, block.code.splitlines(keepends=True), place)
            exec(compile(block.code, place, "exec"), shared)
    capsys.readouterr()


@pytest.mark.parametrize(("page", "line", "words"), COMMANDED, ids=lambda value: str(value)[-60:])
def test_a_command_is_understood(page, line, words, desk, monkeypatch, capsys):
    if " ".join(words[:2]).startswith(RUN) and "all" not in words:
        assert main([*words, *(["--offline"] if words[0] == "doctor" else [])]) == 0
        return
    assert words[0] in COMMANDS, f"{name(page)}, line {line}"
    module = importlib.import_module(f"interp.commands.{words[0]}")
    parse = module.parse

    def read(*arguments):
        parse(*arguments)
        raise Read

    monkeypatch.setattr(module, "parse", read)
    with pytest.raises(Read):
        module.main(words[1:])
    capsys.readouterr()
