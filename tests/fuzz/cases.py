"""What fuzz tests share: hostile values, damaged files, and the rule that bad input is one line."""

import contextlib
import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from hypothesis import strategies as st

from interp.cli import main

HOSTILE_TEXT = st.one_of(
    st.text(max_size=20).filter(lambda text: "\x00" not in text),
    st.sampled_from(
        ["", " ", "-", "--", "0", "-1", "nan", "inf", "-inf", "1e999", "1" * 400, "../../up", "/", "\n", "None",
         "a\nb", "<script>", "${HOME}", "%s", "\u202e", "\ud83d\ude00", "--help=1", "[]", "{}", "true"]
    ),
    st.integers().map(str),
    st.floats().map(str),
)  # fmt: skip
"""What no option expects, except by chance."""


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """`data` cut off, with flipped bits, with foreign bytes in it, or replaced."""
    place = st.integers(0, max(len(data) - 1, 0))

    def flipped(changes: list[tuple[int, int]]) -> bytes:
        changed = bytearray(data)
        for where, bit in changes:
            changed[where] ^= 1 << bit
        return bytes(changed)

    return st.one_of(
        place.map(lambda end: data[:end]),
        st.lists(st.tuples(place, st.integers(0, 7)), min_size=1, max_size=8).map(flipped),
        st.tuples(place, st.binary(min_size=1, max_size=64)).map(lambda c: data[: c[0]] + c[1] + data[c[0] :]),
        st.tuples(place, place).map(lambda c: data[: min(c)] + data[max(c) :]),
        st.binary(max_size=200),
    )


def damages(data: bytes, n: int) -> Iterator[bytes]:
    """n damaged copies of `data`, the same in every run: for readers so fast that hypothesis would take longest."""
    places = random.Random(0)
    for _ in range(n):
        start, end = sorted(places.randrange(len(data) + 1) for _ in range(2))
        foreign = places.randbytes(places.randrange(1, 40))
        flipped = bytearray(data)
        for _ in range(places.randrange(1, 8)):
            flipped[places.randrange(len(data))] ^= 1 << places.randrange(8)
        number = places.choice([0, 1, 2**20, 2**31, 2**32 - 1, 2**63, 2**64 - 1]).to_bytes(8, "little")
        yield places.choice([
            data[:end], bytes(flipped), data[:start] + foreign + data[start:], data[:start] + data[end:], foreign,
            data[:start] + number + data[start + 8 :],
        ])  # fmt: skip


def refused_in_one_line(read: Callable[[], object]) -> bool:
    """Whether `read` refused; whatever it raises must be a ValueError (or OSError) that says something."""
    try:
        read()
    except (ValueError, OSError) as error:
        if not str(error).strip():
            raise AssertionError("an error without a word") from error
        return True
    return False


def command_refuses_or_works(words: list[str], root: Path) -> int:
    """Runs a command that may refuse: with 2, one line, and every file under `root` as it was."""
    before = contents(root)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    assert status in (0, 2), f"{words}: exit status {status}"
    if status == 2:
        lines = err.getvalue().splitlines()
        assert len(lines) == 1, f"{words}: {lines}"
        assert lines[0].startswith("cotlens: "), f"{words}: {lines}"
        assert contents(root) == before, f"{words} changed files"
    return status


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in files}
