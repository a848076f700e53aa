"""The measurement table: which columns does a measurement have?

Every number that a statistic, figure or report uses is one row of one flat table. Whoever measures calls
`table`, whoever judges reads the columns; nobody needs the model again.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from probes.base.atomic import write_file
from probes.base.seal import require_intact, sealed

COLUMNS: dict[str, tuple[str, Any]] = {
    # name: (dtype, value where it does not apply)
    "run": ("str", None),  # which run measured it
    "condition": ("str", None),  # what is compared: cot, no_cot, ...
    "unit": ("str", None),  # unit of replication: problem id or seed
    "setting": ("str", ""),  # what else varied, as "k=3 n=30"; a reasoning step is "step=2"
    "samples": ("int64", 0),  # training sequences seen when it was measured, of a run that counts sequences
    "update": ("int64", 0),  # gradient updates made when it was measured, of a run that counts updates
    "layer": ("int64", -1),
    "head": ("int64", -1),
    "query": ("int64", -1),  # position that attends
    "key": ("int64", -1),  # position attended to
    "metric": ("str", None),
    "scope": ("str", "all"),  # which tokens were reduced over
    "value": ("float64", None),
    "n_tokens": ("int64", 0),  # how many tokens were reduced over
}

STEP = "; what was `step` is `samples` (training sequences seen) or `update` (gradient updates made)"


def table(**columns: Any) -> pd.DataFrame:
    """The rows given by `columns`, in their order; scalars are repeated, missing columns take their default."""
    unknown = set(columns) - set(COLUMNS)
    if unknown:
        hint = STEP if "step" in unknown else ""
        raise ValueError(f"rows have no column {sorted(unknown)}; the columns are {list(COLUMNS)}{hint}")
    missing = [name for name, (_, default) in COLUMNS.items() if default is None and name not in columns]
    if missing:
        raise ValueError(f"rows need the columns {missing}")
    # without its index: pandas would pair the values of a Series by that, and not by their order
    columns = {name: v.to_numpy() if isinstance(v, pd.Series) else v for name, v in columns.items()}
    size = max((len(v) for v in columns.values() if not pd.api.types.is_scalar(v)), default=1)
    filled = {name: columns.get(name, default) for name, (_, default) in COLUMNS.items()}
    made = pd.DataFrame(filled, index=range(size))
    other = {name: dtype for (name, (dtype, _)), found in zip(COLUMNS.items(), made.dtypes) if found != dtype}
    for name, dtype in other.items():  # to convert what is right already takes longest
        if dtype == "str":
            _refuse_missing(name, made[name])  # pandas 2 makes the text "None" of what is missing
        made[name] = _whole(name, made[name]) if dtype == "int64" else made[name].astype(dtype)
    return validate(made)


def _refuse_missing(name: str, column: pd.Series) -> None:
    if column.hasnans:
        missing = column.isna().sum()
        raise ValueError(f"the column {name!r} lacks {missing} of {len(column)} texts; expected one in every row")


def _whole(name: str, column: pd.Series) -> pd.Series:
    """`column` as int64; a ValueError unless every value is a whole number."""
    try:
        found = column.astype("int64")  # which cuts 1.5 down to 1
        wrong = column[found != column]
    except (TypeError, ValueError, OverflowError):
        wrong = column[column.isna()] if column.hasnans else column
    if len(wrong):
        raise ValueError(f"the column {name!r} holds integers, got {wrong.tolist()[0]!r}; convert its values")
    return found


def concat(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """All rows of `tables`, in order."""
    parts = [part for part in tables if len(part)]
    if not parts:
        return pd.DataFrame({name: pd.Series(dtype=dtype) for name, (dtype, _) in COLUMNS.items()})
    return pd.concat(parts, ignore_index=True)


def validate(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` itself if it follows the schema, no text is missing and every value is finite; else a ValueError."""
    missing = [name for name in COLUMNS if name not in rows]
    if "step" in rows and missing:
        raise ValueError(f"it lacks the columns {missing}: an earlier version of cotlens made it; run it again")
    if list(rows.columns) != list(COLUMNS):
        raise ValueError(f"a table of rows has the columns {list(COLUMNS)}, got {list(rows.columns)}")
    if not np.issubdtype(rows["value"].dtype, np.floating):
        raise ValueError(f"the column 'value' holds floats, got {rows['value'].dtype}")
    for name, (dtype, _) in COLUMNS.items():
        if dtype == "int64" and not pd.api.types.is_integer_dtype(rows[name]):
            raise ValueError(f"the column {name!r} holds integers, got {rows[name].dtype}; convert its values")
        if dtype == "str":
            _refuse_missing(name, rows[name])
    finite = np.isfinite(rows["value"].to_numpy())
    if not finite.all():
        place = rows[~finite].iloc[0]
        where = ", ".join(f"{name}={place[name]}" for name in COLUMNS if name != "n_tokens")
        raise ValueError(f"{(~finite).sum()} of {len(rows)} values are not finite; the first: {where}")
    return rows


