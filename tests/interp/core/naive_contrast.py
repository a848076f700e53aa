"""Contrasts the slow way, one pair after the other from the rows: an oracle for `interp.core.contrast`."""

import numpy as np
import pandas as pd

from hf_analysis.measurement.pairs import matched_to
from hf_analysis.text.problems import template_of
from interp.core.contrast import Contrast, NotPaired, Side
from probes.rows import words


def naive_contrast(rows: pd.DataFrame, first: Side, second: Side) -> Contrast:
    """The problems that have both sides, paired; every comparison filters the table and parses its settings anew."""
    rows_a, rows_b = _of_side(rows, first, second), _of_side(rows, second, first)
    common = sorted(set(rows_a["unit"]) & set(rows_b["unit"]))
    if len(common) < 2:
        raise NotPaired("too few problems")
    for unit in common:
        m = [words(part.loc[part["unit"] == unit, "setting"].iloc[0]).get("m") for part in (rows_a, rows_b)]
        if None not in m and m[0] != m[1]:
            raise NotPaired("unequal lengths")
    cubes = [np.stack([_by_head(part[part["unit"] == unit]) for unit in common]) for part in (rows_a, rows_b)]
    return Contrast(cubes[0], cubes[1], tuple(template_of(unit) for unit in common), tuple(common))


def _of_side(rows: pd.DataFrame, side: Side, other: Side) -> pd.DataFrame:
    keys = [side.condition, side.metric, side.scope, side.run]
    mine = (rows[["condition", "metric", "scope", "run"]] == keys).all(axis=1)
    if side.condition == other.condition and any(
        {"against", "m"} <= words(text).keys() for text in rows[mine]["setting"]
    ):
        raise NotPaired("one text")
    return matched_to(rows[mine], other.condition)


def _by_head(rows: pd.DataFrame) -> np.ndarray:
    return rows.pivot(index="layer", columns="head", values="value").to_numpy()
