"""What can be explored of a pretrained model? Every head's numbers under every condition, and paired tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from hf_analysis.measurement.pairs import matched_to, of_pairs, own_settings, sizes_of_pairs
from hf_analysis.text.problems import template_of
from hf_analysis.text.scopes import SCOPES
from interp.core.contrast import Contrast, Side, cluster_totals, head_test, unequal_sizes
from interp.report.pack import packed, visible
from interp.report.sources import Run, model_and_data
from interp.report.tokens import token_data
from probes.attention.statistics import Metric, known_metrics

BOARD = Side("cot", "min", "all"), Side("no_cot", "min", "all")
"""What the explorer shows first: the comparison that wen2024/fig6 is judged by, as the paper published it."""
CONTROLLED = "answer"
"""The tokens over which lengths are matched, in that claim and here."""
PLACE = ["condition", "unit", "layer", "head", "metric", "scope"]


def pretrained_data(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """One data set for each measured model, those with several conditions and many problems first."""
    found = []
    for run in runs:
        table = _metric_rows(run.table)
        measured = table["run"].unique()
        sets = [
            (model_and_data(label, run.config), part)
            for name in measured
            for label, part in _data_sets(str(name), table[table["run"] == name])
        ]
        found += [(label, run.name, part, _tokens_of(run.tokens, part, sets)) for label, part in sets]
    labels = [label for label, *_ in found]
    sets = [
        _data_set(label if labels.count(label) == 1 else f"{label} ({directory})", part, tokens)
        for label, directory, part, tokens in found
    ]
    return sorted(sets, key=lambda one: (len(one["conditions"]) < 2, -len(one["units"])))


def _tokens_of(
    tokens: pd.DataFrame | None, table: pd.DataFrame, sets: Sequence[tuple[str, pd.DataFrame]]
) -> pd.DataFrame | None:
    """The tokens of the model that `table` is of; None where they could be of another of the `sets`.

    Tables made before tokens were kept by run do not name it.
    """
    name = table["run"].iloc[0]
    if tokens is None or sum(part["run"].iloc[0] == name for _, part in sets) > 1:
        return None
    return tokens[tokens["run"].isin([name, ""] if len(sets) == 1 else [name])]


def _metric_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of metrics by head: those of single queries, which toy runs have under the same names, are others."""
    return table[table["metric"].isin(list(known_metrics())) & (table["layer"] >= 0) & (table["query"] < 0)]


def _menu(name: str, metric: Metric) -> list[Any]:
    """What the page needs of a metric: name, label, unit, the ends of its scale, which is sparser, the statistic."""
    statistic = metric.statistic
    high = None if statistic.high is None else float(statistic.high)
    return [name, metric.label, statistic.unit, float(statistic.low), high, statistic.sparser, statistic.name]


