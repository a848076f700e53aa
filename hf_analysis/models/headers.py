"""Is a model's file what it says it is? Checked before transformers reads it, which trusts every size in it.

A damaged or hostile header can ask for 2**60 entries or a million layers: a loader would fill the memory or never
end. Here every size is held against the bytes that are there. Values are not looked at.
"""

import json
import struct
from pathlib import Path
from typing import Any

GGUF_MAGIC = b"GGUF"
_FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of each type of value
_STRING, _ARRAY = 8, 9
_MOST_DIMENSIONS = 4
_MOST_NESTED = 4
SIZES = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
"""How configurations call the number of layers."""
USUAL = 1000
"""Layers that are built within seconds, whatever the weights: layers may share theirs."""


class _Header:
    """The bytes of a GGUF file, read in order; a ValueError where there are too few."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, size: int, what: str) -> memoryview:
        if size < 0 or size > len(self.data) - self.at:
            raise ValueError(f"{what} of {size} bytes at byte {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: str, what: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form), what))[0]

    def text(self) -> str:
        return str(self.take(self.number("<Q", "the length of a text"), "a text"), "utf-8")

    def skip_value(self, kind: int, nested: int = 0) -> None:
        if kind in _FIXED:
            self.take(_FIXED[kind], "a value")
        elif kind == _STRING:
            self.take(self.number("<Q", "the length of a text"), "a text")
        elif kind == _ARRAY and nested < _MOST_NESTED:
            inner, n = self.number("<I", "the type of an array"), self.number("<Q", "the length of an array")
            if inner in _FIXED:
                self.take(_FIXED[inner] * n, "an array")
                return
            if n * 8 > len(self.data) - self.at:  # a text or an array takes eight bytes at least
                raise ValueError(f"an array of {n} values at byte {self.at} of {len(self.data)}")
            for _ in range(n):
                self.skip_value(inner, nested + 1)
        else:
            raise ValueError(f"a value of the unknown type {kind}")


def require_sound_gguf(path: Path) -> None:
    """A ValueError that names the file unless its header can be read to its end and its tensors lie within it."""
    import mmap

    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            header = _Header(memoryview(mapped))
            try:
                _walk(header)
            finally:
                header.data.release()
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a GGUF file, or a damaged one: {error}; fetch it again") from None


def _walk(header: _Header) -> None:
    if header.take(4, "the beginning") != GGUF_MAGIC:
        raise ValueError("it does not begin with GGUF")
    version = header.number("<I", "the version")
    if version not in (2, 3):
        raise ValueError(f"version {version}; 2 and 3 are read")
    n_tensors, n_values = header.number("<Q", "a count"), header.number("<Q", "a count")
    for n, what in ((n_values, "values"), (n_tensors, "tensors")):
        if n * 12 > len(header.data):  # the least that one takes
            raise ValueError(f"{n} {what} in {len(header.data)} bytes")
    for _ in range(n_values):
        header.text()
        header.skip_value(header.number("<I", "the type of a value"))
    offsets = []
    for _ in range(n_tensors):
        name = header.text()
        n_dimensions = header.number("<I", "the number of dimensions")
        if not 1 <= n_dimensions <= _MOST_DIMENSIONS:
            raise ValueError(f"tensor {name[:60]!r} has {n_dimensions} dimensions")
        shape = [header.number("<Q", "a size") for _ in range(n_dimensions)]
        header.number("<I", "the type of a tensor")
        offsets.append((header.number("<Q", "an offset"), name, shape))
    left = len(header.data) - header.at
    for offset, name, shape in offsets:
        n = 1
        for size in shape:
            n *= size
        if n == 0 or offset >= left or n > 8 * (left - offset):  # no type has less than a bit for each weight
            raise ValueError(f"tensor {name[:60]!r} of shape {shape} at {offset} lies outside of the file")


def require_sound_directory(path: Path) -> None:
    """A ValueError unless every safetensors header fits its file, and config.json asks for no more layers than that.

    Loading would build every layer that is asked for before it notices that there are no weights for it.
    """
    n_tensors = sum(_n_tensors(file) for file in sorted(path.glob("*.safetensors")))
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path / 'config.json'} is damaged: {str(error)[:200]}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path / 'config.json'} is damaged: expected an object, got {type(config).__name__}")
    for part in (config, *(value for value in config.values() if isinstance(value, dict))):
        _require_layers(path, part, n_tensors)
        for name, value in part.items():
            if isinstance(value, int) and not -(2**63) <= value < 2**64:
                raise ValueError(f"{path / 'config.json'} says {name} {value!r:.40}, a number too large: damaged")


def _require_layers(path: Path, config: dict[str, Any], n_tensors: int) -> None:
    for name in SIZES:
        n = config.get(name)
        if isinstance(n, (int, float)) and not 0 <= n <= max(n_tensors, USUAL):
            raise ValueError(
                f"{path / 'config.json'} says {name} {n!r:.40}, but the weights are {n_tensors} tensors: damaged"
            )


def _n_tensors(file: Path) -> int:
    """How many tensors a safetensors file names; its header must fit it."""
    whole = file.stat().st_size
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        if whole < 8 or size > whole - 8:
            raise ValueError(f"{file} is damaged: a header of {size} bytes in a file of {whole}; fetch it again")
        try:
            header = json.loads(opened.read(size))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file} is damaged: {str(error)[:200]}; fetch it again") from None
    if not isinstance(header, dict):
        raise ValueError(f"{file} is damaged: its header is no object; fetch it again")
    return len(header.keys() - {"__metadata__"})
