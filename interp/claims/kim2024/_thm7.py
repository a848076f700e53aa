"""What do the rows of kim2024/thm7 say? Levels solved by update, and the declared parts."""

from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from interp.claims.kim2024._parts import (
    HIGH_PROBABILITY,
    MOST,
    WHY_HIGH_PROBABILITY,
    WHY_MOST,
    counted,
    greatest_share,
    least_share,
    seed_exponents,
)
from interp.claims.kim2024._runs import ACCURATE, SUP_ERROR
from interp.core.judging import mean_over
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

if TYPE_CHECKING:
    from interp.claims.kim2024.thm7 import Thm7

BELOW_ONE = 0.9
"""An eps_0 that the paper admits (it asks for more than O(d^(-1/2))), at which zeros do not count as near -1."""
ERROR = 0.05
"""The oracle's error in every entry, in units of 1/d^2."""
FAILURES = {
    "no_filter": ("control", "without the filter it fails"),
    "no_rounding": ("ours", "without rounding it fails"),
    "below_one": ("ours", f"eps_0 = {BELOW_ONE:g} without cascade fails"),
}
"""By condition: the role and the name of the part; the paper says of none of them that it fails, and the filter of
the complete recipe, at an eps_0 in (1, 2), is the paper's as well."""


def schedule(rows: pd.DataFrame) -> pd.DataFrame:
    """By condition, size, seed, update and level: whether the level is solved, and whether it should be."""
    found = with_settings(rows[rows["metric"] == "level_accuracy"])
    return found.assign(solved=found["value"] >= ACCURATE, due=found["update"] >= found["level"])


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """By condition, size and seed: `right` (the root, at the end), whether all was `on_time`, and the weights."""
    found = schedule(rows)
    by_run = found.assign(on_time=found["solved"] == found["due"]).groupby(["condition", "d", "k", "unit"])
    top = found[(found["level"] == found["k"].map(_levels)) & (found["update"] == found["level"])]
    index = ["condition", "d", "k", "unit"]
    found = top.set_index(index)[["solved", "n", "eta"]].rename(columns={"solved": "right"})
    weights = {metric: _at_the_end(rows, metric, index) for metric in ("sup_error", "others_zero", "children_apart")}
    return found.assign(on_time=by_run["on_time"].min(), **weights).reset_index()


def _at_the_end(rows: pd.DataFrame, metric: str, index: list[str]) -> pd.Series:
    """A metric after the last update."""
    found = with_settings(rows[rows["metric"] == metric])
    return found[found["update"] == found["k"].map(_levels)].set_index(index)["value"]


def _levels(k: int) -> int:
    return int(k).bit_length() - 1


def parts(preset: "Thm7") -> list[Part]:
    """The complete recipe solves one level at each update and then the root; parts of it left out, it fails."""
    common: dict[str, Any] = {
        "role": "paper",
        "primary": True,
        "direction": "above",
        "threshold": HIGH_PROBABILITY,
        "unit": "seeds",
    }
    complete = [
        Part(
            key="root",
            name="log2 k updates solve the root with high probability at every size",
            source="Theorem 7: with probability 1 - exp(-d^((eps and 1)/2)) ... in log2 k iterations",
            quantity=f"share of seeds whose root is right with an error below {SUP_ERROR:g} after log2 k updates, "
            "least over sizes",
            estimate=partial(share_complete, of="root"),
            why=WHY_HIGH_PROBABILITY,
            note=partial(_note, of="root"),
            **common,
        ),
        Part(
            key="on_time",
            name="level l is solved at update l with high probability at every size",
            source="section 3.3, sketch of proof: each subtask at level l will become solved at time t = l",
            quantity="share of seeds in which every level is solved from its own update on, not before, least over "
            "sizes",
            estimate=partial(share_complete, of="on_time"),
            why=WHY_HIGH_PROBABILITY,
            note=partial(_note, of="on_time"),
            **common,
        ),
    ]
    return [*complete, _noisy_part(), *_induction_parts(), _error_part(), *_cascades(preset), *_ablations(preset)]


def _noisy_part() -> Part:
    return Part(
        key="noisy",
        name="an oracle that errs against the sample does no harm",
        role="paper",
        source="Theorem 7: any O(d^(-2-eps/8))-approximate gradient oracle",
        quantity=f"share of seeds solved as above with errors of {ERROR:g}/d^2, least over the sizes tried",
        estimate=partial(share_complete, of="root", condition="noisy"),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why=WHY_HIGH_PROBABILITY,
        unit="seeds",
        note=partial(_note, of="root", condition="noisy"),
    )