def _data_sets(name: str, table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of one model; where a place was measured in several settings, those of each setting."""
    if not table[of_pairs(table) == ""].duplicated(PLACE).any():
        return [(name, table)]
    moments = ["setting", "samples", "update"]
    if table.duplicated([*PLACE, *moments]).any():
        raise ValueError(f"run {name!r} has two values for one head of one problem; rows of two runs were mixed")
    return [
        (f"{name} {setting}" + f" at {seen} samples" * (seen > 0) + f" at update {update}" * (update > 0), part)
        for (setting, seen, update), part in table.groupby([own_settings(table), *moments[1:]], sort=False)
    ]


def _data_set(label: str, table: pd.DataFrame, tokens: pd.DataFrame | None) -> dict[str, Any]:
    conditions = _ordered(table["condition"], ["cot", "no_cot"])
    known = known_metrics()
    metrics = _ordered(table["metric"], list(known))
    scopes = _ordered(table["scope"], list(SCOPES))
    units = sorted(set(table["unit"]))  # the order in which claims flip signs, so that p-values agree with theirs
    n_layers, n_heads = int(table["layer"].max()) + 1, int(table["head"].max()) + 1
    axes = (("metric", metrics), ("scope", scopes), ("condition", conditions), ("unit", units))
    against = of_pairs(table)
    by_condition = _Values(axes, n_layers, n_heads)
    values = by_condition.of(table[against == ""])
    of_pair = {other: matched_to(table, other) for other in conditions if (against == other).any()}
    matched = {other: by_condition.of(part) for other, part in of_pair.items()}
    sizes = {other: by_condition.sizes_of(of_pair.get(other, table[against == ""])) for other in conditions}
    lengths = table.groupby(["scope", "condition"])["n_tokens"].mean()
    return {
        "name": visible(label),
        "layers": n_layers,
        "attending": [int(layer) for layer in sorted(table["layer"].unique())],  # a hybrid has others between them
        "heads": n_heads,
        "conditions": [visible(name) for name in conditions],
        "metrics": [_menu(name, known[name]) for name in metrics],
        "scopes": [visible(name) for name in scopes],
        "scope_labels": [SCOPES[name].label if name in SCOPES else visible(f"tokens: {name}") for name in scopes],
        "units": [visible(name) for name in units],
        "values": [packed(of_metric) for of_metric in values],
        "matched": _matched(matched, values, conditions),
        "lengths": [[round(float(lengths.get((s, c), 0)), 1) for c in conditions] for s in scopes],
        "start": {
            "metric": BOARD[0].metric,
            "scope": BOARD[0].scope,
            "first": BOARD[0].condition,
            "second": BOARD[1].condition,
        },
        "controlled": CONTROLLED,
        "tests": _tests(values, matched, sizes, conditions, [template_of(unit) for unit in units]),
        "tokens": token_data(tokens, n_layers, n_heads),
    }


Cube = Float[np.ndarray, "metric scope condition unit layer head"]


@dataclass(frozen=True)
class _Values:
    """Rows as an array: which metrics, scopes, conditions and problems there are."""

    axes: tuple[tuple[str, list[str]], ...]
    n_layers: int
    n_heads: int

    def of(self, table: pd.DataFrame) -> Cube:
        """The values of rows of which there is one for each place; NaN where there is none."""
        index = [pd.Categorical(table[name], categories=places).codes for name, places in self.axes]
        values = np.full([*(len(places) for _, places in self.axes), self.n_layers, self.n_heads], np.nan)
        values[(*index, table["layer"].to_numpy(), table["head"].to_numpy())] = table["value"].to_numpy()
        return values

    def sizes_of(self, table: pd.DataFrame) -> np.ndarray:
        """By metric, scope, condition and problem, the m of the rows; empty text where they have none."""
        index = [pd.Categorical(table[name], categories=places).codes for name, places in self.axes]
        sizes = np.full([len(places) for _, places in self.axes], "", dtype=object)
        sizes[tuple(index)] = sizes_of_pairs(table)
        return sizes


def _matched(matched: Mapping[str, Cube], values: Cube, conditions: list[str]) -> list[dict[str, Any]]:
    """What a condition has at the length of a shorter one, where that is another number: a column of problems."""
    found = []
    for other, cube in matched.items():
        for metric, scope, condition in np.ndindex(cube.shape[:3]):
            place = (metric, scope, condition)
            if conditions[condition] != other and not np.array_equal(cube[place], values[place], equal_nan=True):
                names = {"condition": visible(conditions[condition]), "against": visible(other)}
                found.append({"metric": metric, "scope": scope, **names, "values": packed(cube[place])})
    return found


def declared_pairs(conditions: Sequence[str]) -> list[tuple[str, str]]:
    """Which conditions are tested against each other: all against no_cot, and cot against the controls."""
    against = [(c, "no_cot") for c in conditions if c != "no_cot" and "no_cot" in conditions]
    controls = [("cot", c) for c in conditions if c not in ("cot", "no_cot") and "cot" in conditions]
    return against + controls


def _tests(
    values: Cube,
    matched: Mapping[str, Cube],
    sizes: Mapping[str, np.ndarray],
    conditions: list[str],
    clusters: list[str],
) -> list[dict[str, Any]]:
    """For each declared pair, metric and scope: adjusted p of every head, and the mean difference.

    As in `contrast`, none where the two sides are of unequal numbers of tokens.
    """
    tests = []
    present = np.flatnonzero(~np.isnan(values).all((0, 1, 2, 3, 5)))  # a hybrid has no rows of other layers
    for first, second in declared_pairs(conditions):
        a = matched.get(second, values)[:, :, conditions.index(first)]
        b = matched.get(first, values)[:, :, conditions.index(second)]
        m_a, m_b = sizes[second][:, :, conditions.index(first)], sizes[first][:, :, conditions.index(second)]
        for metric, scope in np.ndindex(a.shape[:2]):
            of_first, of_second = a[metric, scope][:, present], b[metric, scope][:, present]
            complete = np.flatnonzero(~np.isnan(of_first - of_second).any((1, 2)))
            labels = tuple(clusters[unit] for unit in complete)
            unequal = unequal_sizes(m_a[metric, scope][complete], m_b[metric, scope][complete])
            if len(set(labels)) < 2 or len(unequal):
                continue
            place = {"pair": [visible(first), visible(second)], "metric": metric, "scope": scope}
            found = Contrast(of_first[complete], of_second[complete], labels, layers=tuple(present.tolist()))
            tests.append({**place, **_test(found, values.shape[4])})
    return tests


def _test(found: Contrast, n_layers: int) -> dict[str, Any]:
    """Heads by sign-flip max-T; the mean over heads with its interval over problems, or over clusters of them."""
    differences = found.differences
    by_head = head_test(cluster_totals(differences.reshape(len(differences), -1), found.labels))
    p_values = np.full((n_layers, differences.shape[2]), np.nan)
    p_values[found.layer_numbers] = by_head.p_adjusted.reshape(differences.shape[1:])
    mean = found.overall()
    return {
        "n": len(differences),
        "clusters": found.n_clusters,
        "level": mean.level,
        "p": packed(p_values),
        "smallest_p": round(by_head.smallest_p, 5),
        "mean": [round(float(x), 5) for x in (mean.value, mean.low, mean.high)],
    }


def _ordered(column: pd.Series, first: list[str]) -> list[str]:
    """The values of `column`: those of `first` in their order, then the others as they appear."""
    present = list(dict.fromkeys(column))
    return [name for name in first if name in present] + [name for name in present if name not in first]
