"""What do the kim2024 claims share? Batches of seeds, each with its tree and its random streams."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from probes import rows

if TYPE_CHECKING:
    import torch

    from toy_models.tree_parity.forest import Forest
    from toy_models.tree_parity.training import Answers

LINK = "piecewise"
"""The link function of every claim: quadratic at 0 and +-1, straight between, |phi'| at most 2.67."""
ACCURATE = 0.999
"""The rollout accuracy at which a model has solved the parity."""
SUP_ERROR = 0.1
"""The largest error of the root, over all test inputs, below which one step has solved it."""
PILOT = 1_000_000
"""Seeds from this number on are used only by pilot runs, which choose a step size."""

_STREAMS = ("train", "test", "augmented", "noise", "weights")


def planted(d: int, k: int, seeds: Sequence[int]) -> "Forest":
    """One tree for each seed, which also draws its secret set."""
    from toy_models.tree_parity.forest import Forest
    from toy_models.tree_parity.task import TreeParity

    return Forest.of([TreeParity(d=d, k=k, secret_seed=seed) for seed in seeds])


def generators(seeds: Sequence[int], stream: str) -> "list[torch.Generator]":
    """One generator for each seed; the streams of a seed are independent, whatever the batch of seeds."""
    import torch

    offset = 7919 + _STREAMS.index(stream)
    return [torch.Generator().manual_seed(len(_STREAMS) * seed + offset) for seed in seeds]


def drawn_bytes(p: Mapping[str, Any]) -> float:
    """Bytes of one sample of each of an item's seeds, one bit for each of its own."""
    return len(p["seeds"]) * p["d"] / 8


def true_values(forest: "Forest", seeds: Sequence[int], n: int) -> "torch.Tensor":
    """n test inputs for each seed with the true value of every node, [seed pos sample]."""
    from toy_models.tree_parity.forest import Sample

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
