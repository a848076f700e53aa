"""How much of a row's attention goes to each group of keys? Out of the same blocks of scores as attention's output.

The mass of every group is a product of the weights with columns of zeros and ones, of which only the parts with ones
are multiplied: groups of neighbouring keys, such as sentences, cost little however many there are. No pattern is
stored; memory is queries x groups. Key 1, the sink, is left out of the sums and added back in
closed form, as in `probes.attention.chunked`: the mass without it comes with all its digits.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probes.attention.chunked import BLOCK_BYTES, LEAST, Output, exact_dtype, score_blocks
from probes.attention.sums import UNSEEN, RowSums

BAND = 128
"""Keys that are multiplied at once with the columns of the groups among them."""


class GroupMass(NamedTuple):
    """The attention of every query on each group of keys, in [0, 1]; zero where a query sees no (other) key."""

    mass: Float[Tensor, "batch head query group"]
    without_sink: Float[Tensor, "batch head query group"]  # of the row without key 1, renormalised


def group_mass(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    groups: Bool[Tensor, "key group"],
    *,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, "head"] | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[GroupMass, Float[Tensor, "batch head query d_value"] | None]:
    """The mass of softmax(cap(scale q.k) + bias) on each group, and its product with `value` if that is given.

    A key may be in several groups or in none. `mask` is True where a query sees a key; without one, attention is
    causal. `sinks` are learned scores of no key, which take mass from the product; the masses are over the keys.
    """
    key = key.to(exact_dtype(query))
    if softcap is None and sinks is None:
        key = key - key[:, :, :2][:, :, -1:]  # what all keys share costs digits and changes nothing
    columns = groups.to(key.dtype)
    bands = _bands(columns)
    mass = key.new_zeros(*query.shape[:3], groups.shape[1])
    product = None if value is None else Output(query, value.to(key.dtype))
    parts = []
    blocks = score_blocks(query, key, scale, mask=mask, bias=bias, softcap=softcap, block_bytes=block_bytes)
    for rows, scores in blocks:
        first = scores[..., 0].clone()
        scores[..., 0] = UNSEEN
        largest = scores.amax(-1, keepdim=True)
        scores.sub_(largest).clamp_(min=LEAST).exp_()
        parts.append((first, largest.squeeze(-1), scores.sum(-1)))
        flat = scores.view(-1, scores.shape[-1])
        for start, among, ones in bands:
            seen = flat[:, start : start + BAND]
            if seen.shape[1]:
                mass[:, :, rows, among] += (seen @ ones[: seen.shape[1]]).view(*scores.shape[:3], -1)
        if product is not None:
            product.write(rows, scores)
    first_score, largest, total = (torch.cat(part, dim=2) for part in zip(*parts))
    sums = RowSums(first_score, largest, total, score=torch.zeros_like(total))  # nobody asks for the entropy
    found = with_first_key_in_groups(mass, groups, sums)
    if product is None:
        return found, None
    output = product.normalised(*sums.weights())
    if sinks is not None:
        output = output * torch.sigmoid(sums.lse - sinks[:, None].to(output.dtype))[..., None]
    return found, output


def with_first_key_in_groups(
    mass: Float[Tensor, "batch head query group"], groups: Bool[Tensor, "key group"], sums: RowSums
) -> GroupMass:
    """The mass on each group, from the sums over its keys but key 1 of exp(score - largest); they are overwritten."""
    first, factor = sums.weights()
    without = (mass / sums.total[..., None]).masked_fill_(sums.alone[..., None], 0)
    return GroupMass(mass.mul_(factor[..., None]).addcmul_(first[..., None], groups[0].to(mass.dtype)), without)


def _bands(columns: Float[Tensor, "key group"]) -> list[tuple[int, Tensor, Tensor]]:
    """Where each run of keys begins, the groups that have one of its keys, and their part of the columns."""
    found = []
    for start in range(0, len(columns), BAND):
        part = columns[start : start + BAND]
        among = part.any(0).nonzero().flatten()
        if len(among):
            found.append((start, among, part[:, among]))
    return found
