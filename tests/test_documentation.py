"""Does what the documentation shows run, and does the site build? One process shares imports and the model.

Python blocks are executed, page by page; commands are read by their parser, and those that take no model are run too;
examples are run; the site is built strictly, without the network.
"""

import importlib
import linecache
import logging
import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

import hf_analysis
import toy_models
from hf_analysis.models import loading
from interp.cli import COMMANDS, main
from interp.site import printed
from tests.interp.report.browsing import needs_chromium
from tests.interp.site.pages import FENCE, KINDS, PAGES, PUBLISHED, ROOT, SHELL, blocks, commands

TINY = [
    "--n", "8", "--k", "2", "--d-model", "16", "--budget", "512", "--eval-every", "256", "--batch-size", "64",
    "--n-validation", "16", "--n-test", "16",
]  # fmt: skip
RUN = ("--version", "doctor", "claims list", "claims show", "claims judge")
"""Commands that are run as they stand; `claims judge all` is what tests/test_results.py does."""
PYTHON = [page for page in PAGES if any(block.kind == "python" for block in blocks(page))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONGEST = 40
"""Lines that an example stays below."""
WIDEST = 110
"""Letters of a line of code that fit beside both columns of the site (docs/site.css)."""
COMMANDED = {tuple(words): (page, line) for page in (*PAGES, *PUBLISHED) for line, words in commands(page)}
"""Every command once, with the last place where it stands."""
READERS = ("polars", "duckdb")
"""Which a page shows and CoTLens does not need; `make` installs them for the tests."""
TARGET = re.compile(r"\]\(([^)\s]+)\)")
"""Where a link or a picture of Markdown leads."""
name = lambda page: str(page.relative_to(ROOT))  # noqa: E731


def numbers(line: str) -> list[float]:
    """The numbers with a decimal point in a line, in order."""
    return list(map(float, re.findall(r"\d+\.\d+", line)))


def train_and_look_inside(said: list[str]) -> None:
    """All answers are right, and each step attends to its secret bit."""
    first, *steps = said
    assert numbers(first) == [1]
    assert len(steps) == 2
    assert all(secret > 3 * uniform for secret, uniform in map(numbers, steps))


def hooks_and_knockout(said: list[str]) -> None:
    """Without the keys that they need steps are guessed; without others they are not."""
    intact, needed, others = map(numbers, said)
    assert intact == [1, 1]
    assert max(needed) < 0.65
    assert min(others) > 0.85


def linear_probe(said: list[str]) -> None:
    """The parity is decodable behind the attention, beyond what the control task and an untrained model are."""
    before, *behind = (numbers(line.partition(": ")[2]) for line in said)
    assert before[0] < 0.6
    assert all(
        min(accuracy - control, accuracy - untrained) > 0.15 for accuracy, _, _, control, untrained, _ in behind
    )


TOLD = (train_and_look_inside, hooks_and_knockout, linear_probe)
"""What the examples with a toy model are to show, by the names of their files."""


class Read(Exception):
    """The parser has accepted a command, and nothing else is to happen."""


@pytest.fixture(scope="module", autouse=True)
def built_in_once():
    """The built-in model is loaded once for all pages and examples; it is the model itself."""
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


def not_ignored(names: list[str]) -> list[str]:
    """Those of `names` that git would list as untracked at the top of the repository; none where there is no git."""
    if not (ROOT / ".git").exists() or not names:
        return []
    asked = ["git", "check-ignore", "--no-index", *(f"{name}/" for name in names), *names]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    return [name for name in names if not {name, f"{name}/"} & set(said)]


def test_what_commands_of_the_pages_write_is_not_untracked():
    outs = {
        words[at + 1].split("/")[0]
        for page in PAGES
        for _, words in commands(page)
        for at, word in enumerate(words[:-1])
        if word == "--out" and not words[at + 1].startswith("/")
    }
    assert {"runs", "report.html"} <= outs
    assert not_ignored(sorted(outs)) == []
    if (ROOT / ".git").exists():
        assert not_ignored(["something-else"]) == ["something-else"]


def test_blocks_are_found_and_of_a_known_kind():
    found = [(page, block) for page in PAGES for block in blocks(page)]
    assert len(PYTHON) > 10
    assert len(COMMANDED) > 30
    assert {block.kind for _, block in found} <= KINDS


def test_no_line_of_code_is_wider_than_the_site():
    wide = [
        f"{name(page)}:{block.line + number}"
        for page in PAGES
        if page.is_relative_to(ROOT / "docs")
        for block in blocks(page)
        if block.kind != "text"
        for number, line in enumerate(block.code.splitlines())
        if len(line) > WIDEST
    ]
    assert wide == []


def test_every_link_in_the_repository_leads_to_something_tracked():
    """On the site, links to what it makes pages of are turned to those (interp/site/hooks.py)."""
    if not (ROOT / ".git").exists():
        pytest.skip("what is tracked is known to git alone")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {ROOT / line for line in listed.stdout.splitlines()}
    tracked = files.union(*(file.parents for file in files))
    pages = [file for file in files if file.suffix == ".md" and file.is_file()]
    assert {ROOT / "README.md", ROOT / "docs" / "reference" / "index.md", ROOT / "examples" / "README.md"} < {*pages}
    links = [
        (page, target)
        for page in pages
        for target in TARGET.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
        if not re.match(r"[a-z]+:|#", target)
    ]
    assert len(links) > 200
    dead = [
        f"{name(page)}: {target}"
        for page, target in links
        if Path(os.path.normpath(page.parent / unquote(target.split("#")[0]))) not in tracked
    ]
    assert dead == []


def test_every_made_page_of_reference_has_a_module_that_stands_for_it_in_the_repository():
    from interp.site.hooks import IN_REPOSITORY, within_site
    from interp.site.reference import MADE_FROM, reference_pages

    assert set(MADE_FROM) == set(reference_pages())
    for page, file in IN_REPOSITORY.items():
        assert within_site(f"../../{file}", "how/index.md") == f"../{page}"


def test_make_is_asked_for_what_it_makes():
    targets = set(re.findall(r"(?m)^([\w./-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))
    lines = [
        line for page in PAGES for block in blocks(page) if block.kind in SHELL for line in block.code.splitlines()
    ]
    inline = [line for page in PAGES for line in re.findall(r"`(make [^`]+)`", page.read_text(encoding="utf-8"))]
    asked = {
        word
        for line in (*lines, *inline)
        if line.startswith("make ")
        for word in line.split("#")[0].split()[1:]
        if "=" not in word
    }
    assert len(asked) > 5
    assert asked <= targets


def test_inline_commands_name_what_there_is():
    """Those with dots or capitals in place of names are not whole; their commands and options must still exist."""
    from interp.site.reference import help_of

    inline = {line for page in PAGES for line in re.findall(r"`cotlens ([^`]+)`", page.read_text(encoding="utf-8"))}
    assert len(inline) > 15
    for words in (line.split() for line in sorted(inline)):
        assert words[0] in COMMANDS, words
        options = {word for word in words if word.startswith("--")} - {"--help"}
        if options:
            known = help_of(*(words[:2] if words[0] in ("claims", "bench") else words[:1]))
            assert all(re.search(rf"(?m){option}(?![\w-])", known) for option in options), words


@pytest.mark.parametrize("page", PYTHON, ids=name)
@pytest.mark.usefixtures("registries")
def test_the_python_of_a_page_runs(page, desk, capsys):
    shared = {"__name__": "__page__"}
    missing = [reader for reader in READERS if find_spec(reader) is None]
    left_out = []
    for block in blocks(page):
        absent = [reader for reader in missing if f"import {reader}" in block.code]
        left_out += absent
        if block.kind == "python" and not absent:
            place = f"{name(page)}:{block.line}"
            linecache.cache[place] = (len(block.code), None, block.code.splitlines(keepends=True), place)
            exec(compile(block.code, place, "exec"), shared)
    capsys.readouterr()
    written = sorted(path.name for path in desk.iterdir() if not path.is_symlink())
    assert not_ignored(written) == []
    if left_out:
        pytest.skip(f"the rest has run; not installed: {', '.join(left_out)}")


@pytest.mark.parametrize("words", COMMANDED, ids=lambda words: " ".join(words)[:60])
def test_a_command_is_understood(words, desk, monkeypatch, capsys):
    if " ".join(words[:2]).startswith(RUN) and "all" not in words:
        assert main([*words, *(["--offline"] if words[0] == "doctor" else [])]) == 0
        return
    assert words[0] in COMMANDS, COMMANDED[words]
    module = importlib.import_module(f"interp.commands.{words[0]}")
    parse = module.parse

    def read(*arguments):
        parse(*arguments)
        raise Read

    monkeypatch.setattr(module, "parse", read)
    with pytest.raises(Read):
        module.main(words[1:])
    capsys.readouterr()


def test_there_are_ten_examples_and_all_are_in_the_list():
    assert len(EXAMPLES) == 10
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{path.name}`" in listed for path in EXAMPLES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.usefixtures("registries")
def test_an_example_runs_and_says_something(path, capsys):
    assert len(path.read_text(encoding="utf-8").splitlines()) < LONGEST
    runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert said.strip()
    assert " ... " not in said, "pandas has left out columns that it is about"


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.__name__)
def test_the_toy_models_of_the_examples_have_learned_what_is_shown_of_them(told, seed, monkeypatch, capsys):
    from toy_models import train

    seeded = lambda task, model, config: train(task, model, replace(config, seed=seed))  # noqa: E731
    monkeypatch.setattr(toy_models, "train", seeded)
    (path,) = (path for path in EXAMPLES if path.stem[3:] == told.__name__)
    runpy.run_path(str(path), run_name="__main__")
    told(capsys.readouterr().out.splitlines())


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` builds it; a warning of MkDocs fails."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    out = tmp_path_factory.mktemp("site")
    warnings = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())
    logger = logging.getLogger("mkdocs")
    logger.addHandler(handler)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(ROOT)
            patch.setenv("NO_MKDOCS_2_WARNING", "1")
            config = load_config(str(ROOT / "docs" / "site" / "mkdocs.yml"), site_dir=str(out), strict=True)
            config.plugins.on_startup(command="build", dirty=False)
            build(config)
            config.plugins.on_shutdown()
    finally:
        logger.removeHandler(handler)
    assert warnings == []
    return out


@pytest.mark.slow
def test_the_site_has_a_page_for_every_claim_and_paper(site):
    from interp.core.claim import load_claims
    from interp.report.ledger_pages import MARKS

    for claim in load_claims().values():
        text = (site / "claims" / claim.id / "index.html").read_text(encoding="utf-8")
        assert claim.id in text
        assert not any(emoji in text for emoji in MARKS.values()), "not every font has them"
        assert (site / "claims" / claim.paper / "index.html").is_file()


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere_and_every_local_link_leads_somewhere(site):
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]+src=[\"']?(https?:)?//|<link[^>]+href=[\"']?(?:https?:)?//"
    )
    targets = re.compile(r"(?:href|src)=\"?([^\"\s>#?]+)")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not loads.search(text), page
        if page.name == "404.html":  # its links are those of a server's root
            continue
        for target in set(targets.findall(text)):
            if not re.match(r"[a-z]+:|//", target):
                assert (page.parent / unquote(target)).exists(), f"{page.relative_to(site)} links to {target}"


@pytest.mark.slow
@needs_chromium
def test_the_note_is_printed_and_begins_with_its_limits(site):
    sheets = (site / "note.pdf").read_bytes()
    assert sheets.startswith(b"%PDF")
    assert b"file:" not in sheets, "a link into somebody's directories"
    assert 4 <= len(re.findall(rb"/Type /Page\b", sheets)) <= 6
    assert 'href="note.pdf"' in (site / "note.html").read_text(encoding="utf-8")
    headings = re.findall(r"(?m)^## (.+)$", (ROOT / "docs" / "note.md").read_text(encoding="utf-8"))
    assert headings[0] == "Limits, first"


@pytest.mark.slow
@needs_chromium
def test_on_a_telephone_no_page_scrolls_sideways_and_findings_have_room(site):
    """A table may scroll within itself; what was found must be readable without."""
    from playwright.sync_api import sync_playwright

    pages = [
        site / f"{name}.html" for name in ("index", "start", "note", "faults", "how/own-model", "reference/hooks")
    ]
    told = [*site.glob("claims/*/index.html"), *sorted(site.glob("claims/wen2024/*/index.html"))[:5]]
    narrowest = """() => Math.min(...[...document.querySelectorAll('article td')]
        .filter(cell => cell.innerText.length > 120).map(cell => cell.clientWidth))"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=printed.CHROMIUM, args=printed.ARGUMENTS, timeout=300_000
        )
        context = browser.new_context(viewport={"width": 400, "height": 900})
        context.set_default_timeout(120_000)
        tab = context.new_page()
        for page in (*pages, *told):
            tab.goto(page.as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") <= 400, page
            if page in told:
                assert tab.evaluate(narrowest) > 250, page
        browser.close()


def test_without_a_browser_the_build_says_so_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(printed, "CHROMIUM", None)
    printed.print_page(tmp_path / "note.html", tmp_path / "note.pdf")
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "note.pdf is not made: it needs chromium" in said


def test_a_browser_that_fails_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(printed, "CHROMIUM", sys.executable)  # it knows no such options
    (tmp_path / "note.html").touch()
    with pytest.raises(ValueError, match="did not print"):
        printed.print_page(tmp_path / "note.html", tmp_path / "note.pdf")


def test_pictures_show_what_is_published():
    screenshots = runpy.run_path(str(ROOT / "docs" / "site" / "screenshots.py"))
    for name, now in screenshots["shown"]().items():
        then = screenshots["kept"](screenshots["IMAGES"] / name)
        assert then == now, f"docs/images/{name} is out of date: python docs/site/screenshots.py --images"
    start = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    assert screenshots["MEASURED"] in start.splitlines(), "explorer.png shows what Start measures"


@pytest.mark.slow
def test_what_is_made_from_the_code_names_all_of_it(site):
    from probes.rows import COLUMNS

    pages = {
        name: (site / "reference" / f"{name}.html").read_text(encoding="utf-8") for name in ("cli", "rows", "hooks")
    }
    assert all(f"cotlens {name}" in pages["cli"] for name in COMMANDS)
    assert pages["cli"].count("usage: cotlens claims ") == 1 + 7  # its own, and those of its seven subcommands
    assert all(f"<code>{name}</code>" in pages["rows"] for name in COLUMNS)
    assert pages["hooks"].count("blocks.0.attn.hook_pattern") >= 6
    api = (site / "reference" / "api" / "probes.html").read_text(encoding="utf-8")
    assert "row_entropy" in api
    assert "normalised_entropy" in api
