"""What does transformers say of weights that do not fit? Kept for the one line of a refusal, instead of printed.

Its loader logs a table of every weight that is missing or of another shape, and then only refers to "the above
report".
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

TABLE = "LOAD REPORT"
"""In the first line of such a table."""
_SIZE = r"torch\.Size\((.+?)\)"
_MISMATCH = re.compile(rf"^(\S+)\s*\|\s*MISMATCH\s*\|.*ckpt: {_SIZE} vs model:\s*{_SIZE}", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def kept_reports() -> Iterator[list[str]]:
    """The tables that transformers logs within, which are then not printed; whatever else it is asked to print."""
    found: list[str] = []
    root = logging.getLogger("transformers")
    level = root.level

    def is_other(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if TABLE not in text:
            return record.levelno >= level
        found.append(_COLOUR.sub("", text))
        return False

    handlers = list(root.handlers)
    for handler in handlers:
        handler.addFilter(is_other)
    root.setLevel(min(level, logging.WARNING))  # tables are warnings, which somebody may have switched off
    try:
        yield found
    finally:
        root.setLevel(level)
        for handler in handlers:
            handler.removeFilter(is_other)


def misfit(reports: list[str]) -> str | None:
    """The first weight of another shape than the configuration asks for, in words; None if there is none."""
    for report in reports:
        if rows := sorted(_MISMATCH.findall(report)):  # their order in the table is that of a set
            name, there, wanted = rows[0]
            more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
            return f"its weights do not fit its config.json: {name} has shape {there} instead of {wanted}{more}"
    return None
