"""What do the rows of traces say? Receiver heads beyond their nulls, hidden sentences beyond random spans, how
far the answer depends on the reasoning, and whether the measures of a sentence's importance agree.

The unit of replication is the trace; traces of one template are one cluster. Everything is computed from rows alone.
"""

import itertools
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from hf_analysis.text.problems import template_of
from hf_analysis.traces.receivers import VERSIONS
from hf_analysis.traces.sentences import BEYOND_CONTROL, sentence_lengths, sentence_table
from interp.core.contrast import FEWEST_FOR_HEADS, N_FLIPS
from interp.core.judging import DIFFERENCE, SHARE, UNBOUNDED
from interp.statistics import ALPHA, Interval, clustered_mean, sign_flip_max_t
from interp.statistics.ranks import rank_correlation, split_half

TOP = 16
"""Receiver heads whose vertical scores are a sentence's attention, in comparisons with other measures."""
NULLS = ("rotated", "permuted")


@dataclass(frozen=True)
class Estimate:
    """One number over traces."""

    name: str
    interval: Interval

    def record(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self.interval)}


def summary(table: pd.DataFrame, top: int = TOP) -> dict[str, Any]:
    """Everything that can be said of the rows, as plain values."""
    return {
        "receiver_heads": receiver_heads(table, top),
        "reliability": reliability(table),
        "estimates": [one.record() for one in (*receivers(table), *suppression(table), *faithfulness(table))],
        "agreement": [one.record() for one in agreement(table, top)],
        "traces": int(table["unit"].nunique()),
    }


def mean_over_traces(name: str, values: pd.Series, bounds: tuple[float, float] = UNBOUNDED) -> list[Estimate]:
    """The mean of one value within `bounds` for each trace, with its interval over clusters; nothing below two of
    them."""
    values = values.dropna()
    clusters = np.array([trace_cluster(unit) for unit in values.index], dtype=object)
    if len(set(clusters)) < 2:
        return []
    found = clustered_mean(values.to_numpy(dtype=float), clusters, rng=0)
    return [Estimate(name, replace(found, low=max(found.low, bounds[0]), high=min(found.high, bounds[1])))]


def trace_cluster(unit: str) -> str:
    """What traces share: the template of their problem, or the problem itself where several are of one."""
    return template_of(unit.partition(" sample=")[0])


def cube(table: pd.DataFrame, metric: str, condition: str) -> tuple[list[str], Float[np.ndarray, "trace layer head"]]:
    """The values of every head, of the traces that have all of them."""
    chosen = table[(table["metric"] == metric) & (table["condition"] == condition)]
    wide = chosen.pivot_table(index="unit", columns=["layer", "head"], values="value").dropna()
    if not len(wide):
        return [], np.empty((0, 0, 0))
    shape = (len(wide), int(chosen["layer"].max()) + 1, int(chosen["head"].max()) + 1)
    full = len(wide.columns) == shape[1] * shape[2]
    return (list(wide.index), wide.to_numpy().reshape(shape)) if full else ([], np.empty((0, *shape[1:])))


def beyond(table: pd.DataFrame, metric: str, null: str) -> tuple[list[str], Float[np.ndarray, "trace layer head"]]:
    """The same minus the null, of the traces that have both."""
    (units, own), (others, chance) = (cube(table, metric, name) for name in ("trace", null))
    common = [unit for unit in units if unit in set(others)]
    if not common:
        return [], np.empty((0, 0, 0))
    return common, own[[units.index(u) for u in common]] - chance[[others.index(u) for u in common]]


def receivers(table: pd.DataFrame) -> list[Estimate]:
    """For each version of the kurtosis, its mean over heads, on the trace and beyond each null."""
    found = []
    for version in VERSIONS:
        units, values = cube(table, version, "trace")
        found += mean_over_traces(f"{version}, mean over heads", pd.Series(_head_means(values), units, dtype=float))
        for null in NULLS:
            units, values = beyond(table, version, null)
            series = pd.Series(_head_means(values), units, dtype=float)
            found += mean_over_traces(f"{version} beyond {null}, mean over heads", series)
    return found


def _head_means(values: Float[np.ndarray, "trace layer head"]) -> list[float]:
    return [float(one.mean()) for one in values]


def receiver_heads(table: pd.DataFrame, top: int) -> list[dict[str, Any]]:
    """The heads of the highest mean kurtosis as published, beside what is left of it beyond each null, with p-values
    of that over all heads together (max-T, one-sided) where there are enough clusters."""
    units, values = cube(table, "kurtosis", "trace")
    if not units:
        return []
    extra: dict[str, np.ndarray] = {}
    for null in NULLS:
        paired, difference = beyond(table, "kurtosis", null)
        if not paired:
            continue
        extra[f"beyond_{null}"] = difference.mean(0)
        clusters = pd.Series([trace_cluster(unit) for unit in paired])
        means = np.stack(
            [difference[group].mean(0).reshape(-1) for group in clusters.groupby(clusters).groups.values()]
        )
        if len(means) >= FEWEST_FOR_HEADS:
            tested = sign_flip_max_t(means, rng=0, n_flips=N_FLIPS, alternative="greater")
            extra[f"p_{null}"] = tested.p_adjusted.reshape(difference.shape[1:])
            extra[f"clear_{null}"] = np.full(difference.shape[1:], int((tested.p_adjusted < ALPHA).sum()))
    found, mean = [], values.mean(0)
    for place in np.argsort(-mean, axis=None, kind="stable")[:top]:
        layer, head = np.unravel_index(place, mean.shape)
        others = {name: float(value[layer, head]) for name, value in extra.items()}
        found.append({"layer": int(layer), "head": int(head), "kurtosis": float(mean[layer, head]), **others})
    return found


