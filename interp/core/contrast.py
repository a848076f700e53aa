"""How do two conditions differ on the same problems? Paired differences by head and overall.

The unit of replication is the problem, or, where problems are made from templates, the cluster of problems of one
template (`hf_analysis.text.problems.clusters`). Heads are averaged within a problem before anything is inferred, and
per-head tests flip the signs of whole problems or clusters, so dependence between heads is kept.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped

from hf_analysis.text.problems import clusters
from interp.statistics import Interval, MaxT, cluster_mean, sign_flip_max_t

ALPHA = 0.05
N_FLIPS = 4999
FEWEST_FOR_HEADS = 6
"""With n clusters no sign-flip p-value is below 2^(1-n): fewer than six cannot reach ALPHA."""
UNBOUNDED = (-np.inf, np.inf)


@dataclass(frozen=True)
class Side:
    """What is compared: one metric of one condition, of one run where several models are in the table."""

    condition: str
    metric: str
    scope: str
    run: str | None = None


@dataclass(frozen=True)
class Contrast:
    """Differences first - second of paired values."""

    first: Float[np.ndarray, "problem layer head"]
    second: Float[np.ndarray, "problem layer head"]
    clusters: tuple[str, ...] = ()
    """Of each problem; problems of one cluster are not independent. Empty: each is its own."""

    def __post_init__(self) -> None:
        if self.clusters and len(self.clusters) != len(self.first):
            raise ValueError(f"{len(self.clusters)} clusters of {len(self.first)} problems; expected one each")

    @property
    def differences(self) -> Float[np.ndarray, "problem layer head"]:
        return self.first - self.second

    @property
    def n_clusters(self) -> int:
        """Units of replication."""
        return len(np.unique(self._labels))

    def overall(self, level: float = 1 - ALPHA, bounds: tuple[float, float] = UNBOUNDED) -> Interval:
        """The mean over heads of the difference, with an interval over clusters; it cannot leave `bounds`."""
        by_problem = self.differences.mean((1, 2))
        return cluster_mean(by_problem, self._labels, rng=0, level=level, bounds=bounds)

    def head_p_values(self) -> Float[np.ndarray, "layer head"]:
        """Two-sided p-values of every head, familywise over heads (sign-flip max-T of cluster means)."""
        labels, place, sizes = np.unique(self._labels, return_inverse=True, return_counts=True)
        flat = self.differences.reshape(len(place), -1)
        if len(labels) < len(flat):
            sums = np.zeros((len(labels), flat.shape[1]))
            np.add.at(sums, place, flat)
            flat = sums / sizes[:, None]
        return head_test(flat).p_adjusted.reshape(self.first.shape[1:])

    def head_shares(self) -> tuple[float, float]:
        """The shares of heads that are clearly lower and clearly higher in the first condition."""
        clear, mean = self.head_p_values() < ALPHA, self.differences.mean(0)
        return float((clear & (mean < 0)).mean()), float((clear & (mean > 0)).mean())

    @property
    def _labels(self) -> Shaped[np.ndarray, "problem"]:
        return np.array(self.clusters) if self.clusters else np.arange(len(self.first))


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
    """The problems that have both sides, paired."""
    a, b = _cube(rows, first), _cube(rows, second)
    common = [unit for unit in a if unit in b]
    if len(common) < 2:
        raise ValueError(f"{first} and {second} have {len(common)} problems in common; at least 2 are needed")
    pairs = np.stack([a[unit] for unit in common]), np.stack([b[unit] for unit in common])
    return Contrast(*pairs, tuple(clusters(common)))


def _cube(rows: pd.DataFrame, side: Side) -> dict[str, Float[np.ndarray, "layer head"]]:
    """The side's values by problem."""
    chosen = rows[
        (rows["condition"] == side.condition) & (rows["metric"] == side.metric) & (rows["scope"] == side.scope)
    ]
    if side.run is not None:
        chosen = chosen[chosen["run"] == side.run]
    if chosen.empty:
        known = {name: ", ".join(sorted(rows[name].unique())) for name in ("condition", "metric", "scope")}
        has = "; ".join(f"the {name}s {values}" for name, values in known.items())
        raise ValueError(f"no rows of {side}; the table has {has}")
    shape = (int(chosen["layer"].max()) + 1, int(chosen["head"].max()) + 1)
    cubes = {}
    for unit, of_unit in chosen.groupby("unit", sort=True):
        if len(of_unit) != shape[0] * shape[1]:
            raise ValueError(f"problem {unit} has {len(of_unit)} values of {side}, expected {shape[0] * shape[1]}")
        values = np.empty(shape)
        values[of_unit["layer"].to_numpy(), of_unit["head"].to_numpy()] = of_unit["value"].to_numpy()
        cubes[str(unit)] = values
    return cubes
