"""What do claims about pretrained models share? Which model, shards and clusters of problems, intervals over them."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from hf_analysis.text.problems import template_of
from interp.core.claim import Item
from interp.core.judging import UNBOUNDED, mean_over
from interp.core.loops import Loop
from interp.core.parts import NotMeasurable, Unit
from interp.statistics import Interval, clustered_mean

if TYPE_CHECKING:
    from hf_analysis.models.loading import LoadedModel
    from hf_analysis.text.problems import Problem

TINY = "tiny "
"""Prefix that asks for a small, randomly initialised model with the tokenizer of the named one."""
LIKE = "like "
"""Prefix that asks for random layers of the named model's shape: `like Qwen/Qwen2-7B layers=1`."""


def load(name: str) -> "LoadedModel":
    """The model called `name`, its tiny twin, or something of its shape."""
    from hf_analysis.models.architectures import random_model
    from hf_analysis.models.loading import load_model

    if name.startswith(LIKE):
        shape, _, layers = name.removeprefix(LIKE).partition(" layers=")
        return random_model(shape, int(layers))
    if name.startswith(TINY):
        twin = _tiny(name.removeprefix(TINY))
        return replace(twin, model=deepcopy(twin.model))  # an item may train its own
    return load_model(name)


@cache
def _tiny(name: str) -> "LoadedModel":
    """The twin of `name`, kept: every item would read all weights of `name` for its tokenizer alone."""
    from hf_analysis.models.loading import load_model, tiny_twin

    return tiny_twin(load_model(name), seed=0)


def some_problems(data: str, first: int, limit: int | None) -> list["Problem"]:
    """`limit` problems from the first one on, counted from 0; without a limit all that follow."""
    from hf_analysis.text.problems import load_problems

    return load_problems(data, limit=None if limit is None else first + limit)[first:]


def shards(preset: Any, total: int) -> list[Item]:
    """One item for each `preset.shard` problems of `total`, from the preset's first one on."""
    end = preset.first_unit + total
    return [
        Item(f"problems={start}-{min(start + preset.shard, end) - 1}", {**asdict(preset), "start": start})
        for start in range(preset.first_unit, end, preset.shard)
    ]


def _problems(p: Mapping[str, Any]) -> float:
    limit, shard = p.get("limit"), p.get("shard")
    if shard is None:
        return limit or 0
    return shard if limit is None else min(shard, p["first_unit"] + limit - p["start"])


def _few_problems(p: Mapping[str, Any], n: int) -> dict[str, Any]:
    counts = {name: n for name in ("shard", "limit", "baseline_limit") if name in p}
    return counts | {name: 0 for name in ("start", "first_unit") if name in p}


PROBLEMS = Loop("problems", _problems, _few_problems, least=2)
"""What items of claims about pretrained models repeat: the problems of a shard, or of the whole preset."""


def unit_of(data: str) -> Unit:
    """What n counts: built-in problems come from templates, any others are their own clusters."""
    return "clusters" if data == "builtin" else "problems"


def clusters_of(units: Sequence[str] | pd.Index) -> np.ndarray:
    """The cluster of each unit: the template of its problem, or the problem where several samples are of one."""
    return np.array([template_of(str(unit).partition(" sample=")[0]) for unit in units])


def clustered(
    values: Float[np.ndarray, "unit"],
    clusters: np.ndarray,
    level: float,
    bounds: tuple[float, float] = UNBOUNDED,
    *,
    of: str = "problems",
) -> Interval | NotMeasurable:
    """The mean, with an interval for new clusters; `of` says in words what the units are."""
    _, first = np.unique(clusters, return_index=True)
    if len(first) < 2:
        return NotMeasurable(f"{len(values)} {of} of {len(first)} templates; a mean with an interval needs two")
    if np.ptp(values) == 0:  # as many units as clusters agree
        return mean_over(values[first], level, bounds)
    found = clustered_mean(values, clusters, rng=0, level=level)
    return replace(found, low=max(found.low, bounds[0]), high=min(found.high, bounds[1]))


def built_in(n: int, first: int = 0) -> list[str]:
    """The ids of n built-in problems, for simulated worlds."""
    return [f"gsm-symbolic-0-{place:05d}" for place in range(first + 1, first + n + 1)]