def reliability(table: pd.DataFrame) -> dict[str, float]:
    """Split-half reliability over traces of the heads' ranking, by version, and beyond each null."""
    found = {}
    for version in VERSIONS:
        sources = {version: cube(table, version, "trace")}
        sources |= {f"{version} beyond {null}": beyond(table, version, null) for null in NULLS}
        for name, (units, values) in sources.items():
            if len(units) >= 2:
                found[name] = split_half(values.reshape(len(units), -1), rng=0)
    return {name: value for name, value in found.items() if np.isfinite(value)}


def suppression(table: pd.DataFrame) -> list[Estimate]:
    """What hiding a sentence does beyond hiding a random span next to it: nats of log divergence, by trace."""
    sentences = sentence_table(table)
    if BEYOND_CONTROL not in sentences:
        return []
    return mean_over_traces(BEYOND_CONTROL, sentences.groupby("unit")[BEYOND_CONTROL].mean())


def faithfulness(table: pd.DataFrame) -> list[Estimate]:
    """Early answering's areas, and what the answer loses by each change of the reasoning."""
    found = []
    for metric, bounds in (("early_area_right", DIFFERENCE), ("early_area_log_odds", UNBOUNDED)):
        found += mean_over_traces(metric, table[table["metric"] == metric].set_index("unit")["value"], bounds)
    for metric, bounds, change in (
        ("answer_right", SHARE, DIFFERENCE),
        ("answer_log_odds", UNBOUNDED, UNBOUNDED),
    ):
        chosen = table[table["metric"] == metric]
        early = chosen[chosen["condition"] == "early"].sort_values("n_tokens").groupby("unit")["value"]
        whole, nothing = early.last(), early.first()
        found += mean_over_traces(f"{metric} with the whole reasoning", whole, bounds)
        found += mean_over_traces(f"{metric} lost without reasoning", whole - nothing, change)
        for condition in ("mistake", "filler", "swapped"):
            changed = chosen[chosen["condition"] == condition].groupby("unit")["value"].mean()
            found += mean_over_traces(f"{metric} lost by {condition}", whole - changed, change)
    return found + continued(table)


def continued(table: pd.DataFrame) -> list[Estimate]:
    """Where the model goes on by itself: how often it is right, what that loses by a mistake before it, and how often
    it states the same answer after one."""

    def means(metric: str, condition: str) -> pd.Series:
        chosen = table[(table["metric"] == metric) & (table["condition"] == condition)]
        return chosen.groupby("unit")["value"].mean()

    right, wrong = (means("continued_right", name) for name in ("continued", "mistake_continued"))
    return [
        *mean_over_traces("continued_right as the sentence stands", right, SHARE),
        *mean_over_traces("continued_right lost by mistake_continued", right - wrong, DIFFERENCE),
        *mean_over_traces("continued_same after a mistake", means("continued_same", "mistake_continued"), SHARE),
    ]


def agreement(table: pd.DataFrame, top: int = TOP) -> list[Estimate]:
    """Rank correlations between measures of a sentence's importance within each trace, their means over traces.

    Plain, and partial on the sentence's position and length. `attention` is the vertical score in the `top` receiver
    heads by kurtosis over the *other* clusters: heads are not chosen on the trace they are tried on.
    """
    sentences = _with_attention(table, top)
    measures = [name for name in sentences.columns if name not in ("unit", "sentence", "length")]
    found = []
    for first, second in itertools.combinations(measures, 2):
        plain, partial = {}, {}
        for unit, part in sentences.dropna(subset=[first, second, "length"]).groupby("unit"):
            controls = part[["sentence", "length"]].to_numpy(dtype=float).T
            scores = part[first].to_numpy(dtype=float), part[second].to_numpy(dtype=float)
            plain[unit], partial[unit] = rank_correlation(*scores), rank_correlation(*scores, controls)
        names = f"{first} and {second}", f"{first} and {second}, given position and length"
        for name, values in zip(names, (plain, partial)):
            found += mean_over_traces(name, pd.Series(values, dtype=float), DIFFERENCE)
    return found


def _with_attention(table: pd.DataFrame, top: int) -> pd.DataFrame:
    """The sentences of all traces with their lengths; attention in heads that other clusters chose."""
    whole = sentence_table(table)
    lengths = sentence_lengths(table).rename("length")
    if not len(whole) or not len(lengths):
        return pd.DataFrame(columns=["unit", "sentence", "length"])
    units, values = cube(table, "kurtosis", "trace")
    clusters = np.array([trace_cluster(unit) for unit in units], dtype=object)
    parts = []
    for unit, part in table[table["metric"] == "vertical"].groupby("unit"):
        others = values[clusters != trace_cluster(str(unit))] if units else values
        if len(others):
            mean = others.mean(0)
            best = np.argsort(-mean, axis=None, kind="stable")[:top]
            heads = [(int(place // mean.shape[1]), int(place % mean.shape[1])) for place in best]
            parts.append(sentence_table(part, heads)[["unit", "sentence", "attention"]])
    whole = whole.drop(columns="attention", errors="ignore")
    if parts:
        whole = pd.concat(parts).merge(whole, on=["unit", "sentence"], how="outer")
    return whole.merge(lengths.rename_axis(["unit", "sentence"]).reset_index(), on=["unit", "sentence"], how="left")
