"""Pictures of the site and of the report, and the note as PDF, by the Chromium of the tests. After `make docs`:

python docs/site/screenshots.py            pages at two widths, into artifacts/, and site/note.pdf
python docs/site/screenshots.py --images   also docs/images, from a report of all published claims (a minute)
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[2]
PAGES = ("index", "start", "note", "reference/api/probes", "claims/wen2024/fig6-gsm8k/index")
WIDTHS = (1280, 400)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def picture(browser: Browser, page: Path, out: Path, width: int, fragment: str = "", height: int = 900) -> None:
    """One page at one width; a page wider than the screen is an error."""
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    tab = context.new_page()
    tab.goto(page.as_uri() + fragment)
    tab.wait_for_load_state("load")
    tab.wait_for_timeout(500)
    needed = tab.evaluate("document.documentElement.scrollWidth")
    tab.screenshot(path=out)
    context.close()
    print(f"{out.relative_to(ROOT)}: {'wider than the screen: ' + str(needed) if needed > width else 'fits'}")


def printed(browser: Browser, page: Path, out: Path) -> None:
    """A page as PDF, as it is printed."""
    tab = browser.new_page()
    tab.goto(page.as_uri())
    tab.pdf(path=out, format="A4", margin={side: "16mm" for side in ("top", "bottom", "left", "right")})
    tab.close()
    print(f"{out.relative_to(ROOT)}")


def published_report(directory: Path) -> Path:
    """The report of everything in results/."""
    from interp.report import write_report

    page = directory / "report.html"
    write_report([ROOT / "results"], page)
    return page


def main() -> None:
    """Takes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", action="store_true", help="also make docs/images anew")
    options = parser.parse_args()
    out = ROOT / "artifacts"
    out.mkdir(exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as work:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for page in PAGES:
            for width in WIDTHS:
                file = ROOT / "site" / f"{page}.html"
                picture(browser, file, out / f"site-{page.replace('/', '-')}-{width}.png", width)
        printed(browser, ROOT / "site" / "note.html", ROOT / "site" / "note.pdf")
        if options.images:
            report = published_report(Path(work))
            picture(browser, report, ROOT / "docs" / "images" / "report.png", 1280)
            picture(browser, report, ROOT / "docs" / "images" / "claim.png", 1280, "#claim-wen2024-fig6-gsm8k")
        browser.close()


if __name__ == "__main__":
    main()
