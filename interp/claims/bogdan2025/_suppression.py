"""What is judged of attention and suppression? Their rank correlations within each trace, and the parts.

A sentence's attention is what it receives from those at least `gap` later, in the receiver heads that *other*
templates chose by their kurtosis. Its suppression is what hiding it from all later tokens does to their predictions:
log divergence, minus the usual effect at each later sentence. Both fall with the distance and rise with the length of
a sentence, so correlations are partial on its place and its length.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from hf_analysis.traces.sentences import BEYOND_CONTROL, SUPPRESSION, sentence_table
from interp.claims.bogdan2025._heads import n_chosen
from interp.core.judging import DIFFERENCE
from interp.core.parts import NotMeasurable, Part, Role
from interp.core.problem_runs import clusters_of, unit_of
from interp.core.trace_runs import Traces, mean_over_traces
from interp.statistics import Interval
from interp.statistics.ranks import rank_correlation

READ = ("vertical", "kurtosis", "suppression_effect", "suppression_log_kl", "attention_mean")
"""Metrics that the parts read."""
SECTION = "on receiver heads and on attention suppression"


def read_by_parts(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that parts and figures read: of attention between sentences, means over heads; no null."""
    chosen = rows["metric"].isin(READ) & ~rows["condition"].isin(("rotated", "permuted"))
    return rows[chosen & ((rows["metric"] != "attention_mean") | (rows["layer"] == -1))].reset_index(drop=True)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """One line for each trace, one column for each correlation; NaN where a trace has too few sentences."""
    sentences = sentence_scores(rows)
    found = {unit: _of_trace(part) for unit, part in sentences.groupby("unit")}
    table = pd.DataFrame.from_dict(found, orient="index", columns=list(NAMES)).rename_axis("unit")
    pairs = pair_correlations(rows)
    return table.assign(pairs=pairs.reindex(table.index), **{DIFFERS: table["partial"] - table["all_heads"]})


def sentence_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """By trace and sentence: attention in receiver heads and in all, suppression, place and length."""
    vertical = rows[rows["metric"] == "vertical"]
    wide = vertical.pivot(index=["unit", "key"], columns=["layer", "head"], values="value").sort_index()
    scores = rows[(rows["metric"] == "kurtosis") & (rows["condition"] == "trace")]
    kurtosis = scores.pivot(index="unit", columns=["layer", "head"], values="value").reindex(columns=wide.columns)
    kurtosis = kurtosis.sort_index()
    clusters, of_row = clusters_of(kurtosis.index), clusters_of(wide.index.get_level_values("unit"))
    receivers = pd.Series(np.nan, wide.index)
    for cluster in np.unique(of_row):
        others = kurtosis[clusters != cluster]
        if len(others):
            order = np.argsort(-others.mean().fillna(-np.inf).to_numpy(), kind="stable")[: n_chosen(wide.shape[1])]
            receivers[of_row == cluster] = wide.to_numpy()[of_row == cluster][:, order].mean(1)
    hidden = sentence_table(rows[rows["metric"].str.startswith("suppression")]).rename(columns={"sentence": "key"})
    lengths = vertical.groupby(["unit", "key"])["n_tokens"].first()
    table = pd.DataFrame({"receivers": receivers, "all": wide.mean(axis=1), "length": lengths})
    return table.reset_index().merge(hidden, on=["unit", "key"])


def _of_trace(part: pd.DataFrame) -> list[float]:
    place = part[["key", "length"]].to_numpy(float).T
    near = part.dropna(subset=BEYOND_CONTROL) if BEYOND_CONTROL in part else part.iloc[:0]

    def correlated(table: pd.DataFrame, first: str, second: str, controls: np.ndarray | None) -> float:
        return rank_correlation(table[first].to_numpy(float), table[second].to_numpy(float), controls)

    if part["receivers"].isna().any():
        return [float("nan")] * len(NAMES)
    return [
        correlated(part, "receivers", SUPPRESSION, place),
        correlated(part, "receivers", SUPPRESSION, None),
        correlated(near, "receivers", BEYOND_CONTROL, near[["key", "length"]].to_numpy(float).T)
        if len(near)
        else float("nan"),
        correlated(part, "all", SUPPRESSION, place),
    ]


def pair_correlations(rows: pd.DataFrame) -> pd.Series:
    """By trace: over pairs of sentences, the correlation of attention, the mean over heads, with the log divergence
    of the reading one when the read one is hidden; partial on distance, the reader's place and the read length."""
    keys = ["unit", "query", "key"]
    attention = rows[(rows["metric"] == "attention_mean") & (rows["layer"] == -1)].set_index(keys)
    hidden = rows[(rows["metric"] == "suppression_log_kl") & (rows["condition"] == "hidden")].set_index(keys)
    table = attention[["value", "n_tokens"]].join(hidden["value"].rename("hidden"), how="inner").reset_index()
    found = {}
    for unit, part in table.sort_values(keys).groupby("unit"):
        controls = np.stack([part["query"] - part["key"], part["query"], part["n_tokens"]]).astype(float)
        found[unit] = rank_correlation(part["value"].to_numpy(float), part["hidden"].to_numpy(float), controls)
    return pd.Series(found, dtype=float)


DIFFERS = "receivers_over_all"
NAMES = {
    "partial": "receiver heads and suppression, given place and length",
    "plain": "receiver heads and suppression, plain",
    "beyond_control": "receiver heads and suppression beyond a random span near it, given place and length",
    "all_heads": "all heads and suppression, given place and length",
}
PAIRS = "pairs of sentences: attention and suppression, given distance, place and length"
SHOWN = {**NAMES, "pairs": PAIRS, DIFFERS: "receiver heads minus all heads, given place and length"}
_ZERO = "any correlation above zero is what the claim says; the interval says how large it is"


def correlation(found: pd.DataFrame, level: float, *, name: str) -> Interval | NotMeasurable:
    """The mean over traces of one correlation."""
    bounds = (-2.0, 2.0) if name == DIFFERS else DIFFERENCE
    return mean_over_traces(found[name], level, bounds)


def parts(preset: Traces) -> list[Part]:
    """The partial correlation as claimed, and what it could owe to other things."""
    roles: Mapping[str, Role] = {"partial": "paper", "beyond_control": "control"}
    return [_part(name, roles.get(name, "ours"), preset) for name in SHOWN]


def _part(name: str, role: Role, preset: Traces) -> Part:
    return Part(
        key=name,
        name=SHOWN[name],
        role=role,
        source=f"{SECTION} (our reading: beyond place and length)" if role == "paper" else "",
        primary=role == "paper",
        quantity=f"rank correlation within a trace, mean over traces: {SHOWN[name]}",
        estimate=partial(correlation, name=name),
        direction="above",
        threshold=0.0,
        why=_ZERO,
        unit=unit_of(preset.data),
        note=partial(_counted, name=name),
    )


def _counted(found: pd.DataFrame, name: str) -> str:
    values = found[name].dropna()
    return f"{len(values)} traces; above zero in {(values > 0).mean():.0%} of them" if len(values) else ""
