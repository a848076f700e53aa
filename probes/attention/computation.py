"""What does one attention layer do at every query? Chooses the computation, and says which and why."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probes.attention.chunked import chunked_row_statistics
from probes.attention.fused import fused_row_statistics
from probes.attention.groups import GroupMass, averaging, group_mass
from probes.attention.kernel.launch import kernel_group_mass, kernel_row_statistics, why_not_kernel
from probes.attention.row import RowStatistics

LARGEST_WEIGHTS = ("top1_mass", "top1_mass_without_sink")
"""Quantities that need every weight, which fused attention does not give."""


@dataclass(frozen=True)
class Computation:
    """How a layer was measured, and why so."""

    name: str  # "kernel", "fused" or "chunked"
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def row_statistics(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    quantities: Collection[str] = (),
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, "head"] | None = None,
) -> tuple[RowStatistics, Float[Tensor, "batch head query d_value"] | None, Computation]:
    """Entropy, sink mass and entropy without the sink of every row; attention's output; how they were computed.

    `quantities` names what else is needed (the largest weights). `mask` is True where a query sees a key; without
    one, attention is causal. All computations agree to rounding. The output, in the dtype of `query`, is there if
    `value` is given and it is no detour: plain attention in half precision is better left to the model, unless the
    kernel computes it anyway.
    """
    options = {"mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks}
    chosen = choose_computation(query, key, quantities=quantities, **options)
    top1 = any(name in quantities for name in LARGEST_WEIGHTS)
    if chosen.name == "kernel":
        found = kernel_row_statistics(query, key, scale, value=value, mask=mask, softcap=softcap, top1=top1)
        return *found, chosen
    if chosen.name == "fused":
        return fused_row_statistics(query, key, scale), None, chosen
    value = value if _worth_it(query, softcap, sinks) else None
    statistics, output = chunked_row_statistics(query, key, scale, value=value, top1=top1, **options)
    return statistics, None if output is None else output.to(query.dtype), chosen


def grouped_mass(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    groups: Bool[Tensor, "key group"],
    *,
    readers: Bool[Tensor, "query reader"] | None = None,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, "head"] | None = None,
) -> tuple[GroupMass, Float[Tensor, "batch head query d_value"] | None, Computation]:
    """The attention of every query, or the means of `readers`, on each group of keys; output and rest as above."""
    options = {"mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks}
    chosen = choose_computation(query, key, quantities=LARGEST_WEIGHTS, **options)  # every weight: never fused
    if chosen.name == "kernel":
        mass, output = kernel_group_mass(query, key, scale, groups, value=value, mask=mask, softcap=softcap)
        if readers is not None:
            mass = GroupMass(*(averaging(readers, one.dtype) @ one for one in mass))
        return mass, output, chosen
    value = value if _worth_it(query, softcap, sinks) else None
    mass, output = group_mass(query, key, scale, groups, readers=readers, value=value, **options)
    return mass, None if output is None else output.to(query.dtype), chosen


def _worth_it(query: Tensor, softcap: float | None, sinks: Tensor | None) -> bool:
    """Whether blocks of scores should also give the output: in full precision, or where SDPA cannot."""
    return query.dtype in (torch.float32, torch.float64) or softcap is not None or sinks is not None


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
    """On a GPU the kernel in half precision, fused attention in float32 where that is exact; else chunked."""
    if sinks is not None:
        return Computation("chunked", "learned sinks take mass: statistics are over the keys, renormalised")
    if bias is not None:
        return Computation("chunked", "scores carry a bias: not linear in the keys")
    why_not = why_not_kernel(query)
    if why_not is None:
        return Computation("kernel", "half precision on a GPU: output and statistics in one pass")
    if softcap is not None:
        return Computation("chunked", f"scores are capped at {softcap:g}: not linear in the keys")
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
        return Computation("chunked", f"{why_not}, and a fused output would be rounded to {query.dtype}")
    if mask is not None:
        return Computation("chunked", "the fused kernel that returns its log-sum-exp is causal only")
    missing = [name for name in LARGEST_WEIGHTS if name in quantities]
    if missing:
        return Computation("chunked", f"the fused kernel does not give {missing[0]}")
    return Computation("fused", "plain causal softmax of q.k")
