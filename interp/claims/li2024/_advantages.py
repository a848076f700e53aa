"""Over which cells of (tau, rho) does CoT win? Its advantage over ICL by cell and seed, the least and the largest."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from interp.claims.li2024._estimates import bands, largest_size, least
from interp.claims.li2024._runs import errors_of
from interp.core.parts import NotMeasurable
from interp.statistics import Interval
from probes.rows import with_settings

TIE = 0.05
"""The difference that is too small to matter."""


def advantages(rows: pd.DataFrame) -> pd.DataFrame:
    """By cell, number of examples and seed: the error of ICL minus that of CoT's last step, as `value`."""
    by = ["spread", "tau", "rho", "rho_o", "condition_1", "l", "unit"]
    icl, cot = (errors_of(rows, metric, "test").set_index(by)["value"] for metric in ("icl_error", "cot_label_error"))
    return (icl - cot).rename("value").reset_index()


@dataclass(frozen=True)
class Advantages:
    """The error of ICL minus that of CoT's last step, over cells and seeds."""

    cells: pd.DataFrame
    """spread, tau, rho, condition_1 and l of each cell."""
    values: Float[np.ndarray, "cell seed"]
    n_queries: int
    """Of one cell, all seeds together."""

    def chosen(self, kind: str) -> Bool[np.ndarray, "cell"]:
        """The cells of a part; all but `anywhere` with the most examples."""
        c = self.cells
        if kind == "anywhere":
            return np.ones(len(c), bool)
        longest, even = c["l"] == c["l"].max(), c["spread"] == "even"
        kinds = {
            "failing": even & (c["condition_1"] == 0),
            "holding": even & (c["condition_1"] == 1),
            "one_step": ~even,
        }
        return (longest & kinds[kind]).to_numpy(bool)


def summary(rows: pd.DataFrame) -> Advantages:
    """The advantages as a matrix, cells by seeds."""
    chosen = rows[rows["metric"].isin(["icl_error", "cot_label_error"]) & (rows["scope"] == "test")]
    index = ["spread", "tau", "rho", "condition_1", "l"]
    wide = with_settings(chosen).pivot(index=index, columns=["metric", "unit"], values="value").sort_index(axis=1)
    values = (wide["icl_error"] - wide["cot_label_error"]).to_numpy(float)
    n_queries = int(chosen["n_tokens"].max()) * values.shape[1]
    return Advantages(wide.index.to_frame(index=False), values, n_queries)


def least_advantage(found: Advantages, level: float, *, kind: str) -> Interval | NotMeasurable:
    """The advantage of CoT in the cell where it is least."""
    return _extreme(found, level, kind, least)


def largest_gap(found: Advantages, level: float, *, kind: str) -> Interval | NotMeasurable:
    """The size of the advantage in the cell where it is largest: below a margin if every cell is a tie."""
    return _extreme(found, level, kind, largest_size)


def _extreme(found: Advantages, level: float, kind: str, reduce: Callable[..., Interval]) -> Interval | NotMeasurable:
    values = found.values[found.chosen(kind)]
    if not len(values) or values.shape[1] < 2:
        return NotMeasurable(f"{len(values)} such cells of {values.shape[1]} seeds; expected a cell and two seeds")
    return reduce(partial(bands, values, n_queries=found.n_queries, bounds=(-1.0, 1.0)), level)


def least_cell_note(found: Advantages, kind: str) -> str:
    chosen = found.chosen(kind)
    if not chosen.any():
        return ""
    means = found.values[chosen].mean(1)
    cell = found.cells[chosen].iloc[int(means.argmin())]
    place = "every step" if cell["spread"] == "even" else "the first step"
    return (
        f"of {chosen.sum()} cells: tau={cell['tau']:g}, rho={cell['rho']:g}, errors in {place}, {cell['l']} examples"
    )


def gaps_note(found: Advantages, kind: str) -> str:
    chosen = found.chosen(kind)
    means = found.values[chosen].mean(1)
    return f"{int((np.abs(means) > TIE).sum())} of {len(means)} cells above; mean over cells {means.mean():.3f}"
