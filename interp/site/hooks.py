"""How is the site built? MkDocs calls these while `make docs` runs, from the top of the repository."""

import re
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from interp.site import claims, reference
from interp.site.numbers import with_numbers, without_marks
from interp.site.printed import CHROMIUM, print_page

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
COPIED = {"changes.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages of the site that are files of the repository's top."""
IN_REPOSITORY = {**reference.MADE_FROM, "claims/index.md": "results/README.md"}
"""Pages that are made, and the files that stand for them in the repository: links there work in both places."""
NOTE = "note"
"""The page that is also printed, as PDF."""
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=\))")


def on_config(config: Any) -> Any:
    """Enters the sections whose pages are made, or come with a paper."""
    statements = sorted((ROOT / "docs" / "statements").glob("*.md"))
    made = {
        "Claims": claims.navigation(RESULTS),
        "API": reference.navigation(),
        "Papers by statement": [{file.stem: f"statements/{file.name}"} for file in statements],
    }
    sections = [*config.nav, *(entry for section in config.nav for entry in next(iter(section.values())))]
    for section in sections:
        if isinstance(section, dict):
            section.update({name: made[name] for name in section if name in made})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages and figures that are made, and what stands at the top of the repository."""
    pages = claims.claim_pages(RESULTS) | reference.reference_pages()
    pages |= {page: (ROOT / name).read_text(encoding="utf-8") for page, name in COPIED.items()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    for path, file in claims.figure_files(RESULTS).items():
        files.append(File.generated(config, path, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Present numbers, and links into the repository as links within the site."""
    text = without_marks(with_numbers(markdown, RESULTS))
    return LINK.sub(lambda match: within_site(match["target"], page.file.src_uri) + (match["anchor"] or ""), text)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """The note says where its PDF is, if there will be one."""
    if page.file.src_uri != f"{NOTE}.md" or CHROMIUM is None:
        return html
    return html.replace("</h1>", f'</h1>\n<p class="as-pdf"><a href="{NOTE}.pdf">as PDF</a></p>', 1)


def on_post_build(config: Any) -> None:
    """Prints the note."""
    site = Path(config.site_dir)
    print_page(site / f"{NOTE}.html", site / f"{NOTE}.pdf")


def within_site(target: str, page: str) -> str:
    """A link of the page at docs/`page` to a file of the repository, as a link within the site."""
    copied = {f"../{name}": path for path, name in (COPIED | IN_REPOSITORY).items()}
    here = normpath(f"{page}/..")
    place = normpath(f"{here}/{target}")
    if place in copied:
        place = copied[place]
    elif place.startswith("docs/"):
        place = place.removeprefix("docs/")
    elif (found := re.fullmatch(r"(?:\.\./)?results/(.+?)(/README\.md)?/?", place)) and "." not in found[1][-4:]:
        place = f"claims/{found[1]}/index.md"
    elif found := re.fullmatch(r"\.\./results/(.+/figures/.+)", place):
        place = f"claims/{found[1]}"
    else:
        return target
    return relpath(place, here)
