"""How is the work cut? Tile sizes by head size, and which tiles of keys a block of queries sees.

Sizes are fixed by what the compiler reports, not tuned by the clock: each fits into the 99 KB of shared memory of the
smallest GPUs from compute capability 8.0 on, and into their registers (docs/explain/fast-paths.md has the figures).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

LARGEST_HEAD = 256


@dataclass(frozen=True)
class Sizes:
    """Queries of a block, keys of a tile, groups of a block; warps and pipeline stages of a program."""

    rows: int
    keys: int
    warps: int
    stages: int
    columns: int = 16


def sizes_for(d: int) -> Sizes:
    """The sizes for heads of `d` numbers, of keys or of values, whichever is more."""
    rows, keys = (128, 64) if d <= 64 else (64, 32) if d <= 128 else (32, 32)
    return Sizes(rows, keys, warps=8, stages=2)


@dataclass(frozen=True)
class TileLists:
    """For every block of queries the tiles it sees: first those of which every query sees every key."""

    tiles: Int[Tensor, "#batch block tile"]
    n_whole: Int[Tensor, "#batch block"]
    n_seen: Int[Tensor, "#batch block"]


def tile_lists(mask: Bool[Tensor, "#batch 1 query key"], sizes: Sizes) -> TileLists:
    """Reads the mask once for all heads, so that the kernel leaves out what nobody sees.

    The tile of key 1 is never whole, nor is one that ends behind the last key.
    """
    n_queries, n_keys = mask.shape[2:]
    missing_rows, missing_keys = -n_queries % sizes.rows, -n_keys % sizes.keys

    def any_in_tile(cells: Bool[Tensor, "batch query key"], behind: bool) -> Bool[Tensor, "batch block tile"]:
        cells = pad(pad(cells, (0, missing_keys), value=behind), (0, 0, 0, missing_rows))
        return cells.unflatten(2, (-1, sizes.keys)).unflatten(1, (-1, sizes.rows)).any(-1).any(2)

    seen = any_in_tile(mask[:, 0], behind=False)
    whole = seen & ~any_in_tile(~mask[:, 0], behind=True)
    whole[..., 0] = False
    order = (seen.int() + whole.int()).argsort(dim=-1, descending=True, stable=True)
    return TileLists(order.int(), whole.sum(-1).int(), seen.sum(-1).int())


def group_ranges(
    groups: Bool[Tensor, "key column"], sizes: Sizes
) -> tuple[Int[Tensor, "block"], Int[Tensor, "block"]]:
    """For every block of columns the first tile with one of their keys, and the one behind the last."""
    padded = pad(groups, (0, 0, 0, -len(groups) % sizes.keys))
    found = padded.unflatten(1, (-1, sizes.columns)).unflatten(0, (-1, sizes.keys)).any(-1).any(1)  # [tile block]
    begins = found.int().argmax(0)
    ends = len(found) - found.flip(0).int().argmax(0)
    return begins.int(), torch.where(found.any(0), ends, 0).int()
