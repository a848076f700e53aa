"""Pictures of the site and of the report, by the Chromium of the tests. After `make docs`:

python docs/site/screenshots.py            pages of the site at two widths, into artifacts/
python docs/site/screenshots.py --images   docs/images instead: a report of all published claims (a minute), and the
                                           one that Start makes (another); names after --images choose some

A picture in docs/images carries what it shows, conclusions or a command, and a hash of the report's layout; a test
fails when `results/`, the page that shows it or the layout says something else.
"""

import argparse
import hashlib
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, sync_playwright

from interp.cli import main as cotlens
from interp.core.published import all_published, read_published
from interp.report import write_report
from interp.site.printed import ARGUMENTS, CHROMIUM

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PAGES = ("index", "start", "note", "reference/api/probes", "claims/wen2024/fig6-gsm8k/index")
WIDTHS = (1280, 400)
IMAGES = ROOT / "docs" / "images"
CLAIM = "wen2024/fig6-gsm8k"
MEASURED = "cotlens entropy --model builtin --limit 4 --conditions cot_clean no_cot prose_clean --out runs/own"
"""What Start (docs/start.md) measures and makes a report of."""
SHOWS = "Shows"
"""Where a picture keeps what it shows: a text of the PNG file."""


def shown() -> dict[str, str]:
    """By picture: what one could read off it, from what is published now, and the report's layout."""
    judgement = read_published(CLAIM, RESULTS).record.judgement
    records = [one.record for one in all_published(RESULTS)]
    conclusions = "\n".join(f"{one.claim}: {one.judgement.conclusion}, {one.status}" for one in records)
    texts = {"report.png": conclusions, "claim.png": judgement.finding, "explorer.png": MEASURED}
    return {name: f"{text}\nlayout {layout()}" for name, text in texts.items()}


def layout() -> str:
    """A hash of the templates, styles and scripts of the report."""
    assets = sorted((ROOT / "interp" / "report" / "assets").iterdir())
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in assets)).hexdigest()[:12]


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


def take_images(browser: Browser, names: Sequence[str]) -> None:
    """The pictures of Start and of the README; all of them if none is named."""
    fragments = {"report.png": "", "claim.png": f"#claim-{CLAIM.replace('/', '-')}", "explorer.png": "#pretrained"}
    shows = shown()
    with tempfile.TemporaryDirectory() as work:
        for name in names or fragments:
            report = Path(work) / f"{'own' if name == 'explorer.png' else 'all'}.html"
            if not report.exists():
                write_report([_measured(Path(work)) if name == "explorer.png" else RESULTS], report, RESULTS)
            picture(browser, report, IMAGES / name, 1280, fragments[name], ready="html[data-ready]")
            keep(IMAGES / name, shows[name])


def _measured(work: Path) -> Path:
    """The run of `MEASURED`, below `work`."""
    words = shlex.split(MEASURED)[1:]
    out = work / words[-1]
    if cotlens([*words[:-1], str(out)]) != 0:
        raise SystemExit(f"{MEASURED} failed")
    return out


def main() -> None:
    """Takes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", nargs="*", metavar="NAME", choices=list(shown()), help="make docs/images anew")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        if options.images is None:
            take_pages(browser)
        else:
            take_images(browser, options.images)
        browser.close()


if __name__ == "__main__":
    main()
