"""What the kim2024 claims share: seed batches of trees with their data streams, and shares of seeds as verdicts."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from interp.statistics import Interval, binomial_interval, growth_comparison
from interp.verdict import Verdict, judged
from probes import rows

if TYPE_CHECKING:
    import torch

    from toy_models.forest import Forest
    from toy_models.tree_training import Answers

LINK = "piecewise"
"""The link function of every claim: quadratic at 0 and +-1, straight between, |phi'| at most 2.67."""
ACCURATE = 0.999
"""The rollout accuracy from which on a model has solved the parity."""
SUP_ERROR = 0.1
"""The largest error of the root, over all test inputs, below which one step has solved it."""
NEARLY_ALL, HARDLY_ANY = 0.65, 0.35
"""With ten seeds the exact interval of a share lies above 0.65 only for 10 of 10, and below 0.35 only for 0 of 10."""
PILOT = 1_000_000
"""Seeds from here on belong to pilot runs, which choose a step size, and to no measurement."""

_STREAMS = ("train", "test", "augmented", "noise", "weights")


def seed_batches(seeds: int, size: int) -> Iterator[list[int]]:
    """Seeds 0..seeds-1 in batches that train together."""
    for first in range(0, seeds, size):
        yield list(range(first, min(first + size, seeds)))


def planted(d: int, k: int, seeds: Sequence[int]) -> "Forest":
    """One tree for each seed, which also draws its secret set."""
    from toy_models.forest import Forest
    from toy_models.tasks.tree_parity import TreeParity

    return Forest.of([TreeParity(d=d, k=k, secret_seed=seed) for seed in seeds])


def generators(seeds: Sequence[int], stream: str) -> "list[torch.Generator]":
    """One generator for each seed; streams of one seed are independent, and batches of seeds do not matter."""
    import torch

    offset = 7919 + _STREAMS.index(stream)
    return [torch.Generator().manual_seed(len(_STREAMS) * seed + offset) for seed in seeds]


def true_values(forest: "Forest", seeds: Sequence[int], n: int) -> "torch.Tensor":
    """n test inputs for each seed with the true value of every node, [seed pos sample]."""
    from toy_models.forest import Sample

    return forest.grown(Sample.draw(forest.d, n, generators(seeds, "test")).values(0, n))


def answer_rows(found: "Answers", seeds: Sequence[int], **labels: str) -> pd.DataFrame:
    """Accuracy, largest error, attention on the children and its imbalance, by seed."""
    metrics = {
        "accuracy": found.accuracy,
        "sup_error": found.sup_error,
        "child_mass": found.child_mass,
        "imbalance": found.imbalance,
    }
    units = [str(seed) for seed in seeds]
    return rows.concat(
        rows.table(metric=metric, value=values.tolist(), unit=units, scope="test", **labels)
        for metric, values in metrics.items()
    )


def share_verdict(
    successes: Sequence[bool] | pd.Series,
    *,
    claim: str,
    part: str,
    quantity: str,
    expected: Literal["nearly all", "hardly any"],
    note: str = "",
) -> Verdict:
    """The share of seeds that succeed, with its exact interval, judged against NEARLY_ALL or HARDLY_ANY."""
    above = expected == "nearly all"
    return judged(
        binomial_interval(int(sum(successes)), len(successes)),
        claim=claim,
        part=part,
        quantity=quantity,
        threshold=NEARLY_ALL if above else HARDLY_ANY,
        direction="above" if above else "below",
        unit="seeds",
        note=note,
    )


def growth_exponent(sizes: pd.Series, values: pd.Series, censored: pd.Series, ratio: float) -> Interval:
    """The exponent p of values ~ sizes^p by censored likelihood; `ratio` is that of neighbours on the values' grid.

    The interval is open if fewer than two sizes have a value that is not censored, or a size has one seed only.
    """
    if sizes[~censored].nunique() < 2 or sizes.value_counts().min() < 2:
        return Interval(0.0, -np.inf, np.inf, 0.95, max(len(values), 1))
    found = growth_comparison(
        sizes.to_numpy(float),
        values.to_numpy(float),
        censored.to_numpy(bool),
        resolution=(ratio - 1) * float(values.median()),
        rng=0,
    )
    return found.power_exponent