def write(path: Path, rows: pd.DataFrame) -> None:
    """Writes `rows` to `path` as Parquet, atomically."""
    write_table(path, validate(rows))


def read(path: Path) -> pd.DataFrame:
    """The rows stored at `path`; a ValueError names the file if it is not such a table."""
    try:
        return validate(_opened(path))
    except Exception as error:  # a file with flipped bits makes pandas and pyarrow raise anything, even KeyError
        raise ValueError(f"{path} is not a readable table of rows: {error}") from error


def n_rows(path: Path) -> int:
    """How many rows the file at `path` says it has; 0 if it is damaged, which `read` then says."""
    try:
        return pq.read_metadata(path).num_rows
    except Exception:  # as in `read`
        return 0


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Writes any table as Parquet, atomically, with checksums: without them a flipped bit is another number."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(sealed(table.to_parquet(index=False, write_page_checksum=True)))

    write_file(path, write)


def read_table(path: Path) -> pd.DataFrame:
    """What `write_table` wrote; a ValueError names the file if it is damaged."""
    try:
        return _opened(path)
    except FileNotFoundError:
        raise
    except Exception as error:  # as in `read`
        raise ValueError(f"{path} is damaged: {error}") from error


def _opened(path: Path) -> pd.DataFrame:
    """The table at `path`; runs of earlier versions have the checksums of pages only.

    Without threads: where memory is limited and none can be started, pyarrow waits for them for ever.
    """
    data = path.read_bytes()
    require_intact(data)
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    return file.read(use_threads=False).to_pandas(use_threads=False)


def setting(**values: int | float | str) -> str:
    """The text of the column `setting`: `setting(n=30, k=3)` is "k=3 n=30"."""
    return " ".join(f"{name}={values[name]}" for name in sorted(values))


def words(text: str) -> dict[str, str]:
    """What a `setting` says: `words("k=3 n=30")` is {"k": "3", "n": "30"}."""
    return dict(pair.split("=", 1) for pair in text.split())


def number(text: str | float) -> int | float:
    """The number that `text` is, to its last bit (`pandas.to_numeric` lost it before 3.1); NaN is missing."""
    if not isinstance(text, str):
        return text
    if "_" in text:
        raise ValueError(f"{text} is a word")  # which Python would read as a number: 1_2 is 12
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else float(text)


def with_settings(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` with one more column for each name in `setting`, numbers as numbers."""
    codes, texts = pd.factorize(rows["setting"])
    columns = pd.DataFrame([words(text) for text in texts])
    taken = sorted(set(columns) & set(rows))
    if taken:
        raise ValueError(f"the setting {texts[0]!r} names {taken}, which are columns of their own: fill those")
    for name in columns:
        try:
            columns[name] = [number(text) for text in columns[name]]
        except ValueError:
            continue  # a word such as "C6" stays a word
    return pd.concat([rows, columns.iloc[codes].set_axis(rows.index)], axis=1)
