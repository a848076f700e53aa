"""What would the rows of LEGO runs look like, were the truth known? Simulated runs for the judges' error rates.

The labels of the rows are the same in every draw, so they are made once and only the values are drawn.
"""

import itertools
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.huang2025._runs import END, LEARNED, SEEDS, at_loss
from probes.rows import setting, table

LENGTHS = (5, 10, 20, 40, 80, 160)
N_TEST = 64
"""Test sentences of each length."""


def ramps(ends: Float[np.ndarray, "*curve"], lengths: Sequence[int] = LENGTHS) -> Float[np.ndarray, "*curve length"]:
    """Accuracy curves that are 1 up to the length 2^ends and 0 from four times that, linear in log length between.

    Two curves whose ends differ by a whole number of octaves enclose an area of that many, on lengths that double.
    """
    return np.clip(1 - (np.log2(lengths) - np.asarray(ends)[..., None]) / 2, 0, 1)


def measured(
    shares: Float[np.ndarray, "*curve"], generator: np.random.Generator, n: int = N_TEST
) -> Float[np.ndarray, "*curve"]:
    """What n sentences show of accuracies."""
    return generator.binomial(n, shares) / n


@cache
def accuracy_labels(
    conditions: tuple[str, ...],
    groups: tuple[str, ...],
    points: tuple[str | int, ...],
    *,
    name: str = "point",
    seeds: int = SEEDS,
) -> pd.DataFrame:
    """Rows of accuracy for values [condition group seed point length]; `name` says what a point is."""
    places = list(itertools.product(conditions, groups, range(seeds), points, LENGTHS))
    return table(
        run=[f"{condition},{group},{seed}" for condition, group, seed, _, _ in places],
        condition=[condition for condition, *_ in places],
        unit=[str(seed) for _, _, seed, _, _ in places],
        setting=[setting(group=group, length=length, **{name: point}) for _, group, _, point, length in places],
        metric="accuracy",
        value=0.0,
    )


@cache
def point_labels(
    metric: str,
    conditions: tuple[str, ...],
    groups: tuple[str, ...],
    points: tuple[str | int, ...],
    *,
    name: str = "point",
    seeds: int = SEEDS,
) -> pd.DataFrame:
    """Rows of `metric` for values [condition group seed point]: the steps of a point, the labels of a stage."""
    places = list(itertools.product(conditions, groups, range(seeds), points))
    return table(
        run=[f"{condition},{group},{seed}" for condition, group, seed, _ in places],
        condition=[condition for condition, *_ in places],
        unit=[str(seed) for _, _, seed, _ in places],
        setting=[setting(group=group, **{name: point}) for _, group, _, point in places],
        metric=metric,
        value=0.0,
    )


def step_labels(conditions: tuple[str, ...], groups: tuple[str, ...], seeds: int = SEEDS) -> pd.DataFrame:
    """Rows of the steps to learn for values [condition group seed]."""
    return point_labels("updates", conditions, groups, (at_loss(LEARNED),), seeds=seeds)


@cache
def target_labels(
    conditions: tuple[str, ...],
    groups: tuple[str, ...],
    length: int,
    point: str | None = None,
    *,
    seeds: int = SEEDS,
) -> pd.DataFrame:
    """Rows of attention on the targets for values [metric condition group seed answer]; predicate, then answer."""
    at = {} if point is None else {"point": point}
    places = list(itertools.product(("predicate", "answer"), conditions, groups, range(seeds), range(length)))
    return table(
        run=[f"{condition},{group},{seed}" for _, condition, group, seed, _ in places],
        condition=[condition for _, condition, *_ in places],
        unit=[str(seed) for *_, seed, _ in places],
        setting=[setting(group=group, length=length, answer=answer, **at) for _, _, group, _, answer in places],
        metric=[metric for metric, *_ in places],
        value=0.0,
    )


def filled(*parts: tuple[pd.DataFrame, Float[np.ndarray, "..."]]) -> pd.DataFrame:
    """One table of several with these values, each in the order of its labels."""
    labels = pd.concat([labels for labels, _ in parts], ignore_index=True)
    return labels.assign(value=np.concatenate([values.ravel() for _, values in parts]))


def solving(
    conditions: tuple[str, ...], groups: tuple[str, ...], *, seeds: int = SEEDS
) -> tuple[pd.DataFrame, Float[np.ndarray, "row"]]:
    """Rows that say of every run that it solves the training length, for `filled`."""
    labels = point_labels("accuracy", conditions, groups, (END,), seeds=seeds)
    return labels, np.ones(len(labels))
