"""What does one attention layer do at every query? Chooses the computation, and says which and why."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probes.attention.chunked import RowStatistics, chunked_row_statistics
from probes.attention.fused import fused_row_statistics


@dataclass(frozen=True)
class Path:
    """Which computation measured a layer, and why."""

    name: str  # "fused" or "chunked"
    reason: str


def row_statistics(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
) -> tuple[RowStatistics, Float[Tensor, "batch head query d_value"] | None, Path]:
    """Entropy, sink mass and entropy without the sink of every row; attention's output; the path that was taken.

    `mask` is True where a query sees a key; without one, attention is causal. Both paths agree to rounding. The
    output is there if `value` is given and the path has it at hand; its type is that of the statistics.
    """
    path = choose_path(query, key, mask=mask, bias=bias)
    if path.name == "fused":
        return fused_row_statistics(query, key, scale), None, path
    statistics, output = chunked_row_statistics(query, key, scale, mask=mask, bias=bias, value=value)
    return statistics, output, path


def choose_path(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    *,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, "head"] | None = None,
) -> Path:
    """Fused on a GPU where that is exact and a kernel returns its log-sum-exp; else chunked."""
    if sinks is not None:
        return Path("chunked", "learned sinks outside the keys")
    if softcap is not None:
        return Path("chunked", f"scores are capped at {softcap:g}: not linear in the keys")
    if bias is not None:
        return Path("chunked", "scores carry a bias: not linear in the keys")
    if query.shape[2] != key.shape[2]:
        return Path("chunked", f"{query.shape[2]} queries against {key.shape[2]} keys")
    if query.shape[2] < 2:
        return Path("chunked", "a single token")
    device = query.device.type
    if device == "cpu":
        return Path("chunked", "on a CPU one pass over blocks of scores is the fastest")
    if device != "cuda":
        return Path("chunked", f"no fused kernel on {device} returns its log-sum-exp")
    if query.dtype != torch.float32:
        return Path("chunked", f"the fused output would be rounded to {query.dtype}")
    if mask is not None:
        return Path("chunked", "the fused kernel that returns its log-sum-exp is causal only")
    return Path("fused", "plain causal softmax of q.k")
