"""How is a table of rows stored that is too large for memory? In parts, one file for each metric and scope.

    rows/<metric>,<scope>.parquet    all rows of one metric in one scope
    rows/_parts.json                 which parts there are, with checksums; written last: it says that all are there

Whatever compares conditions needs one metric in one scope at a time, so it needs the memory of the largest part.
Other programs read the directory as one Parquet dataset.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import quote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from probes.base.atomic import read_json, remove_leftovers, replacing, write_json
from probes.rows import COLUMNS, validate

LARGE = 20_000_000
"""Rows beyond which a table is stored in parts; a frame of so many takes about 4 GB."""
PARTS, INDEX = "rows", "_parts.json"
GROUP = 200_000
"""Rows of a part that are collected before they are written."""
TEXTS = [name for name, (dtype, _) in COLUMNS.items() if dtype == "str"]
_TYPES = {"str": pa.dictionary(pa.int32(), pa.string()), "int64": pa.int64(), "float64": pa.float64()}
SCHEMA = pa.schema([(name, _TYPES[dtype]) for name, (dtype, _) in COLUMNS.items()])
Place = tuple[str, str]
"""A metric and a scope."""


@runtime_checkable
class Table(Protocol):
    """Rows that are read one metric and scope at a time."""

    @property
    def places(self) -> Sequence[Place]: ...

    @property
    def units(self) -> Sequence[str]: ...

    @property
    def runs(self) -> Sequence[str]: ...

    def piece(self, place: Place) -> pd.DataFrame:
        """The rows of one metric in one scope."""
        ...


@dataclass(frozen=True)
class Frame:
    """Rows in memory."""

    rows: pd.DataFrame

    @cached_property
    def _groups(self) -> dict[Any, Any]:
        return self.rows.groupby(["metric", "scope"], sort=False).indices

    @property
    def places(self) -> Sequence[Place]:
        return list(self.rows[["metric", "scope"]].drop_duplicates().itertuples(index=False, name=None))

    @property
    def units(self) -> Sequence[str]:
        return list(self.rows["unit"].unique())

    @property
    def runs(self) -> Sequence[str]:
        return list(self.rows["run"].unique())

    def piece(self, place: Place) -> pd.DataFrame:
        return self.rows.iloc[self._groups[place]]


@dataclass(frozen=True)
class Parts:
    """Rows in the files of `directory`."""

    directory: Path
    checksums: Mapping[Place, str]
    """SHA-256 of each file, by metric and scope in the order in which they were first met."""
    units: Sequence[str]
    runs: Sequence[str]

    @property
    def places(self) -> Sequence[Place]:
        return list(self.checksums)

    def piece(self, place: Place) -> pd.DataFrame:
        """The rows of one part, texts as categories; a ValueError names a file that is not as it was written.

        The checksum is of the whole file: those of Parquet leave out the headers of its pages.
        """
        file = self.directory / _name(place)
        if not file.is_file() or _checksum(file) != self.checksums[place]:
            raise ValueError(f"{file} is damaged, or of another run: its checksum is not that in {INDEX}")
        table = pq.ParquetFile(file).read(use_threads=False)  # as in `probes.rows`
        return validate(table.to_pandas(use_threads=False))


def write_parts(directory: Path, tables: Iterable[pd.DataFrame]) -> Parts:
    """Writes the rows of all `tables`, which are met one by one; only what was read last is ever in memory.

    A kill leaves no `_parts.json`, and the directory is written anew.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / INDEX).unlink(missing_ok=True)
    remove_leftovers(directory)
    files: dict[Place, _Part] = {}
    units: dict[str, None] = {}
    runs: dict[str, None] = {}
    with ExitStack() as stack:  # closes every file and gives it its name, or removes it after an error
        for table in tables:
            validate(table)
            units |= dict.fromkeys(map(str, table["unit"].unique()))
            runs |= dict.fromkeys(map(str, table["run"].unique()))
            for (metric, scope), piece in table.groupby(["metric", "scope"], sort=False, observed=True):
                place = (str(metric), str(scope))
                if place not in files:
                    temporary = stack.enter_context(replacing(directory / _name(place)))
                    files[place] = _Part(stack.enter_context(pq.ParquetWriter(temporary, SCHEMA)))
                files[place].add(piece)
        for part in files.values():
            part.flush()
    checksums = {place: _checksum(directory / _name(place)) for place in files}
    index = {"units": list(units), "runs": list(runs), "parts": [[*place, of] for place, of in checksums.items()]}
    write_json(directory / INDEX, index)
    return Parts(directory, checksums, list(units), list(runs))


def read_parts(directory: Path) -> Parts:
    """What `write_parts` wrote; a ValueError if it did not finish, or if its index is damaged."""
    try:
        found = read_json(directory / INDEX)
        checksums = {(metric, scope): checksum for metric, scope, checksum in found["parts"]}
        return Parts(directory, checksums, found["units"], found["runs"])
    except FileNotFoundError:
        raise ValueError(f"{directory} has no {INDEX}: it is not complete; --resume finishes the run") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{directory / INDEX} is damaged: {error}") from error


def has_parts(run: Path) -> bool:
    """Whether the rows of a run directory are complete, and in parts."""
    return (run / PARTS / INDEX).is_file()


def plain(piece: pd.DataFrame) -> pd.DataFrame:
    """Rows with texts as texts, which `Parts.piece` has as categories."""
    return piece.astype({name: "str" for name in TEXTS if isinstance(piece[name].dtype, pd.CategoricalDtype)})


def head_means(table: Table) -> pd.DataFrame:
    """All rows with the mean over heads in place of the heads, as layer 0 and head 0: small enough for a frame."""
    return plain(pd.concat(map(_means, _pieces(table)), ignore_index=True))[list(COLUMNS)]


def _pieces(table: Table) -> Iterator[pd.DataFrame]:
    for place in table.places:
        yield table.piece(place)


def _means(piece: pd.DataFrame) -> pd.DataFrame:
    labels = [name for name in COLUMNS if name not in ("layer", "head", "value")]
    found = piece.groupby(labels, sort=False, observed=True)["value"].mean().reset_index()
    texts = {name: found[name].astype(str) for name in TEXTS}
    return found.assign(layer=np.int64(0), head=np.int64(0), **texts)


def _name(place: Place) -> str:
    return ",".join(quote(text, safe="") for text in place) + ".parquet"  # a plug-in may call a metric anything


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


class _Part:
    """A file that grows by groups of rows."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self.writer, self.waiting = writer, list[pd.DataFrame]()

    def add(self, piece: pd.DataFrame) -> None:
        self.waiting.append(piece)
        if sum(map(len, self.waiting)) >= GROUP:
            self.flush()

    def flush(self) -> None:
        """Writes what is waiting."""
        if self.waiting:
            rows = pd.concat([plain(piece) for piece in self.waiting], ignore_index=True)
            self.writer.write_table(pa.Table.from_pandas(rows, SCHEMA, preserve_index=False))
        self.waiting = []
