"""What does a head look at, token by token? The text of the problems whose tokens were kept."""

from typing import Any

import numpy as np
import pandas as pd

from interp.report.pack import packed_bytes, visible

MOST_VALUES = 2_000_000
"""Bytes for all texts of one model; further problems are left out, and the page says so."""
STEP = 0.004
"""Values are shown as colours: 251 shades from 0 to 1."""


def token_data(tokens: pd.DataFrame | None, n_layers: int, n_heads: int) -> dict[str, Any]:
    """The texts with every head's entropies, by problem and condition; how many problems were left out."""
    if tokens is None or tokens.empty:
        return {"texts": [], "left_out": 0}
    texts: list[dict[str, Any]] = []
    used, left_out = 0, 0
    for problem, of_problem in tokens.groupby("problem", sort=False):
        parts = [
            _text(str(problem), str(condition), part, n_layers, n_heads)
            for condition, part in of_problem.groupby("condition", sort=False)
        ]
        size = sum(len(part["tokens"]) for part in parts) * n_layers * n_heads
        if texts and used + size > MOST_VALUES:
            left_out += 1
            continue
        used += size
        texts += parts
    return {"texts": texts, "left_out": left_out}


def _text(problem: str, condition: str, table: pd.DataFrame, n_layers: int, n_heads: int) -> dict[str, Any]:
    """One text: its tokens, and values as [layer head token]."""
    by_position = table.drop_duplicates("position").sort_values("position")
    positions = by_position["position"].to_numpy()
    values = np.full((n_layers, n_heads, len(positions)), np.nan)
    place = np.searchsorted(positions, table["position"].to_numpy())
    values[table["layer"].to_numpy(), table["head"].to_numpy(), place] = table["value"].to_numpy()
    return {
        "problem": visible(problem),
        "condition": visible(condition),
        "tokens": [visible(str(token)) for token in by_position["token"]],
        "first": int(positions[0]),
        "question": int((by_position["part"] == "question").sum()),
        "values": packed_bytes(values, STEP),
    }
