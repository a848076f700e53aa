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

from probes.attention.chunked import BLOCK_BYTES, LEAST, UNSEEN, Output, exact_dtype, score_blocks, with_first_key

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
    """The softmax of some queries: `weights` without key 1, and what makes them masses."""

    rows: slice
    weights: Float[Tensor, "batch head query seen_key"]
    first: Float[Tensor, "batch head query"]  # mass on key 1
    whole: Float[Tensor, "batch head query"]  # times a weight: its share of all keys
    without_sink: Float[Tensor, "batch head query"]  # times a weight: its share of all keys but key 1
    lse: Float[Tensor, "batch head query"]


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
    columns = groups.to(exact_dtype(query))
    bands = _bands(columns)
    averaging = None if readers is None else (readers / readers.sum(0)).to(columns).T  # [reader query]
    n_rows = query.shape[2] if averaging is None else len(averaging)
    found = columns.new_zeros(*query.shape[:2], n_rows, 2, groups.shape[1])
    output = _Product(query, value, sinks)
    for block in _blocks(query, key, scale, sinks, **options):
        if averaging is None:
            found[:, :, block.rows] = _by_query(block, columns, bands)
        else:
            among = averaging[:, block.rows].any(1).nonzero().flatten()
            found.index_add_(2, among, _by_reader(block, averaging[among, block.rows], columns, bands))
        output.write(block)
    return GroupMass(found[..., 0, :], found[..., 1, :]), output.finished()


def _by_query(block: _Block, columns: Tensor, bands: _Bands) -> Float[Tensor, "batch head query 2 group"]:
    """The masses of a block's queries, with key 1 and without."""
    sums = _group_sums(block.weights, bands, columns.shape[1])
    whole = (sums * block.whole[..., None]).addcmul_(block.first[..., None], columns[0])
    return torch.stack([whole, sums.mul_(block.without_sink[..., None])], 3)


def _by_reader(
    block: _Block, averaging: Float[Tensor, "reader query"], columns: Tensor, bands: _Bands
) -> Float[Tensor, "batch head reader 2 group"]:
    """What a block's queries add to the means of their readers, with key 1 and without."""
    shares = torch.stack([block.whole, block.without_sink], 2)[:, :, None]  # [batch head 1 2 query]
    left = (averaging[:, None] * shares).flatten(2, 3)  # [batch head reader*2 query]
    means = torch.bmm(left.flatten(0, 1), block.weights.flatten(0, 1)).view(*left.shape[:3], -1)
    sums = _group_sums(means, bands, columns.shape[1]).unflatten(2, (-1, 2))
    first = (averaging * block.first[:, :, None]).sum(-1, keepdim=True)  # [batch head reader 1]
    sums[:, :, :, 0].addcmul_(first, columns[0])
    return sums


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
        largest, total = largest.squeeze(-1), weights.sum(-1)
        lse_others = largest + total.log()
        _, first, others = with_first_key(torch.zeros_like(total), lse_others, first_score)
        alone = largest < UNSEEN / 2  # no key but key 1
        blind = alone & (first_score < UNSEEN / 2)
        yield _Block(
            rows=rows,
            weights=weights,
            first=first.masked_fill_(blind, 0),
            whole=(others / total).masked_fill_(blind, 0),
            without_sink=total.reciprocal().masked_fill_(alone, 0),
            lse=torch.logaddexp(lse_others, first_score),
        )


class _Product:
    """Attention's product with the values, if there are any, from the blocks of `_blocks`."""

    def __init__(self, query: Tensor, value: Tensor | None, sinks: Tensor | None) -> None:
        self.output = None if value is None else Output(query, value)
        self.sinks = sinks
        self.parts: list[tuple[Tensor, Tensor, Tensor]] = []

    def write(self, block: _Block) -> None:
        if self.output is not None:
            self.output.write(block.rows, block.weights)
            self.parts.append((block.first, block.whole, block.lse))

    def finished(self) -> Float[Tensor, "batch head query d_value"] | None:
        if self.output is None:
            return None
        first, whole, lse = (torch.cat(part, dim=2) for part in zip(*self.parts))
        product = self.output.normalised(first, whole)
        if self.sinks is None:
            return product
        return product * torch.sigmoid(lse - self.sinks[:, None].to(lse.dtype))[..., None]


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
