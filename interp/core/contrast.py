"""How do two conditions differ on the same problems? Paired differences by head and overall.

The unit of replication is the problem: heads are averaged within a problem before anything is inferred, and
per-head tests flip the signs of whole problems, so dependence between heads is kept. Problems made from one template
are one cluster: they are flipped together, and intervals are for new templates. What depends on the pair (equal
length, m tokens) is read from the rows of that pair, on both sides (`hf_analysis.measurement.pairs`).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from hf_analysis.measurement.pairs import matched_sizes, matched_to, of_pairs
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
    rows_a, rows_b = _of_side(rows, first, second), _of_side(rows, second, first)
    (of_a, a), (of_b, b) = _cube(rows_a, first), _cube(rows_b, second)
    common = of_a[of_a.isin(of_b)]
    if len(common) < 2:
        raise NotPaired(f"{first} and {second} have {len(common)} problems in common; at least 2 are needed")
    m_a, m_b = (matched_sizes(part).reindex(common).to_numpy() for part in (rows_a, rows_b))
    unequal = np.flatnonzero((m_a != m_b) & (m_a != "") & (m_b != ""))
    if len(unequal):
        i = unequal[0]
        raise NotPaired(
            f"{first} and {second} are over {m_a[i]} and {m_b[i]} tokens in problem {common[i]}: no rows of this "
            "pair were measured"
        )
    clusters = tuple(template_of(unit) for unit in common)
    return Contrast(a[of_a.get_indexer(common)], b[of_b.get_indexer(common)], clusters, tuple(common))


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


def _of_side(rows: pd.DataFrame, side: Side, other: Side) -> pd.DataFrame:
    """The rows of one side of a comparison."""
    of_side = (rows["condition"] == side.condition) & (rows["metric"] == side.metric) & (rows["scope"] == side.scope)
    if side.run is not None:
        of_side &= rows["run"] == side.run
    chosen = rows[of_side]
    if chosen.empty:
        known = {name: ", ".join(sorted(rows[name].unique())) for name in ("condition", "metric", "scope")}
        has = "; ".join(f"the {name}s {values}" for name, values in known.items())
        raise ValueError(f"no rows of {side}; the table has {has}")
    against = other.condition if side.against is None else side.against
    if against == side.condition and of_pairs(chosen).any():
        raise NotPaired(
            f"{side} is compared with the same text: its other metrics and scopes say it all, or name with `against` "
            "the text whose number of tokens it shall have"
        )
    return matched_to(chosen, against)


def _cube(chosen: pd.DataFrame, side: Side) -> tuple[pd.Index, Float[np.ndarray, "problem layer head"]]:
    """The side's problems, sorted, and its values."""
    shape = (int(chosen["layer"].max()) + 1, int(chosen["head"].max()) + 1)
    codes, units = pd.factorize(chosen["unit"], sort=True)
    sizes = np.bincount(codes)
    wrong = np.flatnonzero(sizes != shape[0] * shape[1])
    if len(wrong):
        raise ValueError(
            f"problem {units[wrong[0]]} has {sizes[wrong[0]]} values of {side}, expected {shape[0] * shape[1]}"
        )
    values = np.empty((len(units), *shape))
    values[codes, chosen["layer"].to_numpy(), chosen["head"].to_numpy()] = chosen["value"].to_numpy()
    return pd.Index(units), values
