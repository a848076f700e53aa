"""How spread out is attention, for any attention? Exact row statistics from scores, block by block, in one pass.

Each block holds the scores of a few queries in float32 or better, with whatever the model applies to them (soft cap,
bias, mask); it is reduced before the next one is computed, so memory is block x keys, never queries x keys. One
exponential gives entropy, sink and the product with the values alike. On a CPU that is about as fast as the fused
attention it replaces (`cotlens bench entropy`).

Key 1, the sink, is left out of every sum and added back in closed form (`probes.attention.sums`).
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probes.attention.overflow import rows_of_overflow
from probes.attention.row import RowStatistics
from probes.attention.sums import UNSEEN, RowSums, n_visible_keys

BLOCK_ROWS = 64  # queries per block: more compute scores that the causal mask hides, fewer starve the matrix products
BLOCK_BYTES = 32 * 2**20  # of scores, at most; very long texts have smaller blocks
LEAST = -80.0  # a score this far below its row's largest weighs 2e-35, as good as nothing; further down, exp is slow


def chunked_row_statistics(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, "head"] | None = None,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    top1: bool = True,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[RowStatistics, Float[Tensor, "batch head query d_value"] | None]:
    """The statistics of softmax(cap(scale q.k) + bias) over the visible keys, and its product with `value`.

    `mask` is True where a query sees a key; without one, attention is causal and queries are the last keys.
    `sinks` are learned scores of no key, which take mass from the product; the statistics are over the keys.
    `top1=False` leaves the largest weights out. A row that sees a number that is not finite is NaN, and no other row.
    """
    spoiled = rows_of_overflow(query, key, value, mask)
    if spoiled is not None:  # computed on numbers that are, or a hidden infinity would reach every row of its block
        query, key = query.nan_to_num(0, 0, 0), key.nan_to_num(0, 0, 0)
        value = None if value is None else value.nan_to_num(0, 0, 0)
    key = key.to(exact_dtype(query))
    if softcap is None and sinks is None:
        # Softmax does not see what all keys share, but a large bias (Qwen2) costs digits. Key 2 is a usual one, and
        # the same whatever stands behind it.
        key = key - key[:, :, :2][:, :, -1:]
    blocks = score_blocks(query, key, scale, mask=mask, bias=bias, softcap=softcap, block_bytes=block_bytes)
    spare = _memory(query, key, block_bytes)
    output = None if value is None else Output(query, value)
    parts = []
    for rows, scores in blocks:
        sums, weights = _summed(scores, spare)
        parts.append(sums)
        if output is not None:
            output.write(rows, weights)
    sums = RowSums(*(torch.cat(part, dim=2) for part in zip(*parts)))
    statistics = sums.statistics(*n_visible_keys(mask, query, key), spoiled, top1, sinks)
    if output is None:
        return statistics, None
    finished = output.normalised(*sums.weights())
    if sinks is not None:
        finished *= torch.sigmoid(sums.over_sinks(sinks))[..., None]
    return statistics, finished if spoiled is None else finished.masked_fill_(spoiled[..., None], torch.nan)


def score_blocks(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[tuple[slice, Float[Tensor, "batch head block seen_key"]]]:
    """The scores of one block of queries after the other: which queries, and their scores (`UNSEEN`: hidden).

    A block ends with the last key that any of its queries sees; all blocks share their memory, so one is valid until
    the next is asked for. All keys must be finite, hidden ones too.
    """
    _refuse_gradients(query, key)
    n_batch, n_heads, n_queries, d = query.shape
    n_kv, n_keys = key.shape[1:3]
    memory = _memory(query, key, block_bytes)
    size = len(memory) // (n_batch * n_heads * n_keys)
    query = query.to(memory.dtype).unflatten(1, (n_kv, -1))
    key = _spread((key.to(memory.dtype) * scale).flatten(0, 1).transpose(-1, -2).contiguous())
    later = torch.full((size, size), UNSEEN, dtype=memory.dtype, device=memory.device).triu_(1)
    for start in range(0, n_queries, size):
        rows = slice(start, min(start + size, n_queries))
        n_rows = rows.stop - rows.start
        if mask is None:
            n_seen, hiding = rows.stop + n_keys - n_queries, later[:n_rows, :n_rows]
        else:
            n_seen, hiding = _hiding(mask[:, :, rows])
        grouped = query[:, :, :, rows].reshape(n_batch * n_kv, -1, d)
        scores = memory[: n_batch * n_heads * n_rows * n_seen].view(n_batch, n_heads, n_rows, n_seen)
        _batch_product(grouped, key[:, :, :n_seen], scores)
        if softcap is not None:
            scores.div_(softcap).tanh_().mul_(softcap)
        if bias is not None:
            scores.add_(bias[:, :, rows, :n_seen]).clamp_(min=UNSEEN)
        scores[..., n_seen - hiding.shape[-1] :].add_(hiding)
        yield rows, scores


def exact_dtype(query: Tensor) -> torch.dtype:
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def _refuse_gradients(*tensors: Tensor) -> None:
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise ValueError("blocks of scores share their memory and have no gradient; ask within torch.no_grad()")


def _memory(query: Tensor, key: Tensor, block_bytes: int) -> Float[Tensor, "cells"]:
    """Room for the scores of one block: as many queries as fit, at least one."""
    dtype = exact_dtype(query)
    row = query.shape[0] * query.shape[1] * key.shape[2]
    most = min(BLOCK_ROWS, query.shape[2]) if query.device.type == "cpu" else query.shape[2]
    n_rows = max(1, min(most, block_bytes // (row * dtype.itemsize)))
    return torch.empty(n_rows * row, dtype=dtype, device=query.device)


def _hiding(visible: Bool[Tensor, "#batch 1 block key"]) -> tuple[int, Float[Tensor, "#batch 1 block seen_key"]]:
    """How many keys there are up to the last that any query sees, and what to add to their scores."""
    seen = visible.any(dim=2).any(dim=0).nonzero()
    n_seen = int(seen[-1, -1]) + 1 if len(seen) else 1
    return n_seen, ~visible[..., :n_seen] * UNSEEN


def _summed(
    scores: Float[Tensor, "batch head block key"], spare: Float[Tensor, "cells"]
) -> tuple[RowSums, Float[Tensor, "batch head block key"]]:
    """The sums of one block, and its weights, which are written to `spare`; the scores are overwritten."""
    first_score = scores[..., 0].clone()
    scores[..., 0] = UNSEEN
    largest = scores.amax(-1, keepdim=True)
    scores.sub_(largest).clamp_(min=LEAST)
    weights = torch.exp(scores, out=spare[: scores.numel()].view_as(scores))
    return RowSums(first_score, largest.squeeze(-1), weights.sum(-1), scores.mul_(weights).sum(-1)), weights


class Output:
    """Attention's product with the values, summed block by block and normalised at the end."""

    def __init__(self, query: Tensor, value: Float[Tensor, "batch kv_head key d_value"]) -> None:
        _refuse_gradients(value)
        n_batch, n_heads, n_queries, _ = query.shape
        self.value = value.to(exact_dtype(query))
        self.copies = _spread(self.value.flatten(0, 1))
        in_order = self.value.new_empty(n_batch, n_queries, n_heads, value.shape[-1])  # as models want it
        self.product = in_order.transpose(1, 2)

    def write(self, rows: slice, weights: Float[Tensor, "batch head block key"]) -> None:
        """The product of one block."""
        n_keys = weights.shape[-1]
        product = weights.new_empty(*weights.shape[:3], self.value.shape[-1])
        grouped = weights.view(self.value.shape[0] * self.value.shape[1], -1, n_keys)
        self.product[:, :, rows] = _batch_product(grouped, self.copies[:, :n_keys], product)

    def normalised(
        self, first: Float[Tensor, "batch head query"], factor: Float[Tensor, "batch head query"]
    ) -> Float[Tensor, "batch head query d_value"]:
        """The product times `factor`, plus the value of key 1 times `first`."""
        first_value = self.value[:, :, :1].repeat_interleave(first.shape[1] // self.value.shape[1], dim=1)
        return self.product.mul_(factor[..., None]).addcmul_(first[..., None], first_value)


def _spread(matrices: Float[Tensor, "matrix m n"]) -> Float[Tensor, "copy m n"]:
    """Each matrix up to four times, so that their number suits the threads: MKL gives every thread whole matrices."""
    n_threads = torch.get_num_threads() if matrices.device.type == "cpu" else 1

    def share_busy(n_copies: int) -> float:
        n = len(matrices) * n_copies
        return n / (math.ceil(n / n_threads) * n_threads)

    return matrices.repeat_interleave(max(range(1, 5), key=share_busy), dim=0)


def _batch_product(
    left: Float[Tensor, "matrix row m"], right: Float[Tensor, "copy m n"], out: Float[Tensor, "batch head block n"]
) -> Float[Tensor, "batch head block n"]:
    """Writes left @ right to `out`; each copy on the right takes its share of the rows on the left."""
    n_copies = len(right) // len(left)
    if left.shape[1] % n_copies:
        right = right[::n_copies]
    left = left.reshape(len(right), -1, left.shape[-1])
    torch.bmm(left, right, out=out.view(len(right), -1, right.shape[-1]))
    return out
