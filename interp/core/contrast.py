"""How do two conditions differ on the same problems? Paired differences by head and overall.

The unit of replication is the problem: heads are averaged within a problem before anything is inferred, and
per-head tests flip the signs of whole problems, so dependence between heads is kept. Problems made from one template
are one cluster: they are flipped together, and intervals are for new templates. What depends on the pair (equal
length, m tokens) is read from the rows of that pair, on both sides (`hf_analysis.measurement.pairs`).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from hf_analysis.measurement.pairs import of_pair, of_pairs, sizes_of_pairs
from hf_analysis.text.problems import template_of
from interp.statistics import ALPHA, Interval, MaxT, clustered_mean, sign_flip_max_t

N_FLIPS = 4999
FEWEST_FOR_HEADS = 6
"""With n clusters no sign-flip p-value is below 2^(1-n): fewer than six cannot reach ALPHA."""


class NotPaired(ValueError):
    """There are too few problems on both sides, or the two sides are not of equally many tokens."""


@dataclass(frozen=True)
class Side:
    """What is compared: one metric of one condition, of one run where several models are in the table."""

    condition: str
    metric: str
    scope: str
    run: str | None = None
    against: str | None = None
    """The condition whose number of tokens it has, where that counts; None: that of the other side."""


@dataclass(frozen=True)
class Contrast:
    """Differences first - second of paired values."""

    first: Float[np.ndarray, "problem layer head"]
    second: Float[np.ndarray, "problem layer head"]
    clusters: tuple[str, ...] | None = None
    """A label for each problem; without labels every problem is its own cluster."""
    units: tuple[str, ...] = ()
    """The problems."""
    layers: tuple[int, ...] = ()
    """The model's own numbers of the layers, of which a hybrid has fewer; empty: 0, 1, 2, ..."""

    @property
    def layer_numbers(self) -> np.ndarray:
        return np.array(self.layers or range(self.first.shape[1]))

    @property
    def differences(self) -> Float[np.ndarray, "problem layer head"]:
        return self.first - self.second

    @property
    def labels(self) -> np.ndarray:
        """The cluster of each problem."""
        return np.arange(len(self.first)) if self.clusters is None else np.array(self.clusters)

    @property
    def n_clusters(self) -> int:
        return len(np.unique(self.labels))

    def overall(self, level: float = 0.95) -> Interval:
        """The mean over heads of the difference, with an interval over problems, which may be clustered."""
        return clustered_mean(self.differences.mean((1, 2)), self.labels, rng=0, level=level)

    def head_p_values(self) -> Float[np.ndarray, "layer head"]:
        """Two-sided p-values of every head, familywise over heads (sign-flip max-T)."""
        differences = self.differences
        found = head_test(cluster_totals(differences.reshape(len(differences), -1), self.labels))
        return found.p_adjusted.reshape(differences.shape[1:])

    def head_shares(self) -> tuple[float, float]:
        """The shares of heads that are clearly lower and clearly higher in the first condition."""
        clear, mean = self.head_p_values() < ALPHA, self.differences.mean(0)
        return float((clear & (mean < 0)).mean()), float((clear & (mean > 0)).mean())


def cluster_totals(
    differences: Float[np.ndarray, "problem head"], labels: Sequence[str] | np.ndarray
) -> Float[np.ndarray, "cluster head"]:
    """The sums within clusters, in the order in which the clusters first come."""
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    totals = np.zeros((len(first), differences.shape[1]))
    np.add.at(totals, codes, differences)
    return totals[np.argsort(first)]


_TESTED: dict[bytes, MaxT] = {}


def head_test(differences: Float[np.ndarray, "cluster head"]) -> MaxT:
    """Every head's paired difference, familywise over heads (sign-flip max-T).

    Verdict, figures and report ask for the same test: its result is kept for this process, by the numbers.
    """
    data = np.ascontiguousarray(differences)
    key = hashlib.sha256(f"{N_FLIPS} {data.dtype} {data.shape} ".encode() + data.tobytes()).digest()
    if key not in _TESTED:
        _TESTED[key] = sign_flip_max_t(data, rng=0, n_flips=N_FLIPS)
    return _TESTED[key]


def contrast(rows: pd.DataFrame, first: Side, second: Side) -> Contrast:
    """The problems that have both sides, paired; those of one template are a cluster."""
    return paired(Reading(_of_side(rows, first), first), Reading(_of_side(rows, second), second))


class Values(NamedTuple):
    """What one side of a comparison has."""

    units: pd.Index
    """Its problems, sorted."""
    cube: Float[np.ndarray, "problem layer head"]
    sizes: np.ndarray
    """The m of each problem's rows; empty text where they have none."""
    layers: tuple[int, ...]
    """Those that there are rows of."""

    def of(self, units: pd.Index) -> "Values":
        """The values of some of the problems."""
        places = self.units.get_indexer(units)
        return self._replace(units=units, cube=self.cube[places], sizes=self.sizes[places])


