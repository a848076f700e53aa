"""What do the mechanism claims about pretrained models share? Shards of problems, changes, corrected intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.core.claim import Item
from interp.statistics import Interval, bootstrap_mean

if TYPE_CHECKING:
    from hf_analysis.models.loading import LoadedModel

TINY = "tiny "
"""Prefix that asks for a small, randomly initialised model with the tokenizer of the named one."""


def load(name: str) -> "LoadedModel":
    """The model called `name`, or its tiny twin."""
    from hf_analysis.models.loading import load_model, tiny_twin

    if name.startswith(TINY):
        return tiny_twin(load_model(name.removeprefix(TINY)), seed=0)
    return load_model(name)


def shards(preset: Any, total: int) -> list[Item]:
    """One item for each `preset.shard` problems of `total`."""
    starts = range(0, total, preset.shard)
    return [
        Item(f"problems={start}-{min(start + preset.shard, total) - 1}", {**asdict(preset), "start": start})
        for start in starts
    ]


def by_problem(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One line per problem, one column per (condition, arm): the mean over the arm's draws."""
    chosen = rows[rows["metric"] == metric]
    arms = chosen["setting"].str.extract(r"arm=(\S+)", expand=False)
    table = chosen.assign(arm=arms).pivot_table(index="unit", columns=["condition", "arm"], values="value")
    return table.sort_index()


def mean_interval(values: Float[np.ndarray, "problem"], n_tests: int) -> Interval:
    """The mean over problems; its interval holds at 95% for all `n_tests` tests of a claim together (Bonferroni)."""
    return bootstrap_mean(values, rng=0, level=1 - 0.05 / n_tests)


def change_intervals(
    table: pd.DataFrame, groups: Sequence[str], arms: Mapping[str, str], intact: str
) -> dict[str, dict[str, Interval]]:
    """For every group and arm, the mean change from the intact model over problems, with its 95% interval."""
    return {
        group: {
            name: bootstrap_mean((table[group, arm] - table[intact, intact]).dropna().to_numpy(), rng=0)
            for arm, name in arms.items()
        }
        for group in groups
    }
