"""Pictures of the site and of the report, by the Chromium of the tests. After `make docs`:

python docs/site/screenshots.py            pages of the site at two widths, into artifacts/
python docs/site/screenshots.py --images   docs/images instead, from a report of all published claims (a minute)

A picture in docs/images carries the conclusions that it shows; a test fails when `results/` says something else.
"""

import argparse
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, sync_playwright

from interp.core.published import all_published, read_published
from interp.report import write_report
from interp.report.ledger_pages import paper_lines
from interp.site.printed import ARGUMENTS, CHROMIUM

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PAGES = ("index", "start", "note", "reference/api/probes", "claims/wen2024/fig6-gsm8k/index")
WIDTHS = (1280, 400)
IMAGES = ROOT / "docs" / "images"
CLAIM = "wen2024/fig6-gsm8k"
SHOWS = "Shows"
"""Where a picture keeps what it shows: a text of the PNG file."""


def shown() -> dict[str, str]:
    """By picture: what one could read off it, from what is published now."""
    judgement = read_published(CLAIM, RESULTS).record.judgement
    return {"report.png": paper_lines(list(all_published(RESULTS))), "claim.png": judgement.finding}


def kept(image: Path) -> str | None:
    """What the picture showed when it was taken."""
    with Image.open(image) as opened:
        return opened.info.get(SHOWS)


def keep(image: Path, shows: str) -> None:
    """Writes into the picture what it shows."""
    with Image.open(image) as opened:
        opened.load()
        about = PngInfo()
        about.add_text(SHOWS, shows)
        opened.save(image, pnginfo=about, optimize=True)


def picture(browser: Browser, page: Path, out: Path, width: int, fragment: str = "", ready: str = "body") -> None:
    """One page at one width, once it has `ready`; says if it is wider than the screen."""
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(600_000)  # a busy machine is no failure
    tab = context.new_page()
    tab.goto(page.as_uri() + fragment)
    tab.wait_for_selector(ready)
    tab.wait_for_timeout(500)
    needed = tab.evaluate("document.documentElement.scrollWidth")
    tab.screenshot(path=out)
    context.close()
    print(f"{out.relative_to(ROOT)}: {'wider than the screen: ' + str(needed) if needed > width else 'fits'}")


def take_pages(browser: Browser) -> None:
    """Every page at every width, to be looked at."""
    out = ROOT / "artifacts"
    out.mkdir(exist_ok=True)
    for page in PAGES:
        for width in WIDTHS:
            picture(
                browser, ROOT / "site" / f"{page}.html", out / f"site-{page.replace('/', '-')}-{width}.png", width
            )


def take_images(browser: Browser) -> None:
    """The pictures of Start and of the README."""
    fragments = {"report.png": "", "claim.png": f"#claim-{CLAIM.replace('/', '-')}"}
    shows = shown()
    with tempfile.TemporaryDirectory() as work:
        report = Path(work) / "report.html"
        write_report([RESULTS], report, RESULTS)
        for name, fragment in fragments.items():
            picture(browser, report, IMAGES / name, 1280, fragment, ready="html[data-ready]")
            keep(IMAGES / name, shows[name])


def main() -> None:
    """Takes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", action="store_true", help="make docs/images anew")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        (take_images if options.images else take_pages)(browser)
        browser.close()


if __name__ == "__main__":
    main()
