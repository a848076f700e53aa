"""What can be explored of a toy run? Attention maps beside the dependency mask, and training curves."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from interp.report.pack import packed, visible
from interp.report.sources import Run

CURVES = ("accuracy", "token_accuracy", "train_loss", "loss", "entropy_min")
COUNTED = {"samples": "samples", "update": "updates"}
MOST_POINTS = 300
"""On one training curve; longer ones are thinned, first and last kept."""


def toy_data(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """One data set for each toy run, those with the most attention maps first."""
    found = []
    for run in runs:
        table = run.table[run.table["metric"].isin([*CURVES, "attention", "dependency", "token"])]
        for name, of_run in table.groupby("run", sort=False):
            found.append((_name(run, str(name), of_run), str(name), of_run))
    names = Counter(name for name, _, _ in found)
    data = [_data_set(name if names[name] == 1 else f"{name} ({own})", of_run) for name, own, of_run in found]
    return sorted(data, key=lambda one: -len(one["maps"]))


def _name(run: Run, own: str, table: pd.DataFrame) -> str:
    """A toy run by what it was trained for, its condition, model and data, and its seed."""
    origin = str(run.config.get("claim", run.name))
    settings, units = table["setting"].unique(), table["unit"].unique()
    if len(settings) > 1 or len(units) > 1:
        return f"{origin}: {own}"
    return f"{origin}: " + ", ".join(filter(None, (table["condition"].iloc[0], settings[0], f"seed {units[0]}")))


def _data_set(name: str, table: pd.DataFrame) -> dict[str, Any]:
    first = table.iloc[0]
    about = {"name": name, "condition": first["condition"], "unit": first["unit"], "setting": first["setting"]}
    told = {key: visible(str(value)) for key, value in about.items()}
    counted = "update" if table["update"].any() else "samples"  # what the run counts its training in
    return {**told, "counted": COUNTED[counted], **_maps(table, counted), "curves": _curves(table, counted)}


def _maps(table: pd.DataFrame, counted: str) -> dict[str, Any]:
    """Attention as [map layer head query key], one map for each scope and moment; masks and tokens by scope."""
    table = table[table["metric"].isin(["attention", "dependency", "token"])]
    attention = table[(table["metric"] == "attention") & (table["query"] >= 0) & (table["key"] >= 0)]
    if attention.empty:
        return {"maps": []}
    queries = sorted(attention["query"].unique())
    n_keys = int(attention["key"].max()) + 1
    n_layers, n_heads = int(attention["layer"].max()) + 1, int(attention["head"].max()) + 1
    rank = {query: place for place, query in enumerate(queries)}
    maps, values = [], []
    for (scope, moment), part in attention.groupby(["scope", counted]):
        grid = np.full((n_layers, n_heads, len(queries), n_keys), np.nan)
        place = (part["layer"], part["head"], part["query"].map(rank), part["key"])
        grid[tuple(column.to_numpy() for column in place)] = part["value"].to_numpy()
        maps.append([scope, int(moment)])
        values.append(grid)
    needed = table[(table["metric"] == "dependency") & (table["value"] > 0) & table["query"].isin(queries)]
    tokens = table[(table["metric"] == "token") & table["key"].between(0, n_keys - 1)]
    return {
        "maps": maps,
        "layers": n_layers,
        "heads": n_heads,
        "queries": [int(query) for query in queries],
        "keys": n_keys,
        "attention": packed(np.stack(values)),
        "needed": {str(scope): _pairs(part) for scope, part in needed.groupby("scope")},
        "tokens": {str(scope): _input(part, n_keys) for scope, part in tokens.groupby("scope")},
    }


def _pairs(needed: pd.DataFrame) -> list[list[int]]:
    """(query, key) of every dependency, once: the mask belongs to the input, not to the checkpoint."""
    return needed[["query", "key"]].drop_duplicates().sort_values(["query", "key"]).to_numpy().tolist()


def _input(tokens: pd.DataFrame, n_keys: int) -> list[int | None]:
    by_key = dict(zip(tokens["key"], tokens["value"]))
    return [int(by_key[key]) if key in by_key else None for key in range(n_keys)]


def _curves(table: pd.DataFrame, counted: str) -> dict[str, Any]:
    """The training curves over the evaluations of the run."""
    curves = table[table["metric"].isin(CURVES)]
    if curves.empty:
        return {"at": [], "series": []}
    wide = curves.pivot_table(index=counted, columns=["metric", "layer", "head"], values="value")
    if len(wide) > MOST_POINTS:
        wide = wide.iloc[np.unique(np.linspace(0, len(wide) - 1, MOST_POINTS).round().astype(int))]
    series = []
    for metric, layer, head in sorted(wide.columns, key=lambda c: (CURVES.index(c[0]), c[1], c[2])):
        values = packed(wide[metric, layer, head].to_numpy())
        series.append({"metric": metric, "layer": int(layer), "head": int(head), "values": values})
    return {"at": [int(moment) for moment in wide.index], "series": series}
