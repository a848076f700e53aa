"""How does a file say that it is as it was written? A Parquet file by a checksum of all its other bytes.

The checksums of Parquet's own leave out the headers of pages and the footer, where a flipped bit is another type or
another text. Ours stands between the last page and the footer, where no reader looks: any program reads the file.

A JSON object by one more entry, the checksum of the others as they are read, whatever their order and layout.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

MARK = b"\xffcotlens sha256 "
"""Before the checksum; no text has that first byte."""
LENGTH = len(MARK) + hashlib.sha256().digest_size


def sealed(parquet: bytes) -> bytes:
    """A whole Parquet file with the checksum in it."""
    footer = len(parquet) - 8 - int.from_bytes(parquet[-8:-4], "little")  # its length, then the letters PAR1
    pages, rest = parquet[:footer], parquet[footer:]
    return b"".join([pages, MARK, _checksum(pages, rest), rest])


def require_intact(parquet: bytes) -> None:
    """A ValueError if a sealed file is not as it was written; what never was sealed passes."""
    place = parquet.rfind(MARK)
    if place < 0:
        return
    view = memoryview(parquet)
    found = parquet[place + len(MARK) : place + LENGTH]
    if found != _checksum(view[:place], view[place + LENGTH :]):
        raise ValueError("its checksum is not that of its content")


ENTRY = "sha256"
"""The name of the checksum in an object of JSON."""


def sealed_object(found: Mapping[str, Any]) -> dict[str, Any]:
    """An object of JSON with the checksum of its entries as the last of them."""
    return {**found, ENTRY: _object_checksum(found)}


def opened_object(found: Mapping[str, Any]) -> dict[str, Any]:
    """What `sealed_object` was given; a ValueError if it is not as it was written. What never was sealed passes."""
    content = {name: value for name, value in found.items() if name != ENTRY}
    if ENTRY in found and found[ENTRY] != _object_checksum(content):
        raise ValueError("its checksum is not that of its content")
    return content


def _object_checksum(found: Mapping[str, Any]) -> str:
    read = json.loads(json.dumps(found))  # keys have become texts, which are ordered otherwise than numbers
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _checksum(pages: bytes | memoryview, rest: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(pages)
    digest.update(rest)
    return digest.digest()