def _induction_parts() -> list[Part]:
    common: dict[str, Any] = {
        "direction": "above",
        "threshold": HIGH_PROBABILITY,
        "unit": "seeds",
        "note": _weights_note,
    }
    return [
        Part(
            key="children_equal",
            name="weights are equal on the two children of every node",
            role="paper",
            source="Appendix C, equation (11)",
            quantity="share of seeds of the complete recipe in which the children of every node have equal weights "
            "after the last update, least over sizes",
            estimate=partial(share_inductive, of="children_apart", wanted=0.0),
            why=WHY_HIGH_PROBABILITY,
            **common,
        ),
        Part(
            key="others_zero",
            name="all weights on other positions are 0",
            role="ours",
            quantity="share of seeds of the complete recipe in which all weights but those on children are 0 after "
            "the last update, least over sizes",
            estimate=partial(share_inductive, of="others_zero", wanted=1.0),
            why="equation (11) at sizes for which it is not meant: a term of order c/d rounds to 0 only from d of "
            "about 50 on; nine in ten, as if it were",
            **common,
        ),
    ]


def _error_part() -> Part:
    return Part(
        key="error_falls",
        name="the largest error falls with d",
        role="ours",
        quantity="exponent p of the root's largest error ~ d^p, by seed, mean over seeds",
        estimate=error_exponent,
        direction="below",
        threshold=0.0,
        why="the bound exp(-Omega(d^(eps/16))) falls with d for one eps; at these sizes eps differs, so it is ours",
        unit="seeds",
    )


def _cascades(preset: "Thm7") -> list[Part]:
    """Below 1 the filter solves it if it is made to close every level above a closed one."""
    return [
        Part(
            key=f"cascade_d{size.d}",
            name=f"eps_0 = {BELOW_ONE:g} with cascade solves it (d={size.d}, k={size.k})",
            role="ours",
            quantity="share of seeds whose root is right after log2 k updates",
            estimate=partial(share_right, condition="cascade", d=size.d),
            direction="above",
            threshold=MOST,
            why="ours: an eps_0 below 1 with the closure that the proof presumes; more often than not",
            unit="seeds",
        )
        for size in preset.sizes
        if "cascade" in dict(size.seeds)
    ]


def _ablations(preset: "Thm7") -> list[Part]:
    return [
        Part(
            key=f"{condition}_d{size.d}",
            name=f"{FAILURES[condition][1]} (d={size.d}, k={size.k})",
            role=FAILURES[condition][0],  # pyright: ignore[reportArgumentType]
            quantity="share of seeds whose root is right after log2 k updates",
            estimate=partial(share_right, condition=condition, d=size.d),
            direction="below",
            threshold=MOST,
            why=WHY_MOST,
            unit="seeds",
        )
        for size in preset.sizes
        for condition, _ in size.seeds
        if condition in FAILURES
    ]


def share_complete(
    seeds: pd.DataFrame, level: float, *, of: str, condition: str = "complete"
) -> Interval | NotMeasurable:
    """The share of seeds that the complete recipe solves, or solves on time, at the size where it is smallest."""
    runs = seeds[seeds["condition"] == condition]
    return least_share(_success(runs, of), runs["d"], level)


def share_inductive(seeds: pd.DataFrame, level: float, *, of: str, wanted: float) -> Interval | NotMeasurable:
    """The share of seeds whose weights are in one respect those of equation (11), least over sizes."""
    runs = seeds[seeds["condition"] == "complete"]
    return least_share(runs[of] == wanted, runs["d"], level)


def error_exponent(seeds: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """The exponent of the largest error in d, mean over seeds."""
    runs = seeds[seeds["condition"] == "complete"]
    return mean_over(seed_exponents(runs["d"], runs["sup_error"].clip(lower=1e-6), runs["unit"]), level)


def share_right(seeds: pd.DataFrame, level: float, *, condition: str, d: int) -> Interval | NotMeasurable:
    """The share of seeds whose root is right in the end, whatever its error: a failure must not rest on a bound."""
    runs = seeds[(seeds["condition"] == condition) & (seeds["d"] == d)]
    return greatest_share(runs["right"], runs["d"], level)


def _success(runs: pd.DataFrame, of: str) -> pd.Series:
    return runs["on_time"].astype(bool) if of == "on_time" else runs["right"] & (runs["sup_error"] < SUP_ERROR)


def _weights_note(seeds: pd.DataFrame) -> str:
    by_size = seeds[seeds["condition"] == "complete"].groupby("d")[["others_zero", "children_apart"]]
    return "; ".join(
        f"d={d}: {found['others_zero'].mean():.0%} of the other weights are 0, children equal in "
        f"{(found['children_apart'] == 0).mean():.0%} of seeds"
        for d, found in by_size
    )


def _note(seeds: pd.DataFrame, of: str, condition: str = "complete") -> str:
    runs = seeds[seeds["condition"] == condition]
    note = counted(_success(runs, of), runs["d"])
    if of == "on_time":
        return note
    medians = runs.groupby("d")[["eta", "n", "sup_error"]].median()
    errors = ", ".join(f"{error:.3f} at d={d}" for d, error in medians["sup_error"].items())
    steps = ", ".join(f"{eta:g} d^2 and n={n:.0f} at d={d}" for d, eta, n in medians[["eta", "n"]].itertuples())
    return f"{note}; largest error of the root (median) {errors}; step {steps}"


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """Every level at every update, and the root's error and the weights at the last."""
    last = rows["update"] == rows.groupby("run")["update"].transform("max")
    return rows[(rows["metric"] == "level_accuracy") | last]
