"""What kind of head is it? Attention on the keys that define a kind, summed block by block, never a whole pattern.

previous_token    the token before the query
duplicate_token   earlier occurrences of the query's token
induction         the tokens right behind those occurrences
sink              the first token
The first three are the detection patterns of TransformerLens (`transformer_lens.head_detector`). Its score averages
over all queries; here it is over the queries that have such a key at all, so that a text with few repeats does not
look like a model without induction. `copy_score` is for heads that fetch a number from the question.
"""

from collections.abc import Callable, Iterable

import torch
from einops import einsum
from jaxtyping import Bool, Float, Int
from torch import Tensor


def previous_token_keys(ids: Int[Tensor, "pos"]) -> Bool[Tensor, "pos pos"]:
    """True at [query, query - 1]."""
    return torch.eye(len(ids), dtype=torch.bool, device=ids.device).roll(-1, 1).tril(-1)


def duplicate_token_keys(ids: Int[Tensor, "pos"]) -> Bool[Tensor, "pos pos"]:
    """True at [query, key] where an earlier key holds the query's token."""
    return (ids[:, None] == ids[None, :]).tril(-1)


def induction_keys(ids: Int[Tensor, "pos"]) -> Bool[Tensor, "pos pos"]:
    """True at [query, key] where the token before the key is an earlier occurrence of the query's token."""
    shifted = duplicate_token_keys(ids).roll(1, 1)
    shifted[:, 0] = False
    return shifted.tril()


def sink_keys(ids: Int[Tensor, "pos"]) -> Bool[Tensor, "pos pos"]:
    """True at [query, 0], for queries that see more than that."""
    keys = torch.zeros(len(ids), len(ids), dtype=torch.bool, device=ids.device)
    keys[1:, 0] = True
    return keys


KINDS: dict[str, Callable[[Int[Tensor, "pos"]], Bool[Tensor, "pos pos"]]] = {
    "previous_token": previous_token_keys,
    "duplicate_token": duplicate_token_keys,
    "induction": induction_keys,
    "sink": sink_keys,
}


def attention_mass(
    blocks: Iterable[tuple[slice, Float[Tensor, "1 head block seen_key"]]],
    keys: Bool[Tensor, "kind #query key"],
) -> Float[Tensor, "kind head query"]:
    """The attention that every query of one text spends on the keys of each kind, in [0, 1].

    `blocks` are scores as `probes.attention.chunked.score_blocks` yields them; one block's pattern exists at a time.
    """
    parts = []
    for rows, scores in blocks:
        chosen = (keys if keys.shape[1] == 1 else keys[:, rows])[..., : scores.shape[-1]]
        chosen = chosen.expand(-1, scores.shape[2], -1).to(scores.dtype)
        parts.append(einsum(scores[0].softmax(-1), chosen, "head block key, kind block key -> kind head block"))
    return torch.cat(parts, dim=2)


def mean_mass(mass: Float[Tensor, "*rows query"], keys: Bool[Tensor, "query key"]) -> Float[Tensor, "*rows"]:
    """The mean of `mass` over the queries that have such a key, in [0, 1]; NaN if none has."""
    return mass[..., keys.any(-1)].mean(-1)


def uniform_mass(keys: Bool[Tensor, "query key"]) -> float:
    """`mean_mass` of a causal head that attends to all it sees alike: the chance level of a kind on this text."""
    n_visible = torch.arange(1, len(keys) + 1, device=keys.device)
    return float(mean_mass(keys.sum(-1) / n_visible, keys))


def copy_score(mass: Float[Tensor, "*rows copied number"]) -> Float[Tensor, "*rows"]:
    """Attention on the number that is about to be copied, minus attention on the others, in [-1, 1].

    `mass[a, b]` is the attention on number b of the question where number a is about to be written; every number
    that is written is also a control for the others, so each is target and control equally often, and a head that
    prefers a place, a length or a digit has an expected score of zero. Mean of the diagonal minus the rest.
    """
    n = mass.shape[-1]
    if mass.shape[-2] != n or n < 2:
        raise ValueError(f"copy_score: mass of shape {tuple(mass.shape)}; expected [..., n, n] with n >= 2 numbers")
    own = mass.diagonal(dim1=-2, dim2=-1).sum(-1)
    return own / n - (mass.sum((-2, -1)) - own) / (n * (n - 1))
