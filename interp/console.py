"""What is shown while work goes on? A bar with an ETA on a terminal, plain lines otherwise."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

PLAIN_SECONDS = 5.0
"""Between two lines when the output is not a terminal."""

MINUTE, HOUR, DAY = 60, 3600, 86400

Update = Callable[[int, str], None]
"""(done so far, what to say about it)"""


def span(seconds: float) -> str:
    """A time in the unit that one would say it in."""
    for unit, name in ((365 * DAY, "years"), (2 * DAY, "days"), (2 * HOUR, "hours"), (2 * MINUTE, "minutes")):
        if seconds >= unit:
            size = {"days": DAY, "hours": HOUR, "minutes": MINUTE}.get(name, unit)
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:.0f} seconds"


@contextmanager
def progress(
    title: str, total: int, unit: str, console: Console | None = None, *, patient: bool = False, until: str = ""
) -> Iterator[Update]:
    """Yields the function to call with the work done so far; if `patient`, plain lines are of long work only.

    `until` says what the total is, and behind a semicolon what may come before it, which is told once: "the budget;
    stops when perfect".
    """
    console = console or Console()
    if console.is_terminal:
        with _bar(title, total, console) as update:
            yield update
        return
    started, shown = time.monotonic(), 0.0 if patient else -PLAIN_SECONDS

    def line(done: int, text: str) -> None:
        nonlocal shown, until
        now = time.monotonic()
        if now - started - shown < PLAIN_SECONDS and (done < total or shown == 0):
            return
        shown = now - started
        left = ""
        if 0 < done < total:
            left = f", at most {span(shown / done * (total - done))} {f'until {until}' if until else 'left'}"
            until = until.partition(";")[0]
        print(f"{title}: {done:,} of {total:,} {unit}, {text}{left}", flush=True)

    yield line


@contextmanager
def _bar(title: str, total: int, console: Console) -> Iterator[Update]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total, text="")
        yield lambda done, text: bar.update(task, completed=done, text=text)
