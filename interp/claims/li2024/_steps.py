"""Where does the trained model of li2024 look at each step, and is each step right? Estimates for Proposition 1."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.li2024._estimates import bands, largest, least
from interp.core.judging import mean_over
from interp.core.parts import NotMeasurable
from interp.statistics import Interval
from probes.rows import with_settings

Table = Mapping[float, Float[np.ndarray, "step seed"]]


@dataclass(frozen=True)
class Steps:
    """By condition (`noise`, `span`) and its value: attention on S_k and error, for each step and seed."""

    mass: Mapping[str, Table]
    error: Mapping[str, Table]
    n_queries: int
    """Of a cell, all seeds together."""
    left: Float[np.ndarray, "update seed"]
    """Along the training: 1 minus the attention on S_k, mean over steps."""
    loss: Float[np.ndarray, "update seed"]


def summary(rows: pd.DataFrame) -> Steps:
    """Tables by condition, and the curves along the training."""
    found = with_settings(rows)
    tables: dict[str, dict[str, dict[float, np.ndarray]]] = {"mass": {}, "step_error": {}}
    for metric, of_metric in tables.items():
        chosen = found[(found["metric"] == metric) & (found["scope"] == "test")]
        for (condition, x), at in chosen.groupby(["varied", "x"]):
            wide = at.pivot(index="step", columns="unit", values="value")
            of_metric.setdefault(str(condition), {})[float(x)] = wide.to_numpy(float)
    along = (
        found[found["scope"] == "train"]
        .pivot(index="update", columns=["metric", "unit"], values="value")
        .sort_index(axis=1)
    )
    n_queries = int(found[found["scope"] == "test"]["n_tokens"].iloc[0]) * found["unit"].nunique()
    return Steps(
        tables["mass"], tables["step_error"], n_queries, 1 - along["mass"].to_numpy(float),
        along["loss"].to_numpy(float),
    )  # fmt: skip


def least_mass(found: Steps, level: float, *, condition: str, x: float) -> Interval | NotMeasurable:
    """The attention on the columns of the query's pattern and step, at the step where it is least."""
    values = found.mass.get(condition, {}).get(x)
    if values is None or values.shape[1] < 2:
        return NotMeasurable(f"fewer than two seeds with {condition}={x:g}")
    return least(partial(bands, values, bounds=(0.0, 1.0)), level)


def largest_error(found: Steps, level: float, *, condition: str, x: float) -> Interval | NotMeasurable:
    """The error of the step that errs most."""
    values = found.error.get(condition, {}).get(x)
    if values is None or values.shape[1] < 2:
        return NotMeasurable(f"fewer than two seeds with {condition}={x:g}")
    return largest(partial(bands, values, n_queries=found.n_queries, bounds=(0.0, 1.0)), level)


def mean_mass(found: Steps, level: float, *, condition: str, x: float) -> Interval | NotMeasurable:
    """The attention on the columns of the query's pattern and step, mean over steps."""
    values = found.mass.get(condition, {}).get(x)
    if values is None:
        return NotMeasurable(f"no {condition}={x:g} in these rows")
    return mean_over(values.mean(0), level, bounds=(0.0, 1.0))


def loss_power(found: Steps, level: float) -> Interval | NotMeasurable:
    """q of 1 - attention ~ loss^q along the second half (in log time) of the training, mean over seeds."""
    half = len(found.loss) // 2
    left, loss = np.log(found.left[half:]), np.log(found.loss[half:])
    centred = loss - loss.mean(0)
    return mean_over((centred * left).sum(0) / (centred**2).sum(0), level)


def by_step_note(found: Steps, condition: str, x: float, what: str) -> str:
    values = getattr(found, what).get(condition, {}).get(x)
    return "" if values is None else "by step: " + ", ".join(f"{mean:.4f}" for mean in values.mean(1))


def along_note(found: Steps, condition: str, what: str) -> str:
    table = getattr(found, what).get(condition, {})
    return f"by {condition}: " + ", ".join(f"{x:.2f}: {values.mean():.3f}" for x, values in sorted(table.items()))
