"""Who works on this? One process at a time, as long as it lives.

The lock is the operating system's: a process that dies leaves the file behind, but not the lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"
"""The lock's name in a directory that belongs to one run."""


@contextmanager
def locked(file: Path, *, wait: bool) -> Iterator[None]:
    """Holds the lock `file`, which stays; if another holds it, waits for it, or is refused with a ValueError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file)
    try:
        lock.acquire(blocking=wait)
    except Timeout as error:
        raise ValueError(f"another process is working in {file.parent}; wait for it or choose another") from error
    try:
        yield
    finally:
        lock.release()
