"""What can be read of a trace? Its sentences with every measure, which reads which in every head, and its answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from hf_analysis.traces.sentences import sentence_table
from interp.report.pack import packed, visible
from interp.report.sources import Run, TraceFiles

MEASURES = {
    "attention": ("read from afar", "attention per token that the sentence receives from those at least {gap} later"),
    "suppression": ("hidden", "what hiding it changes later, minus the usual effect there (log KL)"),
    "suppression_beyond_control": ("hidden, − control", "the same minus a random span of equal length next to it"),
    "resampling": ("resampled", "how the answers of sampled texts change from before to behind it (nats)"),
    "answer_gain": ("answer gain", "log-odds of the answer behind it minus before it"),
}
"""One bar each: its name and what it says."""
MATRICES = {
    "attention_mean": ("attention per token read", "log"),
    "attention_mass": ("attention, summed over tokens read", "log"),
    "attention_mean_without_sink": ("attention per token read, without the first token", "log"),
    "attention_mass_without_sink": ("attention, summed, without the first token", "log"),
    "suppression_effect": ("effect of hiding, minus the usual one", "both"),
    "suppression_log_kl": ("effect of hiding (log KL)", "plain"),
}
"""Sentence by sentence: its name and scale, most important first where not all of them fit."""
BY_HEAD = "attention_mean"
"""The matrix that is kept of single heads."""
CURVES = ("early", "mistake", "filler", "swapped")
SMALLEST = 1e-6
"""Attention below this is shown as this: logarithms in steps of 0.0001 then fit two bytes."""
MOST_CELLS, MOST_CHARACTERS = 1_500_000, 1_000_000
"""Numbers (2.7 bytes each) and characters of all traces of a page; the rest is left out, and the page says so."""


@dataclass
class _Room:
    """What may still be put into the page."""

    cells: int
    characters: int

    def takes(self, cells: int) -> bool:
        """Whether so many numbers still fit; then they are counted."""
        if cells > self.cells:
            return False
        self.cells -= cells
        return True


def trace_data(
    runs: Iterable[Run], cells: int = MOST_CELLS, characters: int = MOST_CHARACTERS
) -> list[dict[str, Any]]:
    """One data set for each run of `cotlens trace`, all of them within so many numbers and characters."""
    room = _Room(cells, characters)
    return [_data_set(run, run.trace, room) for run in runs if run.trace is not None]


def _data_set(run: Run, files: TraceFiles, room: _Room) -> dict[str, Any]:
    table, summary = run.table, files.summary
    order = [(int(one["layer"]), int(one["head"])) for one in summary["receiver_heads"]]
    by_head = table[table["metric"].isin([BY_HEAD, "vertical"]) & (table["layer"] >= 0)]
    shape = (int(by_head["layer"].max()) + 1, int(by_head["head"].max()) + 1) if len(by_head) else (0, 0)
    parts = dict(iter(table.groupby("unit", sort=False)))
    traces, left_out = [], 0
    for passage in files.passages:
        room.characters -= len(passage["text"])
        if (traces and room.characters < 0) or passage["problem"] not in parts:
            left_out += 1
            continue
        traces.append(_Trace(passage, parts[passage["problem"]]).record(room))
    for passage, record in zip([p for p in files.passages if p["problem"] in parts], traces):
        record["by_head"] = _heads(parts[passage["problem"]], len(record["units"]), shape, order, room)
        record["vertical"] = _vertical(parts[passage["problem"]], len(record["units"]), shape, room)
    gap = run.config.get("gap", "so many sentences")
    return {
        "name": visible(run.name),
        "layers": shape[0],
        "heads": shape[1],
        "traces": traces,
        "left_out": left_out,
        "receivers": [_finite(one) for one in summary["receiver_heads"]],
        "too_short": [int(summary.get("too_short_for_receiver_heads", 0)), int(summary["traces"]), visible(str(gap))],
        "estimates": [{**_finite(one), "name": visible(str(one["name"]))} for one in _estimates(summary)],
        "measures": {name: [label, about.format(gap=visible(str(gap)))] for name, (label, about) in MEASURES.items()},
        "matrices": {name: list(about) for name, about in MATRICES.items()},
        "smallest": SMALLEST,
    }


def _estimates(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*summary["estimates"], *summary["agreement"]]


def _finite(record: Mapping[str, Any]) -> dict[str, Any]:
    """Without numbers that JSON does not know."""
    return {k: v for k, v in record.items() if not isinstance(v, float) or np.isfinite(v)}


class _Trace:
    """One trace: what was read, and its rows."""

    def __init__(self, passage: Mapping[str, Any], table: pd.DataFrame) -> None:
        self.passage, self.table, self.units = passage, table, passage["units"]

    def record(self, room: _Room) -> dict[str, Any]:
        """Everything but what is of single heads."""
        reasoning = [i for i, unit in enumerate(self.units) if unit["span"] == "reasoning"]
        matrices, missing = self._matrices(room)
        return {
            "id": visible(self.passage["problem"]),
            "target": visible(str(self.passage.get("target", ""))),
            "units": [
                [visible(one["span"]), visible(one["text"].strip()), one["end"] - one["start"]] for one in self.units
            ],
            "reasoning": reasoning,
            "bars": self._bars(),
            "matrices": matrices,
            "no_room_for": missing,
            "curves": self._curves(),
            "continued": self._continued(),
            "written": [
                {k: visible(v) if isinstance(v, str) else v for k, v in one.items()}
                for one in self.passage.get("written", ())
            ],
        }

    def _bars(self) -> dict[str, Any]:
        """Each measure of each unit; NaN where there is none."""
        sentences = sentence_table(self.table)
        found = {}
        for name in (one for one in MEASURES if one in sentences.columns):
            values = np.full(len(self.units), np.nan)
            values[sentences["sentence"].to_numpy(dtype=int)] = sentences[name].to_numpy(dtype=float)
            found[name] = _short(values)
        return found

    def _matrices(self, room: _Room) -> tuple[dict[str, Any], list[str]]:
        """Means over heads, as [reading read]; and those for which there was no room."""
        found, missing, n = {}, [], len(self.units)
        for name, (_, scale) in MATRICES.items():
            rows = self.table[(self.table["metric"] == name) & self.table["condition"].isin(["trace", "hidden"])]
            rows = rows[rows["layer"] == -1]
            if rows.empty:
                continue
            if not room.takes(n * n):
                missing.append(name)
                continue
            values = np.full((n, n), np.nan)
            values[rows["query"], rows["key"]] = rows["value"]
            found[name] = _logs(values) if scale == "log" else packed(values)
        return found, missing

    def _curves(self) -> dict[str, list[list[float | int]]]:
        """By condition: sentence (-1: none), nats of the answer, whether greedy decoding writes it."""
        found: dict[str, list[list[float | int]]] = {}
        wide = self.table[self.table["metric"].isin(["answer_log_prob", "answer_right"])]
        for name in CURVES:
            part = wide[wide["condition"] == name].pivot_table(index="key", columns="metric", values="value")
            if len(part):
                found[name] = [
                    [int(key), round(float(one["answer_log_prob"]), 4), int(one["answer_right"])]
                    for key, one in part.sort_index().iterrows()
                ]
        return found

    def _continued(self) -> list[dict[str, Any]]:
        """By sentence: what became of the answer where the model went on, as it stands and with a mistake."""
        part = self.table[self.table["condition"].isin(["continued", "mistake_continued"])]
        found: dict[int, dict[str, Any]] = {}
        for key, condition, metric, value in part[["key", "condition", "metric", "value"]].itertuples(index=False):
            found.setdefault(int(key), {"key": int(key)})[f"{condition} {metric}"] = int(value)
        return [found[key] for key in sorted(found)]


def _short(values: np.ndarray) -> list[float | None]:
    """Few numbers, each with six digits; None where there is none."""
    return [None if not np.isfinite(value) else float(f"{value:.6g}") for value in values]


def _logs(values: np.ndarray) -> dict[str, Any]:
    """Decimal logarithms of attention, which spans many powers of ten."""
    return packed(np.log10(np.maximum(values, SMALLEST)))


def _cube(
    rows: pd.DataFrame, shape: tuple[int, int], columns: Sequence[str], sizes: Sequence[int]
) -> Float[np.ndarray, "head ..."]:
    """Rows of single heads as an array, heads in order of layers; NaN where there is none."""
    values = np.full((shape[0] * shape[1], *sizes), np.nan)
    places = tuple(rows[name].to_numpy() for name in columns)
    values[(rows["layer"].to_numpy() * shape[1] + rows["head"].to_numpy(), *places)] = rows["value"].to_numpy()
    return values


def _heads(
    table: pd.DataFrame, n: int, shape: tuple[int, int], receivers: Sequence[tuple[int, int]], room: _Room
) -> dict[str, Any] | None:
    """The matrices of single heads, where the run kept them: all, or as many as fit, receiver heads first.

    The lower triangle, row by row: no unit reads a later one.
    """
    rows = table[(table["metric"] == BY_HEAD) & (table["layer"] >= 0)]
    if rows.empty:
        return None
    n_heads, size = shape[0] * shape[1], n * (n + 1) // 2
    first = [layer * shape[1] + head for layer, head in receivers]
    order = [*first, *sorted(set(range(n_heads)) - set(first))]
    kept = sorted(order[: min(n_heads, room.cells // size)])
    room.takes(len(kept) * size)
    mine = rows[(rows["layer"] * shape[1] + rows["head"]).isin(kept)]
    values = _cube(mine, shape, ("query", "key"), (n, n))[kept][:, *np.tril_indices(n)]
    return {"heads": kept, "values": _logs(values)}


def _vertical(table: pd.DataFrame, n: int, shape: tuple[int, int], room: _Room) -> dict[str, Any] | None:
    """What each sentence receives from afar in every head, as [head unit]."""
    rows = table[(table["metric"] == "vertical") & (table["layer"] >= 0)]
    if rows.empty or not room.takes(shape[0] * shape[1] * n):
        return None
    return _logs(_cube(rows, shape, ("key",), (n,)))
