"""How much of attention goes to each group of keys? Out of the same blocks of scores as attention's output.

The mass of every group is a product of the weights with columns of zeros and ones, of which only the parts with ones
are multiplied: groups of neighbouring keys, such as sentences, cost little however many there are. Where only the
mean over the tokens of a sentence is asked for, the rows of a block are averaged first and the keys are summed after,
so that a block is read once. No pattern is stored. Key 1, the sink, is left out of the sums and added back in
closed form, as in `probes.attention.chunked`: the mass without it comes with all its digits.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probes.attention.chunked import BLOCK_BYTES, LEAST, Output, exact_dtype, score_blocks
from probes.attention.sums import UNSEEN, RowSums

BAND = 128
"""Keys that are multiplied at once with the columns of the groups among them."""
_Bands = list[tuple[int, Tensor, Tensor]]
"""Where each run of keys begins, the groups that have one of its keys, and their part of the columns."""


class GroupMass(NamedTuple):
    """The attention on each group of keys, in [0, 1]; zero where a query sees no (other) key.

    A row is a query, or the mean over those of a reader.
    """

    mass: Float[Tensor, "batch head row group"]
    without_sink: Float[Tensor, "batch head row group"]  # of attention without key 1, renormalised


class _Block(NamedTuple):
    """The softmax of some queries: weights exp(score - largest), zero for key 1, and what makes them masses."""

    rows: slice
    weights: Float[Tensor, "batch head query seen_key"]
    sums: RowSums


def group_mass(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    groups: Bool[Tensor, "key group"],
    *,
    readers: Bool[Tensor, "query reader"] | None = None,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    sinks: Float[Tensor, "head"] | None = None,
    **options: Any,
) -> tuple[GroupMass, Float[Tensor, "batch head query d_value"] | None]:
    """The mass of softmax(cap(scale q.k) + bias) on each group, and its product with `value` if that is given.

    By query, or with `readers` the mean over the queries of each. A key may be in several groups or in none. `sinks`
    are learned scores of no key, which take mass from the product; the masses are over the keys. The other options
    are those of `score_blocks`: mask, bias, softcap, block_bytes.
    """
    bands = _bands(groups.to(exact_dtype(query)))
    weights = None if readers is None else averaging(readers, exact_dtype(query))
    n_rows = query.shape[2] if weights is None else len(weights)
    shape = (*query.shape[:2], n_rows, groups.shape[1])
    found = GroupMass(*(query.new_zeros(shape, dtype=exact_dtype(query)) for _ in range(2)))
    output = _Product(query, value, sinks)
    for block in _blocks(query, key, scale, sinks, **options):
        if weights is None:
            part = with_first_key_in_groups(_group_sums(block.weights, bands, groups.shape[1]), groups, block.sums)
            for whole, of_block in zip(found, part):
                whole[:, :, block.rows] = of_block
        else:
            among = weights[:, block.rows].any(1).nonzero().flatten()
            for whole, of_block in zip(found, _by_reader(block, weights[among, block.rows], groups, bands)):
                whole.index_add_(2, among, of_block)
        output.write(block)
    return found, output.finished()


def averaging(readers: Bool[Tensor, "query reader"], dtype: torch.dtype) -> Float[Tensor, "reader query"]:
    """What the mean over the queries of each reader multiplies them by."""
    return (readers / readers.sum(0)).to(dtype).T


def with_first_key_in_groups(
    mass: Float[Tensor, "batch head query group"], groups: Bool[Tensor, "key group"], sums: RowSums
) -> GroupMass:
    """The mass on each group, from the sums over its keys but key 1 of exp(score - largest); they are overwritten."""
    first, factor = sums.weights()
    without = (mass / sums.total[..., None]).masked_fill_(sums.alone[..., None], 0)
    return GroupMass(mass.mul_(factor[..., None]).addcmul_(first[..., None], groups[0].to(mass.dtype)), without)


def _by_reader(
    block: _Block, weights: Float[Tensor, "reader query"], groups: Bool[Tensor, "key group"], bands: _Bands
) -> GroupMass:
    """What a block's queries add to the means of their readers: rows are averaged first, then keys are summed."""
    first, factor = block.sums.weights()
    without = block.sums.total.reciprocal().masked_fill_(block.sums.alone, 0)
    left = (weights * torch.stack([factor, without], 2)[:, :, :, None]).flatten(2, 3)  # [batch head 2*reader query]
    means = torch.bmm(left.flatten(0, 1), block.weights.flatten(0, 1)).view(*left.shape[:3], -1)
    mass, mass_without = _group_sums(means, bands, groups.shape[1]).chunk(2, dim=2)
    first = (weights * first[:, :, None]).sum(-1, keepdim=True)  # [batch head reader 1]
    return GroupMass(mass.addcmul_(first, groups[0].to(mass.dtype)), mass_without)


def _blocks(query: Tensor, key: Tensor, scale: float, sinks: Tensor | None, **options: Any) -> Iterator[_Block]:
    """The softmax block by block; the weights of one are valid until the next is asked for."""
    options.setdefault("block_bytes", BLOCK_BYTES)
    key = key.to(exact_dtype(query))
    if options.get("softcap") is None and sinks is None:
        key = key - key[:, :, :2][:, :, -1:]  # what all keys share costs digits and changes nothing
    for rows, scores in score_blocks(query, key, scale, **options):
        first_score = scores[..., 0].clone()
        scores[..., 0] = UNSEEN
        largest = scores.amax(-1, keepdim=True)
        weights = scores.sub_(largest).clamp_(min=LEAST).exp_()
        sums = RowSums(first_score, largest.squeeze(-1), weights.sum(-1), score=torch.zeros_like(first_score))
        yield _Block(rows, weights, sums)  # nobody asks for the entropy


class _Product:
    """Attention's product with the values, if there are any, from the blocks of `_blocks`."""

    def __init__(self, query: Tensor, value: Tensor | None, sinks: Tensor | None) -> None:
        self.output = None if value is None else Output(query, value)
        self.sinks = sinks
        self.parts: list[RowSums] = []

    def write(self, block: _Block) -> None:
        if self.output is not None:
            self.output.write(block.rows, block.weights)
            self.parts.append(block.sums)

    def finished(self) -> Float[Tensor, "batch head query d_value"] | None:
        if self.output is None:
            return None
        sums = RowSums(*(torch.cat(part, dim=2) for part in zip(*self.parts)))
        product = self.output.normalised(*sums.weights())
        if self.sinks is None:
            return product
        return product * torch.sigmoid(sums.over_sinks(self.sinks))[..., None]


def _bands(columns: Float[Tensor, "key group"]) -> _Bands:
    """The runs of keys that hold a key of any group."""
    found = []
    for start in range(0, len(columns), BAND):
        part = columns[start : start + BAND]
        among = part.any(0).nonzero().flatten()
        if len(among):
            found.append((start, among, part[:, among]))
    return found


def _group_sums(
    weights: Float[Tensor, "batch head row seen_key"], bands: _Bands, n_groups: int
) -> Float[Tensor, "batch head row group"]:
    """The sum of the weights over the keys of every group."""
    flat = weights.flatten(0, 2)
    sums = weights.new_zeros(len(flat), n_groups)
    for start, among, ones in bands:
        seen = flat[:, start : start + BAND]
        if seen.shape[1]:
            sums.index_add_(1, among, seen @ ones[: seen.shape[1]])
    return sums.view(*weights.shape[:3], n_groups)
