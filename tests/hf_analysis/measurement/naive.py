"""Every metric by its definition, in plain Python, from the attention matrices of eager attention in float64."""

import copy
import itertools
import math

import numpy as np
import torch

from hf_analysis.models.loading import LoadedModel


@torch.no_grad()
def attention(model: LoadedModel, texts: list[list[int]]) -> list[np.ndarray]:
    """Of each text [layer, head, query, key]."""
    twin = copy.deepcopy(model.model).double()
    twin.set_attn_implementation("eager")
    found = [twin(torch.tensor([ids]), output_attentions=True).attentions for ids in texts]
    return [torch.cat(layers).numpy() for layers in found]


def statistic(name: str, row: np.ndarray) -> float:
    """One statistic of one causal row: the weights of the keys that the query sees. NaN: not defined."""
    if name.endswith("_without_sink"):
        name, row = name.removesuffix("_without_sink"), row[1:] / row[1:].sum() if len(row) > 1 else row[1:]
    if len(row) < 2:
        return math.nan
    nats = -sum(p * math.log(p) for p in row if p > 0)
    return {
        "normalised_entropy": nats / math.log(len(row)),
        "entropy_nats": nats,
        "effective_keys": math.exp(nats),
        "top1_mass": max(row),
        "sink_mass": row[0],
        "learned_sink_mass": 0.0,
    }[name]


def by_token(name: str, pattern: np.ndarray) -> np.ndarray:
    """The statistic of every token: [layer, head, pos]."""
    n_layers, n_heads, n, _ = pattern.shape
    values = np.empty((n_layers, n_heads, n))
    for layer, head, i in itertools.product(range(n_layers), range(n_heads), range(n)):
        values[layer, head, i] = statistic(name, pattern[layer, head, i, : i + 1])
    return values


def reduction(name: str, values: np.ndarray, m: int) -> float:
    """One number from the values of the tokens in scope."""
    if name == "length_matched_max":
        return -reduction("length_matched_min", -values, m)
    if name == "length_matched_min":
        n, ordered = len(values), sorted(values)  # the j-th smallest is the smallest of a subset so often:
        return sum(v * math.comb(n - j, m - 1) / math.comb(n, m) for j, v in enumerate(ordered, start=1))
    if name == "q10":
        place = 0.1 * (len(values) - 1)
        low, ordered = int(place), sorted(values)
        return ordered[low] + (place - low) * (ordered[min(low + 1, len(values) - 1)] - ordered[low])
    return {"min": min, "max": max, "mean": lambda found: sum(found) / len(found)}[name](list(values))
