"""How does a page of the site become a PDF? The Chromium of this machine prints it; nothing is fetched."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The browser that prints, that the tests drive and that takes the pictures; None where there is none."""
QUIET = ("background-networking", "component-update", "sync", "default-apps", "extensions")
ARGUMENTS = ("--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in QUIET))
"""It opens our own files alone, and asks nobody anything. Root, as in a container, gets no sandbox."""
LONGEST = 600
"""Seconds until a browser that prints nothing is given up."""
INTO_SITE = re.compile(r"""(<a\b[^>]*?) href="(?!https?:|#)[^"]*\"""")
"""A link to another page: in print it would lead into the directories of whoever printed it."""


def print_page(page: Path, out: Path) -> None:
    """Prints `page` as `out`; the style sheet (docs/site.css) says how a sheet looks. One line where it cannot be."""
    if CHROMIUM is None:
        print(f"{out.name} is not made: it needs chromium (on Debian: apt-get install chromium)", file=sys.stderr)
        return
    sheet = page.with_name(f".{page.stem}.printed.html")  # beside it, where its style sheets and pictures are
    sheet.write_text(INTO_SITE.sub(r"\1", page.read_text(encoding="utf-8")), encoding="utf-8")
    try:
        done = _printing(CHROMIUM, sheet, out)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"{CHROMIUM} did not print {page} within {LONGEST} s") from error
    finally:
        sheet.unlink()
    if done.returncode or not out.is_file():
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ValueError(f"{CHROMIUM} did not print {page}: {said}")


def _printing(browser: str, sheet: Path, out: Path) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:  # apart from a browser that is open
        options = (f"--user-data-dir={profile}", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={out}")
        command = [browser, "--headless", *ARGUMENTS, *options, sheet.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