class Reading:
    """The rows of one side as arrays: their settings are read once, and each comparison's values are built once."""

    def __init__(self, rows: pd.DataFrame, side: Side) -> None:
        self.side = side
        self._against, names = pd.factorize(of_pairs(rows))
        self._others = {name: code for code, name in enumerate(names)}
        self._sizes = sizes_of_pairs(rows)
        self._of_m = bool(((self._sizes != "") & (self._against != self._others.get("", -1))).any())
        self._problems, self._units = pd.factorize(rows["unit"], sort=True)
        self._texts = self._problems + len(self._units) * pd.factorize(rows["run"])[0]
        self._layer, self._head, self._value = (rows[name].to_numpy() for name in ("layer", "head", "value"))
        self._found: dict[str, Values] = {}

    @property
    def units(self) -> pd.Index:
        """Its problems, sorted."""
        return pd.Index(self._units)

    def beside(self, other: Side) -> Values:
        """Its values for a comparison with `other`, which are those of that pair where a pair has its own."""
        against = other.condition if self.side.against is None else self.side.against
        if against == self.side.condition and self._of_m:
            raise NotPaired(
                f"{self.side} is compared with the same text: its other metrics and scopes say it all, or name with "
                "`against` the text whose number of tokens it shall have"
            )
        against = against if against in self._others else ""
        if against not in self._found:
            own, unnamed = (self._against == self._others.get(name, -1) for name in (against, ""))
            self._found[against] = self._values(np.flatnonzero(of_pair(own, unnamed, self._texts)))
        return self._found[against]

    def _values(self, chosen: Int[np.ndarray, " row"]) -> Values:
        """The values of some of the rows, one for each head of each of their problems."""
        places, starts, problems = np.unique(self._problems[chosen], return_index=True, return_inverse=True)
        layer, head = self._layer[chosen], self._head[chosen]
        layers, layer = np.unique(layer, return_inverse=True)
        shape = (len(layers), int(head.max(initial=-1)) + 1)
        sizes = np.bincount(problems, minlength=len(places))
        wrong = np.flatnonzero(sizes != shape[0] * shape[1])
        if len(wrong):
            raise ValueError(
                f"problem {self._units[places[wrong[0]]]} has {sizes[wrong[0]]} values of {self.side}, expected "
                f"{shape[0] * shape[1]}"
            )
        cube = np.empty((len(places), *shape))
        cube[problems, layer, head] = self._value[chosen]
        return Values(pd.Index(self._units[places]), cube, self._sizes[chosen[starts]], tuple(layers.tolist()))


def paired(first: Reading, second: Reading) -> Contrast:
    """The contrast of two sides."""
    a, b = first.beside(second.side), second.beside(first.side)
    common = a.units[a.units.isin(b.units)]
    if len(common) < 2:
        raise NotPaired(
            f"{first.side} and {second.side} have {len(common)} problems in common; at least 2 are needed"
        )
    if len(common) < max(len(a.units), len(b.units)):  # else the sides share their arrays with other comparisons
        a, b = a.of(common), b.of(common)
    if a.layers != b.layers:
        raise NotPaired(f"{first.side} and {second.side} are of models that attend in different layers")
    unequal = unequal_sizes(a.sizes, b.sizes)
    if len(unequal):
        i = unequal[0]
        raise NotPaired(
            f"{first.side} and {second.side} are over {a.sizes[i]} and {b.sizes[i]} tokens in problem {common[i]}: "
            "no rows of this pair were measured"
        )
    return Contrast(a.cube, b.cube, tuple(template_of(unit) for unit in common), tuple(common), a.layers)


def unequal_sizes(first: np.ndarray, second: np.ndarray) -> Int[np.ndarray, " unequal"]:
    """The problems whose two sides are of different numbers of tokens m; one without an m agrees with any."""
    return np.flatnonzero((first != second) & (first != "") & (second != ""))


def beyond(ours: Contrast, reference: Contrast) -> Contrast | None:
    """By how much more `ours` differs than `reference`: means over heads, on the problems of both, if two or more."""
    places = {unit: place for place, unit in enumerate(reference.units)}
    common = [place for place, unit in enumerate(ours.units) if unit in places]
    if len(common) < 2:
        return None
    units = tuple(ours.units[place] for place in common)
    first = ours.differences.mean((1, 2), keepdims=True)[common]
    second = reference.differences.mean((1, 2), keepdims=True)[[places[unit] for unit in units]]
    return Contrast(first, second, tuple(ours.labels[common]), units)


def _of_side(rows: pd.DataFrame, side: Side) -> pd.DataFrame:
    """The rows of one side, of all its comparisons."""
    of_side = (rows["condition"] == side.condition) & (rows["metric"] == side.metric) & (rows["scope"] == side.scope)
    if side.run is not None:
        of_side &= rows["run"] == side.run
    chosen = rows[of_side]
    if chosen.empty:
        known = {name: ", ".join(sorted(rows[name].unique())) for name in ("condition", "metric", "scope")}
        has = "; ".join(f"the {name}s {values}" for name, values in known.items())
        raise ValueError(f"no rows of {side}; the table has {has}")
    return chosen
