"""How spread out is attention, for any attention? Exact row statistics from scores, block by block.

The reference path: it computes the scores of a block of queries in float32 or better, applies whatever the
model applies (soft cap, bias, mask) and reduces them before the next block. Memory is block x keys, never
queries x keys. `probes.fused_entropy` is faster where attention is a plain softmax of q.k.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor

BLOCK_BYTES = 32 * 2**20  # scores of one block of queries


@dataclass(frozen=True)
class RowStatistics:
    """What one attention layer does at every query. Entropies in nats, over the keys a query sees.

    A query that sees no key has NaN everywhere; one that sees only key 1 has no `entropy_without_sink`.
    """

    entropy: Float[Tensor, "batch head query"]
    sink_mass: Float[Tensor, "batch head query"]  # attention on key 1, in [0, 1]
    entropy_without_sink: Float[Tensor, "batch head query"]  # of the row without key 1, renormalised
    n_visible: Int[Tensor, "batch 1 query"]
    n_visible_without_sink: Int[Tensor, "batch 1 query"]
    # of the chunked path only:
    top1_mass: Float[Tensor, "batch head query"] | None = None  # the largest weight
    log_normaliser: Float[Tensor, "batch head query"] | None = None  # log-sum-exp of the visible scores


def chunked_row_statistics(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[RowStatistics, Float[Tensor, "batch head query d_value"] | None]:
    """The statistics of softmax(cap(scale q.k) + bias) over the visible keys, and its product with `value`.

    `mask` is True where a query sees a key; without one, attention is causal and queries are the last keys.
    Query heads are grouped over key heads, whose keys are never repeated.
    """
    blocks = [
        _reduce(scores, visible, value)
        for _, visible, scores in score_blocks(
            query, key, scale, mask=mask, bias=bias, softcap=softcap, block_bytes=block_bytes
        )
    ]
    columns = [None if column[0] is None else torch.cat(column, dim=2) for column in zip(*blocks)]
    output = columns.pop()
    return RowStatistics(*columns), output  # type: ignore[arg-type]


def score_blocks(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[tuple[slice, Bool[Tensor, "batch 1 block key"], Float[Tensor, "batch head block key"]]]:
    """The scores of one block of queries after the other: which queries, what they see, scores (-inf: unseen)."""
    exact = torch.float64 if query.dtype == torch.float64 else torch.float32
    n_batch, n_heads, n_queries, _ = query.shape
    row_bytes = n_batch * n_heads * key.shape[2] * exact.itemsize
    size = max(1, min(n_queries, block_bytes // max(1, row_bytes)))
    for start in range(0, n_queries, size):
        rows = slice(start, min(start + size, n_queries))
        visible = _visible(mask, rows, n_queries, key.shape[2], query.device).expand(n_batch, -1, -1, -1)
        scores = _scores(query[:, :, rows].to(exact), key.to(exact), scale, softcap)
        if bias is not None:
            scores = scores + bias[:, :, rows].to(exact)
        yield rows, visible, scores.masked_fill(~visible, -torch.inf)


def _visible(
    mask: Tensor | None, rows: slice, n_queries: int, n_keys: int, device: torch.device
) -> Bool[Tensor, "#batch 1 block key"]:
    if mask is not None:
        return mask[:, :, rows]
    last = torch.arange(rows.start, rows.stop, device=device) + n_keys - n_queries
    return (torch.arange(n_keys, device=device) <= last[:, None])[None, None]


def _scores(
    query: Float[Tensor, "batch head block d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    softcap: float | None,
) -> Float[Tensor, "batch head block key"]:
    n_kv, block = key.shape[1], query.shape[2]
    grouped = rearrange(query, "batch (kv group) block d -> batch kv (group block) d", kv=n_kv)
    scores = grouped @ key.transpose(-1, -2) * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    return rearrange(scores, "batch kv (group block) key -> batch (kv group) block key", block=block)


def _reduce(
    scores: Float[Tensor, "batch head block key"],
    visible: Bool[Tensor, "batch 1 block key"],
    value: Tensor | None,
) -> tuple[Tensor | None, ...]:
    n_visible = visible.sum(-1)
    n_without = n_visible - visible[..., 0].long()
    pattern, entropy, normaliser = _softmax_entropy(scores, n_visible)
    _, without, _ = _softmax_entropy(scores[..., 1:], n_without)
    output = None if value is None else _weighted(pattern, value)
    return entropy, pattern[..., 0], without, n_visible, n_without, pattern.amax(-1), normaliser, output


def _softmax_entropy(
    scores: Float[Tensor, "batch head block key"], n_visible: Int[Tensor, "batch 1 block"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Pattern, entropy and log-sum-exp; entropy is NaN for a row that sees nothing."""
    normaliser = scores.logsumexp(-1)
    logs = scores - normaliser[..., None]
    pattern = logs.exp()
    # 0 log 0 = 0: where the weight is 0 its logarithm may be -inf
    entropy = -(pattern * logs.masked_fill(pattern == 0, 0)).sum(-1)
    return pattern, entropy.masked_fill(n_visible == 0, torch.nan), normaliser


def _weighted(
    pattern: Float[Tensor, "batch head block key"], value: Float[Tensor, "batch kv_head key d_value"]
) -> Float[Tensor, "batch head block d_value"]:
    repeated = repeat(value, "b kv k d -> b (kv group) k d", group=pattern.shape[1] // value.shape[1])
    return pattern @ repeated.to(pattern.dtype)
