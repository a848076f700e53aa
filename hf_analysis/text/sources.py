"""Where do records come from? JSON lines, JSON, CSV and Parquet files, and datasets of the Hugging Face hub.

Every record comes with its place in words ("problems.csv, line 7"), so that a complaint about it can name it. Whoever
has a copy of a dataset of the hub puts it into a folder as OWNER_NAME.jsonl (or another kind) and names the folder in
the environment variable COTLENS_DATA: it is then read in place of the hub's.
"""

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hf_analysis import hub

Records = Iterator[tuple[str, Any]]
"""(place, record)"""
LONGEST_FIELD = 2**31 - 1
"""Characters of one field in a CSV file: as many as the reader can be told; by itself it stops at 131,072."""


def records(source: str, split: str, offline: bool) -> Records:
    """The records of a file, or of a dataset of the hub, such as openai/gsm8k or openai/gsm8k:main."""
    path = Path(source)
    if path.suffix.lower() in READERS:
        if not path.is_file():
            found = "it is there, and is no file" if path.exists() else "no such file"
            raise ValueError(f"--data {path}: {found}")
        return READERS[path.suffix.lower()](path)
    if path.exists():
        raise ValueError(f"--data {source}: expected a {KINDS} file with questions and worked solutions")
    own = _own_copy(source)
    return _hub(source, split, offline) if own is None else READERS[own.suffix](own)


def _own_copy(name: str) -> Path | None:
    """The user's own copy of a dataset of the hub, if there is one."""
    folder = os.environ.get("COTLENS_DATA")
    if not folder:
        return None
    files = (Path(folder) / f"{name.replace('/', '_')}{suffix}" for suffix in READERS)
    return next((file for file in files if file.is_file()), None)


def _jsonl(path: Path) -> Records:
    with path.open("rb") as lines:
        for n, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield f"{path}, line {n}", json.loads(line.decode("utf-8-sig" if n == 1 else "utf-8"))
            except (ValueError, RecursionError) as error:  # numbers of thousands of digits are refused too
                raise ValueError(f"{path}, line {n}: not a JSON object in UTF-8 ({error})") from None


def _json(path: Path) -> Records:
    try:
        found = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits are refused too
        raise ValueError(
            f"{path}: not JSON in UTF-8 ({error}); one object in each line makes a .jsonl file"
        ) from None
    if isinstance(found, dict):  # {"data": [...]}, as some exports have it
        lists = [value for value in found.values() if isinstance(value, list)]
        found = lists[0] if len(lists) == 1 else found
    if not isinstance(found, list):
        raise ValueError(f"{path}: expected a list of records, got {type(found).__name__}")
    for n, record in enumerate(found, start=1):
        yield f"{path}, record {n}", record


def _csv(path: Path) -> Records:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader, line = csv.DictReader(file, delimiter=delimiter, strict=True), 1
        before = csv.field_size_limit(LONGEST_FIELD)  # of the whole process
        try:
            if twice := [name for name, n in Counter(reader.fieldnames or ()).items() if n > 1]:
                raise ValueError(f"{path}, line 1: two columns are called {twice[0]!r}; which is meant?")
            for record in reader:
                place, line = f"{path}, line {line + 1}", reader.line_num
                if None in record or None in record.values():
                    raise ValueError(f"{place}: its number of fields is not that of the header")
                yield place, record
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path}, line {line + 1}: not CSV in UTF-8 ({error})") from None
        finally:
            csv.field_size_limit(before)


def _parquet(path: Path) -> Records:
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise ValueError(f"{path}: not a readable Parquet file ({error})") from None
    for n, record in enumerate(rows, start=1):
        yield f"{path}, row {n}", record


def _hub(name: str, split: str, offline: bool) -> Records:
    import datasets

    repository, _, configuration = name.partition(":")
    if not configuration and repository.endswith("gsm8k"):
        configuration = "main"
    with hub.asked_politely(offline):
        try:
            found = datasets.load_dataset(repository, configuration or None, split=split)
        except Exception as error:  # the library raises many kinds for one fact: the dataset is not to be had
            line = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            raise ValueError(
                f"--data {name}: neither a file nor a dataset of the hub that can be loaded "
                f"({hub.refusal(error, offline) or line}); "
                f"pass a {KINDS} file, 'builtin', or OWNER/NAME:CONFIGURATION with --split"
            ) from None
    for n, record in enumerate(found, start=1):
        yield f"{name} [{split}], record {n}", record


READERS: dict[str, Callable[[Path], Records]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}
KINDS = ".jsonl, .json, .csv or .parquet"
