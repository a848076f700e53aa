"""How does a measurement come back from another machine? As JSON and Parquet in bytes: small, and no code in it.

A row takes about 7 bytes so, and over 100 as Python objects. `Remote` is what an actor holds
(`interp.core.ray_actors`); `begun` and `finished` read what it sends.
"""

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from hf_analysis.measurement.measure import Measured, Measurer
from hf_analysis.text.problems import Problem


class Remote:
    """A measurer whose answers are bytes."""

    def __init__(self, measurer: Measurer) -> None:
        self.measurer = measurer

    def begin(self, _: None = None) -> bytes:
        identity, groups = self.measurer.begin()
        return json.dumps([identity, [[group.start, group.stop] for group in groups]]).encode()

    def measured(self, group: range) -> bytes:
        """A line of JSON, in which places and sizes stand, and then the tables one after another."""
        sizes, tables = [], []
        for place, one in zip(group, self.measurer.measuring(group)):
            one.rows.attrs = one.facts
            data = [_parquet(table) for table in (one.rows, one.tokens)]
            sizes.append([place, *map(len, data)])
            tables += data
        return b"".join([json.dumps(sizes).encode(), b"\n", *tables])


def begun(data: bytes) -> tuple[dict[str, Any], list[range]]:
    """What `Measurer.begin` returned there."""
    identity, groups = json.loads(data)
    return identity, [range(*group) for group in groups]


def finished(data: bytes, problems: Sequence[Problem]) -> Iterator[Measured]:
    """The problems of one group."""
    file = io.BytesIO(data)
    for place, n_rows, n_tokens in json.loads(file.readline()):
        rows = pd.read_parquet(io.BytesIO(file.read(n_rows)))
        tokens = pd.read_parquet(io.BytesIO(file.read(n_tokens))) if n_tokens else None
        facts, rows.attrs = rows.attrs, {}
        yield Measured(problems[place], rows, facts, tokens)


def _parquet(table: pd.DataFrame | None) -> bytes:
    if table is None:
        return b""
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    return file.getvalue()
