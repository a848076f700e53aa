"""What do the rows of kim2024/thm5-noise say? Errors at which the step breaks, and the declared parts."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._parts import HIGH_PROBABILITY, WHY_HIGH_PROBABILITY, counted, grid_exponent, least_share
from interp.claims.kim2024._runs import ACCURATE, SUP_ERROR
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

if TYPE_CHECKING:
    from interp.claims.kim2024.thm5_noise import Noise

KINDS = {
    "random": "random errors",
    "against": "errors against the signal",
    "aligned": "errors aligned with the sampled imbalance",
}
TOLERATED = 0.025
"""The error, in units of 1/d^2, that must not change the result: a hundredth or so of the signal 2c (d/m)^2."""
EXPONENT, HALF_A_POWER = -2.0, 0.5
"""The power of d that the signal has, and how far from it a breaking point may scale."""


def outcomes(rows: pd.DataFrame) -> pd.DataFrame:
    """By kind, size, error and seed: whether it succeeded, as in kim2024/thm5: right signs, a small error."""
    found = with_settings(rows[rows["metric"].isin(["accuracy", "sup_error"])])
    index = ["condition", "d", "k", "n", "error", "unit"]
    found = found.pivot(index=index, columns="metric", values="value").reset_index()
    return found.assign(success=(found["accuracy"] >= ACCURATE) & (found["sup_error"] < SUP_ERROR))


def breaking_points(found: pd.DataFrame) -> pd.DataFrame:
    """By kind, d and seed: the smallest `error` at which it fails, and as `size`, in units of 1; 0 if it needs none.

    `tolerated_error` is the root's largest error at TOLERATED. `censored` if it never fails, `capped` if it fails at
    the smallest error of the grid, `unharmed` if it succeeds at every error up to TOLERATED and without any.
    """
    failed = ~found["success"]
    by_seed = found.assign(
        largest=found["error"],
        error=found["error"].where(failed, np.inf),
        unharmed=~(failed & (found["error"] <= TOLERATED)),
    ).groupby(["condition", "d", "unit"])
    points = by_seed["error"].min().to_frame()
    points = points.assign(largest=by_seed["largest"].max(), unharmed=by_seed["unharmed"].min()).reset_index()
    tolerated = found[found["error"] == TOLERATED].set_index(["condition", "d", "unit"])["sup_error"]
    points = points.join(tolerated.rename("tolerated_error"), on=["condition", "d", "unit"])
    censored = np.isinf(points["error"])
    error = points["error"].where(~censored, points["largest"])
    smallest = found["error"].where(found["error"] > 0).min()
    return points.assign(censored=censored, error=error, size=error / points["d"] ** 2, capped=error == smallest)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """The breaking point of every kind of error, size and seed."""
    return breaking_points(outcomes(rows))


def parts(preset: "Noise") -> list[Part]:
    """By kind of error: a small one does no harm at any d, and the breaking point scales like d^-2."""
    tolerated = [
        Part(
            key=f"{kind}_tolerated",
            name=f"small {words} do no harm at any size",
            role="paper",
            source="Theorem 5: any O(d^(-2-eps/8))-approximate gradient oracle; footnote 3: per component",
            primary=True,
            quantity=f"share of seeds solved with all errors up to {TOLERATED:g}/d^2 and without, least over sizes",
            estimate=partial(share_unharmed, kind=kind),
            direction="above",
            threshold=HIGH_PROBABILITY,
            why=WHY_HIGH_PROBABILITY,
            unit="seeds",
            note=partial(_unharmed, kind=kind),
        )
        for kind, words in KINDS.items()
    ]
    scaling = [
        Part(
            key=f"{kind}_scaling",
            name=f"{words} break the step from about d^-2 on",
            role="ours",
            quantity="exponent p of breaking point ~ d^p",
            estimate=partial(breaking_exponent, kind=kind),
            direction="within",
            threshold=EXPONENT,
            margin=HALF_A_POWER,
            why="the signal on a child is of order d^-2 (proof of Theorem 5); half a power off is another law",
            unit="runs",
            note=partial(_medians, kind=kind),
        )
        for kind, words in KINDS.items()
    ]
    return [*tolerated, *scaling]


def share_unharmed(points: pd.DataFrame, level: float, *, kind: str) -> Interval | NotMeasurable:
    """The share of seeds that small errors of a kind do not harm, at the size where it is smallest."""
    runs = points[points["condition"] == kind]
    return least_share(runs["unharmed"], runs["d"], level)


def breaking_exponent(points: pd.DataFrame, level: float, *, kind: str) -> Interval | NotMeasurable:
    """The exponent of the breaking points in d; open on the sides to which caps at the smallest error may move it."""
    return grid_exponent(_broken(points, kind), "size", 2**0.5, level)


def _broken(points: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Breaking points of a kind of error; a seed that fails without any error has none."""
    return points[(points["condition"] == kind) & (points["error"] > 0)]


def _unharmed(points: pd.DataFrame, kind: str) -> str:
    runs = points[points["condition"] == kind]
    medians = runs.groupby("d")["tolerated_error"].median()
    errors = ", ".join(f"{error:.2g} at d={d}" for d, error in medians.items())
    return f"{counted(runs['unharmed'], runs['d'])}; largest error of the root at {TOLERATED:g}/d^2 (median) {errors}"


def _medians(points: pd.DataFrame, kind: str) -> str:
    broken, runs = _broken(points, kind), int((points["condition"] == kind).sum())
    medians = ", ".join(f"{error:.3g}/d^2 at d={d}" for d, error in broken.groupby("d")["error"].median().items())
    return (
        f"median breaking point {medians}; {runs - len(broken)} of {runs} runs fail without error, "
        f"{broken['censored'].sum()} never fail (censored), {broken['capped'].sum()} fail at the smallest error"
    )
