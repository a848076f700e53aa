"""What does a head look at, token by token? The texts of the problems whose tokens were kept.

Of every token its normalised entropy, as a colour; of the tokens of the closing sentence each statistic that was
kept, as numbers, so that two texts which end in the same sentence can be compared there token by token.
"""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.core.contrast import Side
from interp.report.pack import packed, packed_bytes, visible
from probes.attention.statistics import Statistic, known_metrics

COLOURED = "normalised_entropy"
"""The statistic that is kept of every token."""
SENTENCE = Side("cot_clean", "min", "final"), Side("no_cot", "min", "final")
"""The texts shown first: those whose closing sentence wen2024/fig6 compares."""
MOST_VALUES = 2_000_000
"""Bytes for all texts of one model; further problems are left out, and the page says so."""
STEP = 0.004
"""Values are shown as colours: 251 shades from 0 to 1."""


def token_data(tokens: pd.DataFrame | None, n_layers: int, n_heads: int) -> dict[str, Any]:
    """The texts with every head's values, by problem and condition; how many problems were left out.

    The statistics of closing sentences are those of the registry that were kept, in the order of metrics.
    """
    start = {"first": SENTENCE[0].condition, "second": SENTENCE[1].condition}
    if tokens is None or tokens.empty:
        return {"texts": [], "left_out": 0, "start": start, "statistics": []}
    kept = set(tokens["statistic"])
    known = {metric.statistic.name: metric.statistic for metric in known_metrics().values()}
    statistics = [one for name, one in known.items() if name in kept]
    texts: list[dict[str, Any]] = []
    used, left_out = 0, 0
    for problem, of_problem in tokens.groupby("problem", sort=False):
        parts = [
            _Text(part, n_layers, n_heads).record(str(problem), str(condition), statistics)
            for condition, part in of_problem.groupby("condition", sort=False)
        ]
        size = sum(len(part["tokens"]) + 2 * len(statistics) * part["closing"] for part in parts) * n_layers * n_heads
        if texts and used + size > MOST_VALUES:
            left_out += 1
            continue
        used += size
        texts += parts
    menu = [[one.name, visible(one.label), visible(one.unit), one.sparser] for one in statistics]
    return {"texts": texts, "left_out": left_out, "start": start, "statistics": menu}


class _Text:
    """One text, as rows of the table of tokens."""

    def __init__(self, table: pd.DataFrame, n_layers: int, n_heads: int) -> None:
        self.table, self.n_layers, self.n_heads = table, n_layers, n_heads
        self.by_position = table.drop_duplicates("position").sort_values("position")

    def record(self, problem: str, condition: str, statistics: list[Statistic]) -> dict[str, Any]:
        """Its tokens; values as [layer head token], those of its closing sentence by statistic."""
        closing = int((self.by_position["part"] == "closing").sum())
        sentence = (
            {} if not closing else {one.name: packed(self._values(one.name)[..., -closing:]) for one in statistics}
        )
        return {
            "problem": visible(problem),
            "condition": visible(condition),
            "tokens": [visible(str(token)) for token in self.by_position["token"]],
            "first": int(self.by_position["position"].iloc[0]),
            "question": int((self.by_position["part"] == "question").sum()),
            "closing": closing,
            "values": packed_bytes(self._values(COLOURED), STEP),
            "sentence": sentence,
        }

    def _values(self, statistic: str) -> Float[np.ndarray, "layer head token"]:
        """NaN where nothing was kept."""
        mine = self.table[self.table["statistic"] == statistic]
        values = np.full((self.n_layers, self.n_heads, len(self.by_position)), np.nan)
        place = np.searchsorted(self.by_position["position"].to_numpy(), mine["position"].to_numpy())
        values[mine["layer"].to_numpy(), mine["head"].to_numpy(), place] = mine["value"].to_numpy()
        return values
