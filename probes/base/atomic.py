"""How does a file appear whole or not at all?

It lives in the lowest layer because every layer above writes files.
"""

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`; on success it is synced and renamed to `path`.

    A kill at any moment leaves either the old file or the new one under the final name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        yield temporary
        _sync(temporary, os.O_RDWR)  # Windows syncs only what is open for writing
        os.replace(temporary, path)
        if hasattr(os, "O_DIRECTORY"):  # Windows opens no directory, and keeps the rename by itself
            _sync(path.parent, os.O_RDONLY)
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Runs `write` on a temporary path and renames the result to `path`."""
    with replacing(path) as temporary:
        try:
            write(temporary)
        except (OSError, ValueError, MemoryError):
            raise
        except Exception as error:  # a library's own error, such as safetensors' on a full disk
            raise OSError(f"{path} could not be written: {error}") from error


def write_bytes(path: Path, data: bytes) -> None:
    write_file(path, lambda temporary: temporary.write_bytes(data))


def write_text(path: Path, text: str) -> None:
    write_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


def write_json(path: Path, value: Any) -> None:
    """Strict JSON: NaN and infinity are refused, because other readers cannot parse them."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """What `write_json` wrote; a ValueError says what is wrong with a file that is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def remove_leftovers(directory: Path) -> None:
    """Deletes the temporary files that a killed `replacing` left in `directory`."""
    for leftover in directory.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def _sync(path: Path, mode: int) -> None:
    descriptor = os.open(path, mode)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
