"""Do two computations of one attention layer agree? Each is held against the next slower one.

The kernel and fused attention against blocks of scores in float32 (`probes.attention.chunked`); those against the
whole pattern of one head after the other, in float64.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probes.attention.chunked import chunked_row_statistics
from probes.attention.computation import Computation
from probes.attention.kernel.launch import SWITCH
from probes.attention.overflow import rows_of_overflow
from probes.attention.row import RowsOfPattern, RowStatistics
from probes.attention.sums import n_visible_keys

TOLERANCE = 1e-3
"""Nats, or share of the mass: far above rounding, far below what differs between texts."""
VALUES = ("entropy", "sink_mass", "entropy_without_sink", "top1_mass", "top1_mass_without_sink")


def require_agreement(
    found: RowStatistics,
    output: Float[Tensor, "batch head query d_value"] | None,
    computation: Computation,
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    layer: int = 0,
    **inputs: Any,
) -> tuple[str, float]:
    """What a layer was compared with, and the largest difference of a statistic; a ValueError if they differ.

    `inputs` are mask, bias, softcap and sinks, as in `row_statistics`.
    """
    value = None if output is None else value
    if computation.name == "chunked":
        reference, (expected, product) = "patterns in float64", explicit(query, key, scale, value=value, **inputs)
    else:
        blocks = chunked_row_statistics(query, key, scale, value=value, **inputs)
        reference, (expected, product) = "blocks of scores in float32", blocks
    largest = 0.0
    for name in VALUES:
        values, others = getattr(found, name), getattr(expected, name)
        if values is None:
            continue
        difference = (values.double() - others.double()).abs().masked_fill_(values.isnan() & others.isnan(), 0)
        worst = float(difference.nan_to_num(nan=torch.inf).max())
        if worst > TOLERANCE:
            where = torch.unravel_index(difference.nan_to_num(nan=torch.inf).argmax(), difference.shape)
            text, head, token = map(int, where)
            raise ValueError(
                f"--check: layer {layer}, head {head}, token {token} of text {text}: {name} is {values[where]:.6g} "
                f"({computation.name}), but {others[where]:.6g} from {reference}; {_remedy(computation)}"
            )
        largest = max(largest, worst)
    if output is not None and value is not None and product is not None:
        _require_output(output, product, value, f"--check: layer {layer}: attention's output", computation)
    return reference, largest


def _require_output(output: Tensor, product: Tensor, value: Tensor, what: str, computation: Computation) -> None:
    """Rounded weights and a rounded sum are off by at most one rounding of the largest value."""
    allowed = max(torch.finfo(output.dtype).eps, 1e-5) * float(value.nan_to_num(0, 0, 0).abs().max())
    difference = (output.double() - product.double()).abs()
    difference.masked_fill_(output.isnan() & product.isnan(), 0)
    worst = float(difference.nan_to_num(nan=torch.inf).max())
    if worst > allowed:
        raise ValueError(f"{what} is off by {worst:.2g}, rounding by {allowed:.2g}; {_remedy(computation)}")


def _remedy(computation: Computation) -> str:
    if computation.name == "kernel":
        return f"set {SWITCH}=0 to measure without the kernel, and report it with what cotlens doctor prints"
    return "report it with what cotlens doctor prints"


def explicit(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, "head"] | None = None,
) -> tuple[RowStatistics, Float[Tensor, "batch head query d_value"] | None]:
    """As `chunked_row_statistics`, from the pattern of one head after the other, in float64."""
    n_visible, n_without = n_visible_keys(mask, query, key)
    n_queries, n_keys, group = query.shape[2], key.shape[2], query.shape[1] // key.shape[1]
    causal = torch.ones(n_queries, n_keys, dtype=torch.bool, device=query.device).tril(n_keys - n_queries)
    visible = causal if mask is None else mask[:, 0]
    heads: list[dict[str, Tensor]] = []
    products = []
    for head in range(query.shape[1]):
        scores = query[:, head].double() @ key[:, head // group].double().mT * scale  # [batch query key]
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        if bias is not None:
            scores = scores + bias[:, head % bias.shape[1]]
        scores = scores.masked_fill(~visible, -torch.inf)
        rows = RowsOfPattern(scores.softmax(-1), n_visible[:, 0], n_without[:, 0])
        heads.append({name: getattr(rows, name) for name in VALUES})
        if value is not None:
            kept = 1.0 if sinks is None else torch.sigmoid(scores.logsumexp(-1) - sinks[head].double())[..., None]
            products.append(kept * (rows.pattern.nan_to_num(0) @ value[:, head // group].double()))
    stacked = {name: torch.stack([one[name] for one in heads], dim=1) for name in VALUES}
    product = torch.stack(products, dim=1) if products else None
    spoiled = rows_of_overflow(query, key, value, mask)
    if spoiled is not None:
        stacked = {name: values.masked_fill(spoiled, torch.nan) for name, values in stacked.items()}
        product = None if product is None else product.masked_fill(spoiled[..., None], torch.nan)
    found = RowStatistics(n_visible=n_visible, n_visible_without_sink=n_without, **stacked)
    return found, product
