"""Do two computations of one attention layer agree? Each is held against the next slower one.

The kernel and fused attention against blocks of scores in float32 (`probes.attention.chunked`); those against the
whole pattern of one head after the other, in float64.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probes.attention.chunked import chunked_row_statistics
from probes.attention.computation import Computation
from probes.attention.groups import GroupMass, averaging, group_mass
from probes.attention.kernel.launch import SWITCH
from probes.attention.overflow import rows_of_overflow
from probes.attention.row import RowsOfPattern, RowStatistics
from probes.attention.sums import n_visible_keys

TOLERANCE = 1e-3
"""Nats, or share of the mass: far above rounding, far below what differs between texts."""
VALUES = ("entropy", "sink_mass", "entropy_without_sink", "top1_mass", "top1_mass_without_sink")
PATTERNS, BLOCKS = "patterns in float64", "blocks of scores in float32"
"""What a computation is compared with."""


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
        reference, (expected, product) = PATTERNS, explicit(query, key, scale, value=value, **inputs)
    else:
        reference, (expected, product) = BLOCKS, chunked_row_statistics(query, key, scale, value=value, **inputs)
    largest = 0.0
    for name in VALUES:
        values, others = getattr(found, name), getattr(expected, name)
        if values is None:
            continue
        largest = max(largest, _require_close(values, others, layer, name, ("token",), computation, reference))
    if output is not None and value is not None and product is not None:
        _require_output(output, product, value, f"--check: layer {layer}: attention's output", computation)
    return reference, largest


def require_group_agreement(
    found: GroupMass,
    output: Float[Tensor, "batch head query d_value"] | None,
    computation: Computation,
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    groups: Bool[Tensor, "key group"],
    *,
    readers: Bool[Tensor, "query reader"] | None = None,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    layer: int = 0,
    **inputs: Any,
) -> tuple[str, float]:
    """As `require_agreement`, for what `probes.attention.computation.grouped_mass` gives of a layer."""
    value = None if output is None else value
    options = {"readers": readers, "value": value, **inputs}
    if computation.name == "chunked":
        reference, (expected, product) = PATTERNS, explicit_group_mass(query, key, scale, groups, **options)
    else:
        reference, (expected, product) = BLOCKS, group_mass(query, key, scale, groups, **options)
    largest, places = 0.0, ("row", "group")
    for name in GroupMass._fields:
        pair = getattr(found, name), getattr(expected, name)
        largest = max(largest, _require_close(*pair, layer, name, places, computation, reference))
    if output is not None and value is not None and product is not None:
        _require_output(output, product, value, f"--check: layer {layer}: attention's output", computation)
    return reference, largest


def _require_close(
    values: Tensor,
    others: Tensor,
    layer: int,
    name: str,
    places: tuple[str, ...],
    computation: Computation,
    reference: str,
) -> float:
    """The largest difference; a ValueError with the place of one that is too large.

    `places` name the dimensions behind text and head.
    """
    difference = (values.double() - others.double()).abs().masked_fill_(values.isnan() & others.isnan(), 0)
    difference = difference.nan_to_num(nan=torch.inf)
    worst = float(difference.max())
    if worst > TOLERANCE:
        where = torch.unravel_index(difference.argmax(), difference.shape)
        text, head, *rest = map(int, where)
        place = ", ".join(f"{dimension} {index}" for dimension, index in zip(places, rest))
        raise ValueError(
            f"--check: layer {layer}, head {head}, {place} of text {text}: {name} is {values[where]:.6g} "
            f"({computation.name}), but {others[where]:.6g} from {reference}; {_remedy(computation)}"
        )
    return worst


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
    group = query.shape[1] // key.shape[1]
    heads: list[dict[str, Tensor]] = []
    products = []
    for head, scores in enumerate(_scores(query, key, scale, mask, bias, softcap)):
        rows = RowsOfPattern(scores.softmax(-1), n_visible[:, 0], n_without[:, 0])
        heads.append({name: getattr(rows, name) for name in VALUES})
        if value is not None:
            products.append(_product(scores, value[:, head // group], None if sinks is None else sinks[head]))
    stacked = {name: torch.stack([one[name] for one in heads], dim=1) for name in VALUES}
    product = torch.stack(products, dim=1) if products else None
    spoiled = rows_of_overflow(query, key, value, mask)
    if spoiled is not None:
        stacked = {name: values.masked_fill(spoiled, torch.nan) for name, values in stacked.items()}
        product = None if product is None else product.masked_fill(spoiled[..., None], torch.nan)
    found = RowStatistics(n_visible=n_visible, n_visible_without_sink=n_without, **stacked)
    return found, product


def explicit_group_mass(
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
) -> tuple[GroupMass, Float[Tensor, "batch head query d_value"] | None]:
    """As `probes.attention.groups.group_mass`, from the pattern of one head after the other, in float64."""
    group, columns = query.shape[1] // key.shape[1], groups.double()
    masses: list[list[Tensor]] = [[], []]
    products = []
    for head, scores in enumerate(_scores(query, key, scale, mask, bias, softcap)):
        if value is not None:
            products.append(_product(scores, value[:, head // group], None if sinks is None else sinks[head]))
        without = scores.clone()
        without[..., 0] = -torch.inf
        for mass, seen in zip(masses, (scores, without)):
            pattern = seen.softmax(-1).masked_fill(seen.isneginf().all(-1, keepdim=True), 0)  # sees no (other) key
            of_query = pattern @ columns
            mass.append(of_query if readers is None else averaging(readers, torch.float64) @ of_query)
    found = GroupMass(*(torch.stack(mass, dim=1) for mass in masses))
    return found, torch.stack(products, dim=1) if products else None


def _scores(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    mask: Bool[Tensor, "#batch 1 query key"] | None,
    bias: Float[Tensor, "#batch #head query key"] | None,
    softcap: float | None,
) -> Iterator[Float[Tensor, "batch query key"]]:
    """The scores of one head after the other in float64, -inf where a query does not see a key."""
    n_queries, n_keys, group = query.shape[2], key.shape[2], query.shape[1] // key.shape[1]
    causal = torch.ones(n_queries, n_keys, dtype=torch.bool, device=query.device).tril(n_keys - n_queries)
    visible = causal if mask is None else mask[:, 0]
    for head in range(query.shape[1]):
        scores = query[:, head].double() @ key[:, head // group].double().mT * scale
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        if bias is not None:
            scores = scores + bias[:, head % bias.shape[1]]
        yield scores.masked_fill(~visible, -torch.inf)


def _product(
    scores: Float[Tensor, "batch query key"], value: Float[Tensor, "batch key d_value"], sink: Tensor | None
) -> Float[Tensor, "batch query d_value"]:
    """One head's output; `sink` is the learned score that takes mass from it."""
    kept = 1.0 if sink is None else torch.sigmoid(scores.logsumexp(-1) - sink.double())[..., None]
    return kept * (scores.softmax(-1).nan_to_num(0) @ value.double())
