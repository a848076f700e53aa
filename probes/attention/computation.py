"""What does one attention layer do at every query? Chooses the computation, and says which and why."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probes.attention.chunked import chunked_row_statistics
from probes.attention.fused import fused_row_statistics
from probes.attention.row import RowStatistics

CHUNKED_ONLY = ("top1_mass", "top1_mass_without_sink")
"""Quantities that need every weight, which a fused kernel does not give."""


@dataclass(frozen=True)
class Computation:
    """How a layer was measured, and why so."""

    name: str  # "fused" or "chunked"
    reason: str


def row_statistics(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    quantities: Collection[str] = (),
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
) -> tuple[RowStatistics, Float[Tensor, "batch head query d_value"] | None, Computation]:
    """Entropy, sink mass and entropy without the sink of every row; attention's output; how they were computed.

    `quantities` names what else is needed (the largest weights). `mask` is True where a query sees a key; without
    one, attention is causal. Both computations agree to rounding. The output is there if `value` is given and the
    computation has it at hand; its type is that of the statistics.
    """
    chosen = choose_computation(query, key, quantities=quantities, mask=mask, bias=bias)
    if chosen.name == "fused":
        return fused_row_statistics(query, key, scale), None, chosen
    top1 = any(name in quantities for name in CHUNKED_ONLY)
    statistics, output = chunked_row_statistics(query, key, scale, mask=mask, bias=bias, value=value, top1=top1)
    return statistics, output, chosen


def choose_computation(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    *,
    quantities: Collection[str] = (),
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, "head"] | None = None,
) -> Computation:
    """Fused on a GPU where that is exact and a kernel returns its log-sum-exp; else chunked."""
    if sinks is not None:
        return Computation("chunked", "learned sinks take mass: statistics are over the keys, renormalised")
    if softcap is not None:
        return Computation("chunked", f"scores are capped at {softcap:g}: not linear in the keys")
    if bias is not None:
        return Computation("chunked", "scores carry a bias: not linear in the keys")
    if query.shape[2] != key.shape[2]:
        return Computation("chunked", f"{query.shape[2]} queries against {key.shape[2]} keys")
    if query.shape[2] < 2:
        return Computation("chunked", "a single token")
    device = query.device.type
    if device == "cpu":
        return Computation("chunked", "on a CPU one pass over blocks of scores is the fastest")
    if device != "cuda":
        return Computation("chunked", f"no fused kernel on {device} returns its log-sum-exp")
    if query.dtype != torch.float32:
        return Computation("chunked", f"the fused output would be rounded to {query.dtype}")
    if mask is not None:
        return Computation("chunked", "the fused kernel that returns its log-sum-exp is causal only")
    missing = [name for name in CHUNKED_ONLY if name in quantities]
    if missing:
        return Computation("chunked", f"the fused kernel does not give {missing[0]}")
    return Computation("fused", "plain causal softmax of q.k")
