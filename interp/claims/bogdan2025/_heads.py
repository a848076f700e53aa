"""What is judged of receiver heads? Kurtoses by trace and head, heads chosen on other templates, and the parts.

A head's score on a trace is the kurtosis over sentences of what each receives from those at least `gap` later
(`probes.attention.sentences`). Heads are chosen by their mean score over the traces of *other* templates, and looked
at on the trace itself: a head that is high by chance is not high again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from interp.core.judging import DIFFERENCE, UNBOUNDED
from interp.core.parts import NotMeasurable, Part, Unit
from interp.core.problem_runs import clusters_of, unit_of
from interp.core.trace_runs import Traces, mean_over_traces
from interp.statistics import Interval
from interp.statistics.ranks import split_half

TOP, SHARE = 16, 8
"""Receiver heads: the 16 highest, but no more than one head in eight."""
VERSIONS = {
    "kurtosis": "as published",
    "kurtosis_depth": "by ranks within each reading sentence",
    "kurtosis_length": "without what length explains",
    "kurtosis_without_sink": "without the first token",
}
TRACE, NULLS = "trace", ("rotated", "permuted")
N_SPLITS = 20
EXCESS, BEYOND, AGREEMENT = 0.5, 0.25, 0.3
"""Smallest differences of kurtosis that are of interest, and the smallest rank correlation."""
HEADS = "on receiver heads"


@dataclass(frozen=True)
class Scores:
    """One version of the kurtosis, of the traces and heads that have it on the trace and under both nulls."""

    units: tuple[str, ...]
    clusters: np.ndarray
    of: Mapping[str, Float[np.ndarray, "trace head"]]
    """By condition."""
    heads: tuple[tuple[int, int], ...]

    @property
    def n_clusters(self) -> int:
        return len(np.unique(self.clusters))


def summary(rows: pd.DataFrame) -> dict[str, Scores]:
    """By version of the kurtosis."""
    of = dict(iter(rows[rows["metric"].isin(VERSIONS)].groupby("metric")))
    return {version: scores(of.get(version, rows.iloc[:0]), version) for version in VERSIONS}


def scores(rows: pd.DataFrame, version: str) -> Scores:
    """The scores of one version; a head without a score on some trace, all of whose sentences receive alike, is left
    out."""
    chosen = rows[rows["metric"] == version]
    wide = {
        condition: part.pivot(index="unit", columns=["layer", "head"], values="value")
        for condition, part in chosen.groupby("condition")
    }
    if not set(wide) >= {TRACE, *NULLS}:
        return Scores((), np.array([]), dict.fromkeys((TRACE, *NULLS), np.empty((0, 0))), ())
    units = sorted(set.intersection(*(set(wide[name].index) for name in (TRACE, *NULLS))))
    whole = {name: wide[name].loc[units].dropna(axis=1) for name in (TRACE, *NULLS)}
    heads = sorted(set.intersection(*(set(table.columns) for table in whole.values())))
    of = {name: table[heads].to_numpy(float) for name, table in whole.items()}
    return Scores(tuple(units), clusters_of(units), of, tuple((int(layer), int(head)) for layer, head in heads))


def n_chosen(n_heads: int) -> int:
    """How many heads are called receiver heads."""
    return min(TOP, max(1, n_heads // SHARE))


def chosen_elsewhere(found: Scores) -> Int[np.ndarray, "trace chosen"]:
    """For each trace the heads of the highest mean score over the traces of other templates."""
    own = found.of[TRACE]
    places = np.empty((len(own), n_chosen(own.shape[1])), dtype=int)
    for cluster in np.unique(found.clusters):
        inside = found.clusters == cluster
        places[inside] = np.argsort(-own[~inside].mean(0), kind="stable")[: places.shape[1]]
    return places


def excess(found: Mapping[str, Scores], level: float, *, version: str) -> Interval | NotMeasurable:
    """Kurtosis of the receiver heads minus that of all heads, on traces that did not choose them."""
    one = found[version]
    if one.n_clusters < 2 or not one.heads:
        return _too_few(one)
    own = one.of[TRACE]
    value = np.take_along_axis(own, chosen_elsewhere(one), 1).mean(1) - own.mean(1)
    return mean_over_traces(pd.Series(value, one.units), level, UNBOUNDED)


def beyond(found: Mapping[str, Scores], level: float, *, version: str, null: str) -> Interval | NotMeasurable:
    """Kurtosis of the receiver heads, trace minus null, on traces that did not choose them."""
    one = found[version]
    if one.n_clusters < 2 or not one.heads:
        return _too_few(one)
    difference = one.of[TRACE] - one.of[null]
    value = np.take_along_axis(difference, chosen_elsewhere(one), 1).mean(1)
    return mean_over_traces(pd.Series(value, one.units), level, UNBOUNDED)


def agreement(found: Mapping[str, Scores], level: float, *, version: str, null: str = "") -> Interval | NotMeasurable:
    """The rank correlation over heads of each trace's scores with the mean scores of the half that it is not in.

    Templates are divided at random, many times, and each trace's correlations are averaged.
    """
    one = found[version]
    if one.n_clusters < 4 or len(one.heads) < 3:
        return _too_few(one)
    values = one.of[TRACE] - (one.of[null] if null else 0.0)
    return mean_over_traces(pd.Series(half_correlations(values, one.clusters), one.units), level, DIFFERENCE)


def half_correlations(values: Float[np.ndarray, "trace head"], clusters: np.ndarray) -> Float[np.ndarray, "trace"]:
    """Each trace's correlation with the other half of the templates, the mean over random halves."""
    generator = np.random.default_rng(0)
    _, codes = np.unique(clusters, return_inverse=True)
    own, total = _standard_ranks(values), np.zeros(len(values))
    for _ in range(N_SPLITS):
        first = np.isin(codes, generator.permutation(codes.max() + 1)[: (codes.max() + 1) // 2])
        for half in (first, ~first):
            total[~half] += own[~half] @ _standard_ranks(values[half].mean(0, keepdims=True))[0]
    return np.clip(total / N_SPLITS, -1, 1)


def _standard_ranks(values: Float[np.ndarray, "row head"]) -> Float[np.ndarray, "row head"]:
    """Ranks within each row, of mean 0 and norm 1: their product is Spearman's correlation."""
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=1)
    centred = ranks - ranks.mean(1, keepdims=True)
    norm = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.divide(centred, norm, out=np.zeros_like(centred), where=norm > 0)


def _too_few(one: Scores) -> NotMeasurable:
    return NotMeasurable(
        f"{len(one.units)} traces of {one.n_clusters} templates are long enough for a kurtosis; heads are chosen on "
        "one half and looked at on the other"
    )


def parts(preset: Traces) -> list[Part]:
    """Receiver heads exist and stay the same (as published), beyond both nulls (our reading), and under controls."""
    unit, sizes = unit_of(preset.data), "the kurtosis of eight normal scores has a standard deviation of 0.7"
    high = f"a head that is no higher by {EXCESS:g} than all on average does not stand out: {sizes}"
    more = f"{BEYOND:g} is the smallest difference that we count, whatever n is: {sizes}"
    found = [
        Part(
            key="exists", name="receiver heads single out sentences more than heads do on average", role="paper",
            source=HEADS, primary=True, direction="above", threshold=EXCESS, why=high, unit=unit,
            quantity="kurtosis of the receiver heads that other templates chose minus that of all heads",
            estimate=partial(excess, version="kurtosis"), note=_sizes,
        ),
        Part(
            key="reliable", name="the same heads are high in other traces", role="paper", source=HEADS, primary=True,
            quantity="rank correlation over heads of one trace's kurtoses with the means of the other half",
            estimate=partial(agreement, version="kurtosis"), direction="above", threshold=AGREEMENT, unit=unit,
            why="a trace that agrees so with the mean of 20 others ranks heads with a reliability of 0.12 alone, and "
            "the mean of 20 with one of 0.74 (Spearman and Brown)",
            note=_reliability,
        ),
    ]  # fmt: skip
    words = {"rotated": "as many pieces, as long, at other boundaries", "permuted": "its sentences in random order"}
    for null in NULLS:
        found.append(
            Part(
                key=f"beyond_{null}", name=f"receiver heads, beyond the {null} trace: {words[null]}", role="paper",
                source=f"{HEADS} (our reading: they are about these sentences in this order)", primary=True,
                quantity=f"kurtosis of the receiver heads that other templates chose, trace minus {null}",
                estimate=partial(beyond, version="kurtosis", null=null), direction="above", threshold=BEYOND,
                why=more, unit=unit,
            )
        )  # fmt: skip
    for version, said in list(VERSIONS.items())[1:]:
        short = version.removeprefix("kurtosis_")
        found += [
            Part(
                key=f"exists_{short}", name=f"receiver heads, {said}", role="control", direction="above",
                quantity=f"kurtosis ({said}) of the receiver heads chosen elsewhere minus that of all heads",
                estimate=partial(excess, version=version), threshold=EXCESS, why=high, unit=unit,
            ),
            Part(
                key=f"beyond_rotated_{short}", name=f"receiver heads beyond the rotated trace, {said}",
                role="control", quantity=f"kurtosis ({said}) of the receiver heads, trace minus rotated",
                estimate=partial(beyond, version=version, null="rotated"), direction="above", threshold=BEYOND,
                why=more, unit=unit,
            ),
        ]  # fmt: skip
    return [*found, *(_ranking_beyond(null, unit) for null in NULLS)]


def _ranking_beyond(null: str, unit: Unit) -> Part:
    return Part(
        key=f"reliable_beyond_{null}", role="ours",
        name=f"the same heads are beyond the {null} trace in other traces",
        quantity=f"rank correlation over heads of one trace's kurtoses minus {null} with the means of the other half",
        estimate=partial(agreement, version="kurtosis", null=null), direction="above", threshold=0.1, unit=unit,
        why="what is left beyond a null is noisier than a kurtosis: at 0.1 the ranks share 1% of their variance",
    )  # fmt: skip


def _sizes(found: Mapping[str, Scores]) -> str:
    one = found["kurtosis"]
    if not one.heads:
        return ""
    means = ", ".join(f"{name} {one.of[name].mean():.2f}" for name in (TRACE, *NULLS))
    return (
        f"{len(one.units)} traces of {one.n_clusters} templates; {n_chosen(len(one.heads))} of {len(one.heads)} "
        f"heads are chosen; mean over all heads: {means}"
    )


def _reliability(found: Mapping[str, Scores]) -> str:
    one = found["kurtosis"]
    if one.n_clusters < 4:
        return ""
    value = split_half(one.of[TRACE], rng=0, n_splits=N_SPLITS)
    return f"split-half reliability of the ranking by the mean over all traces: {value:.2f}"
