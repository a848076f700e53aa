"""How spread out is attention? Row entropy, its normalised form, and reductions over a text.

Entropies are in nats; normalised entropies are in [0, 1]. A row that sees fewer than two keys has no
normalised entropy: it is NaN here and every reduction passes over it.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ROUNDING = 5e-3
"""How far above 1 a normalised entropy may be for rounding alone: rows of bfloat16 sum to 1 up to 2^-8."""


def row_entropy(pattern: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """H(p) = -sum_j p_j log p_j of each row, in nats, in float32 or better; 0 log 0 = 0."""
    if pattern.dtype in (torch.float16, torch.bfloat16):
        pattern = pattern.float()
    return -torch.xlogy(pattern, pattern).sum(-1)


def causal_visible(n_tokens: int, device: torch.device | None = None) -> Int[Tensor, "query"]:
    """How many keys each query of a causal model sees: 1, 2, ..., n_tokens."""
    return torch.arange(1, n_tokens + 1, device=device)


def normalised_entropy(
    entropy: Float[Tensor, "*rows query"], n_visible: Int[Tensor, "#*rows query"]
) -> Float[Tensor, "*rows query"]:
    """H / log(number of visible keys), in [0, 1]; NaN where fewer than two keys are visible.

    wen2024 equation 1 before its minimum. Clamped to [0, 1] against rounding only: what is more is refused.
    """
    ratio = (entropy / torch.log(n_visible.to(entropy.dtype))).masked_fill(n_visible < 2, torch.nan)
    if bool((ratio > 1 + ROUNDING).any()):
        raise ValueError(
            f"a row has {ratio[~ratio.isnan()].max().item():.3g} times the largest entropy over the keys said to be "
            "visible; expected at most 1: count all keys that it sees (causal=False if later ones are among them)"
        )
    return ratio.clamp(0, 1)


def minimum(values: Float[Tensor, "*rows query"]) -> Float[Tensor, "*rows"]:
    """The smallest value over queries, NaN passed over: wen2024 equation 1."""
    _require_some(values)
    return values.nan_to_num(nan=torch.inf).amin(-1)


def mean(values: Float[Tensor, "*rows query"]) -> Float[Tensor, "*rows"]:
    """The mean over queries, NaN passed over."""
    _require_some(values)
    return values.nanmean(-1)


def q10(values: Float[Tensor, "*rows query"]) -> Float[Tensor, "*rows"]:
    """The 10% quantile over queries (linear interpolation), NaN passed over."""
    _require_some(values)
    return values.nanquantile(0.1, dim=-1)


def maximum(values: Float[Tensor, "*rows query"]) -> Float[Tensor, "*rows"]:
    """The largest value over queries, NaN passed over."""
    return -minimum(-values)


def length_matched_min(values: Float[Tensor, "*rows query"], m: int) -> Float[Tensor, "*rows"]:
    """The expected minimum over a uniformly random m-subset of the queries, exactly.

    sum_j v_(j) C(n-j, m-1) / C(n, m) with v_(1) <= ... <= v_(n): what the minimum would be had the text only
    m tokens. A minimum over more tokens is lower even if nothing else changes; this one is comparable with a
    plain minimum over m tokens. All rows must have the same number n >= m of values that are not NaN.
    """
    n = int((~values.isnan()).sum(-1).amax())
    if bool(((~values.isnan()).sum(-1) != n).any()):
        raise ValueError("length_matched_min needs the same number of defined queries in every row")
    if not 1 <= m <= n:
        raise ValueError(f"length_matched_min: a subset of {m} queries out of {n}; need 1 <= m <= n")
    weights = torch.zeros(n, dtype=torch.float64, device=values.device)
    weight = m / n  # C(n-1, m-1) / C(n, m)
    for j in range(n - m + 1):  # C(n-j-1, m-1) / C(n-j, m-1) = (n-j-m+1) / (n-j), counting j from 1
        weights[j] = weight
        weight *= (n - m - j) / (n - 1 - j) if j < n - m else 0.0
    ascending = values.double().nan_to_num(nan=torch.inf).sort(-1).values[..., :n]
    return (ascending * weights).sum(-1).to(values.dtype)


REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"min": minimum, "max": maximum, "mean": mean, "q10": q10}
LENGTH_MATCHED: dict[str, Callable[[Tensor, int], Tensor]] = {
    "length_matched_min": length_matched_min,
    "length_matched_max": lambda values, m: -length_matched_min(-values, m),
}
"""Reductions that depend on how many tokens the other texts of a comparison have."""


def reduced(
    reduction: str, values: Float[Tensor, "*rows query"], matched: int | None = None
) -> Float[Tensor, "*rows"]:
    """`values` by one of the reductions; `matched` tokens for the length-matched ones, by default all there are."""
    if reduction in LENGTH_MATCHED:
        return LENGTH_MATCHED[reduction](values, n_defined(values) if matched is None else matched)
    return REDUCTIONS[reduction](values)


def n_defined(values: Float[Tensor, "*rows query"]) -> int:
    """How many queries of the first row have a value: those of every row, where all see the same keys."""
    return int((~values.reshape(-1, values.shape[-1])[0].isnan()).sum())


def with_two_keys(
    values: Float[Tensor, "*rows query"], n_visible: Int[Tensor, "#*rows query"]
) -> Float[Tensor, "*rows query"]:
    """`values` of the queries that see at least two keys, over which metrics are reduced; the others are NaN."""
    return values.masked_fill(n_visible < 2, torch.nan)


def _require_some(values: Float[Tensor, "*rows query"]) -> None:
    defined: Bool[Tensor, "*rows"] = (~values.isnan()).any(-1)
    if not bool(defined.all()):
        raise ValueError("no query with two visible keys: the text needs at least two tokens in scope")
