"""What does a curriculum show? The parts of wang2025/fig3-left: stages of runs, and growth of the samples needed."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from interp.claims.wang2025._parts import MOST, NO_LOSS, WHY_MOST
from interp.claims.wang2025._runs import FINER, SOLVED
from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

NOT_YET = 0.875
"""A hop with an error above this share of the error of guessing, 1 - 1/N, is not yet learned: 0.7 for N = 5."""


def parts(preset: Any) -> list[Part]:
    """The stages of every run, then the growth of the samples needed with k and with N."""
    said = "Section 6, Figure 3 left"
    shares = (
        (
            "learned", "every hop is learned in its own stage",
            f"{said}: the loss on 2^(l-1)-hop examples decreases to zero after the l-th stage",
            f"every hop has a loss below {NO_LOSS:g} nats and an error of at most {SOLVED:g} after its own stage",
        ),
        (
            "final", "after the final stage all hops are learned",
            f"{said}: after the final stage the model has perfectly learned the 16-fold composition",
            f"every hop has an error of at most {SOLVED:g} at the end",
        ),
        (
            "before", "no hop is learned before its stage", "",
            f"before its own stage every hop has an error above {NOT_YET:g} of that of guessing, 1 - 1/N",
        ),
    )  # fmt: skip
    return [
        *(
            Part(
                key=key,
                name=name,
                role="paper" if source else "control",
                source=source,
                primary=key == "learned",
                quantity=f"share of runs (settings and seeds) in which {quantity}",
                estimate=partial(share_of_runs, column=key),
                direction="above",
                threshold=MOST,
                why=WHY_MOST,
                unit="runs",
                note=partial(_by_setting, column=key),
            )
            for key, name, source, quantity in shares
        ),
        *(_growth_part(name, symbol, power) for name, symbol, power in (("k", "k", 4.0), ("n", "N", 6.0))),
    ]


def _growth_part(name: str, symbol: str, power: float) -> Part:
    return Part(
        key=f"growth_{name}",
        name=f"samples needed grow with {symbol} no faster than the theorem's power",
        role="paper",
        source="Theorem 7: M of order k^4 N^6, up to logarithms, is enough",
        quantity=f"exponent p of M ~ {symbol}^p, one query per sequence, mean over seeds",
        estimate=partial(exponent, name=name),
        direction="below",
        threshold=power,
        why="the theorem's own power; an upper bound, so slower growth agrees with it",
        unit="seeds",
    )


@dataclass(frozen=True)
class Left:
    """What parts and figures read."""

    runs: pd.DataFrame
    """One line for each setting and seed; columns `learned`, `final`, `before`: whether it was seen."""
    searches: pd.DataFrame
    """The sequences needed, `value`, by k, n, queries and seed; `censored`: more than was tried."""


def summary(rows: pd.DataFrame) -> Left:
    """The stages of every run, and the searches."""
    stages = with_settings(rows[rows["metric"].isin(["loss", "error"])])
    stage = np.log2(stages["hop"]).astype(int)
    error = stages["metric"] == "error"
    after, before = stages["update"] == 2 * stage + 2, stages["update"] == 2 * stage
    last = stages["update"] == stages.groupby("run")["update"].transform("max")
    fine = np.where(error, stages["value"] <= SOLVED, stages["value"] < NO_LOSS)
    waits = stages["value"] > NOT_YET * (1 - 1 / stages["n"])
    held = pd.DataFrame(
        {"learned": fine | ~after, "final": fine | ~(last & error), "before": waits | ~(before & error)}
    )
    places = stages.drop_duplicates("run").set_index("run")[["k", "n", "queries", "sequences"]]
    return Left(held.groupby(stages["run"]).all().join(places), needed(rows))


def share_of_runs(found: Left, level: float, *, column: str) -> Interval | NotMeasurable:
    """The share of runs in which `column` was seen, all settings together."""
    return share_of(found.runs[column], level)


def exponent(found: Left, level: float, *, name: str) -> Interval | NotMeasurable:
    """The power of k or n with which the sequences needed grow, one query in each, the other size fixed."""
    return exponent_of(found.searches[found.searches["one"]], level, name)


def exponent_of(searches: pd.DataFrame, level: float, name: str) -> Interval | NotMeasurable:
    """The slope of log M against the log of k or n, by least squares for each seed; mean over seeds.

    Sizes at which a search was cut at the largest M tried are left out, and the interval is open on the side to which
    they would move the slope. A search ends on a grid, so every log M is known to one step of it only; the interval
    is widened by the most that this can change a slope.
    """
    found = line(searches, name)
    cut = found.loc[found["censored"], name].unique()
    log_m = np.log(found[~found[name].isin(cut)].pivot(index="unit", columns=name, values="value"))
    if log_m.shape[1] < 2 or log_m.isna().any(axis=None):
        return NotMeasurable("fewer than two sizes at which every search ended before the largest M")
    centred = np.log(log_m.columns.to_numpy(float))
    middle = centred.mean()
    weights = (centred - middle) / np.square(centred - middle).sum()
    above, below = bool((np.log(cut) > middle).any()), bool((np.log(cut) < middle).any())
    slopes = mean_over(log_m.to_numpy() @ weights, level, open_above=above, open_below=below)
    if isinstance(slopes, NotMeasurable):
        return slopes
    grid = 0.5 * np.log(FINER) * float(np.abs(weights).sum())
    return replace(slopes, low=slopes.low - grid, high=slopes.high + grid)


def line(found: pd.DataFrame, name: str) -> pd.DataFrame:
    """The searches along one size, the other fixed where most was measured."""
    other = "n" if name == "k" else "k"
    counts = found.groupby(other)[name].nunique()
    return found[found[other] == counts.idxmax()] if len(counts) else found


def _by_setting(found: Left, column: str) -> str:
    shown = []
    for (k, n, queries, m), runs in found.runs.groupby(["k", "n", "queries", "sequences"]):
        shown.append(f"k={k}, N={n}, {how(queries == 1)}, M={m}: {runs[column].sum()} of {len(runs)}")
    return "; ".join(shown)


def needed(rows: pd.DataFrame) -> pd.DataFrame:
    """The searches: M needed by k, n, queries and seed; `censored` marks those that needed more than was tried."""
    found = with_settings(rows[rows["metric"].isin(["sample_complexity", "censored_at"])])
    return found.assign(censored=found["metric"] == "censored_at", one=found["queries"] == 1)


def how(one_query: bool) -> str:
    """How a sequence is labelled, in words."""
    return "one query per sequence" if one_query else "all queries"
