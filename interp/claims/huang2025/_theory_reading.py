"""What do rows of huang2025's theory models say? Lengths reached, last values and slopes, for every judge."""

import pandas as pd

from interp.claims.huang2025._runs import REACHED, reached
from interp.core.judging import mean_over
from interp.core.parts import NotMeasurable
from interp.statistics import Interval


def lengths_reached(accuracy: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """By the columns `by`: log2 of the length reached (`reach`), whether every length tested is solved (`capped`) or
    not even the shortest (`failed`), so that it is a bound only; and the accuracy at each length as a column."""
    curves = accuracy.pivot(index=by, columns="length", values="value")
    curves.columns = curves.columns.astype(int)
    shares = curves.to_numpy(float)
    bounds = {"capped": ~(shares < REACHED).any(1), "failed": shares[:, 0] < REACHED}
    return curves.assign(reach=reached(curves), **bounds)


def last_values(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """By the columns `by`: every metric without a length, after the last step, as columns."""
    last = rows[rows["update"] == rows.groupby(by)["update"].transform("max")]
    return last.pivot(index=by, columns="metric", values="value")


def slopes(found: pd.DataFrame, x: str, y: pd.Series) -> pd.Series:
    """By seed: the slope of `y` against the column `x`, by least squares; every seed has the same values of x."""
    values = found.assign(y=y).pivot(index="unit", columns=x, values="y")
    centred = values.columns.to_numpy(float) - values.columns.to_numpy(float).mean()
    return pd.Series(values.to_numpy(float) @ centred / (centred @ centred), index=values.index)


def open_slope(runs: pd.DataFrame, x: str, by_seed: pd.Series, level: float) -> Interval | NotMeasurable:
    """The mean of slopes in `x`; open where lengths that end the test could make it larger or smaller.

    It is larger if a value at large x is a floor or one at small x a cap, and the other way round.
    """
    large = runs[x] > runs[x].mean()
    up = (large & runs["capped"]) | (~large & runs["failed"])
    down = (~large & runs["capped"]) | (large & runs["failed"])
    return mean_over(by_seed, level, open_above=bool(up.any()), open_below=bool(down.any()))
