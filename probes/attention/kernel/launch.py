"""How spread out is attention in half precision on a GPU? Output and statistics of one pass, with the chunked digits.

The kernel multiplies in the model's own dtype, as tensor cores do, and sums in float32, where the products of two
numbers of half precision are exact. What all keys share is taken off first, as in `probes.attention.chunked`, and
nothing is rounded away: the difference of two keys is the sum of two numbers of their own dtype, because the error of
a rounded difference is such a number again. So each key goes in as two parts, and scores are those of float32.
"""

import importlib.util
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from probes.attention.groups import GroupMass, with_first_key_in_groups
from probes.attention.kernel.tiles import LARGEST_HEAD, Sizes, group_ranges, sizes_for, tile_lists
from probes.attention.overflow import rows_of_overflow
from probes.attention.row import RowStatistics
from probes.attention.sums import RowSums, n_visible_keys

HALF = (torch.bfloat16, torch.float16)
LEAST_CAPABILITY = (8, 0)
"""The oldest GPUs that multiply bfloat16, and for which the kernel was compiled."""
SWITCH = "COTLENS_KERNEL"
"""An environment variable: 0 measures without the kernel, by blocks of scores."""


def why_not_kernel(query: Float[Tensor, "batch head query d"]) -> str | None:
    """Why the kernel cannot measure these queries; None: it can."""
    if query.device.type != "cuda" or query.dtype not in HALF:
        return f"the kernel is for half precision on a GPU, not for {query.dtype} on {query.device.type}"
    if os.environ.get(SWITCH) == "0":
        return f"the kernel is switched off by {SWITCH}"
    if query.shape[-1] > LARGEST_HEAD:
        return f"the kernel has tiles for heads of up to {LARGEST_HEAD} numbers, these have {query.shape[-1]}"
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    capability = torch.cuda.get_device_capability(query.device)
    if capability < LEAST_CAPABILITY:
        return f"the kernel needs compute capability {_dotted(LEAST_CAPABILITY)}, this GPU has {_dotted(capability)}"
    return None


def kernel_row_statistics(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    softcap: float | None = None,
    top1: bool = True,
    sizes: Sizes | None = None,
) -> tuple[RowStatistics, Float[Tensor, "batch head query d_value"] | None]:
    """As `chunked_row_statistics`, but the output is in the dtype of `query`."""
    spoiled = rows_of_overflow(query, key, value, mask)
    if spoiled is not None:
        query, key = query.nan_to_num(0, 0, 0), key.nan_to_num(0, 0, 0)
        value = None if value is None else value.nan_to_num(0, 0, 0)
    launch = Launch(query, key, scale, value, mask, softcap, sizes)
    sums, output = launch.attention()
    statistics = sums.statistics(*n_visible_keys(mask, query, key), spoiled, top1)
    if output is not None and spoiled is not None:
        output = output.masked_fill(spoiled[..., None], torch.nan)
    return statistics, output


def kernel_group_mass(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    groups: Bool[Tensor, "key group"],
    *,
    value: Float[Tensor, "batch kv_head key d_value"] | None = None,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    softcap: float | None = None,
    sizes: Sizes | None = None,
) -> tuple[GroupMass, Float[Tensor, "batch head query d_value"] | None]:
    """As `probes.attention.groups.group_mass`, but the output is in the dtype of `query`.

    A second kernel computes the scores again, once for every `Sizes.columns` groups and only from their first to
    their last key: groups of neighbouring keys, such as sentences, cost one pass over the keys together.
    """
    launch = Launch(query, key, scale, value, mask, softcap, sizes)
    sums, output = launch.attention()
    return with_first_key_in_groups(launch.groups(groups), groups, sums), output


class _Keys(NamedTuple):
    """Keys less what they share, as the sum of two parts of their own dtype; `rest` is empty where one suffices."""

    key: Float[Tensor, "batch kv_head key d"]
    rest: Float[Tensor, "batch kv_head key d"] | None


def shifted_keys(key: Float[Tensor, "batch kv_head key d"]) -> _Keys:
    """The keys less key 2, exactly: softmax does not see it, but a large bias (Qwen2) costs digits."""
    exact = (key.float() - key[:, :, :2][:, :, -1:].float()).contiguous()  # both parts have its strides
    rounded = exact.to(key.dtype)
    return _Keys(rounded, None if key.dtype == torch.float32 else (exact - rounded).to(key.dtype))


class Launch:
    """One layer's queries and keys, ready for both kernels."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        scale: float,
        value: Tensor | None,
        mask: Tensor | None,
        softcap: float | None,
        sizes: Sizes | None,
    ) -> None:
        if torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in (query, key, value)):
            raise ValueError("the kernel has no gradient; ask within torch.no_grad()")
        self.query, self.value = _dense(query), None if value is None else _dense(value)
        self.keys = _Keys(_dense(key), None) if softcap is not None else shifted_keys(key)
        # a multiple of 16 bytes in a row, so that a thread fetches 16 cells at once
        self.mask = None if mask is None else _dense(pad(mask, (0, -mask.shape[-1] % 16)))
        self.d_value = 0 if value is None else value.shape[-1]
        self.sizes = sizes or sizes_for(max(query.shape[-1], self.d_value))
        log2_e = 1 / math.log(2)
        self.scale = scale * log2_e if softcap is None else 2 * scale * log2_e / softcap
        self.softcap = softcap
        n_batch, n_heads, n_queries, _ = query.shape
        self.plane = n_batch * n_heads * n_queries
        self.n_blocks = -(-n_queries // self.sizes.rows)
        self.sums = query.new_empty(4, n_batch, n_heads, n_queries, dtype=torch.float32)

    def attention(self) -> tuple[RowSums, Tensor | None]:
        """The sums of every row, and the output if there are values."""
        from probes.attention.kernel import device

        arguments, kernel = self.of_attention(), cast(Any, device.attention_rows)
        with _launching(self.query):
            kernel[self.n_blocks, self.query.shape[0] * self.query.shape[1]](**arguments)
        first, largest, total, score = self.sums.unbind(0)
        sums = RowSums(first * math.log(2), largest * math.log(2), total, score * math.log(2))
        return sums, None if self.value is None else arguments["output"].transpose(1, 2)

    def groups(self, groups: Bool[Tensor, "key group"]) -> Float[Tensor, "batch head query group"]:
        """The sums of exp(score - largest) over the keys of each group but key 1; after `attention`."""
        from probes.attention.kernel import device

        arguments, kernel = self.of_groups(groups), cast(Any, device.group_rows)
        grid = (self.n_blocks, len(arguments["begins"]), self.query.shape[0] * self.query.shape[1])
        with _launching(self.query):
            kernel[grid](**arguments)
        return arguments["mass"][..., : groups.shape[1]]

    def of_attention(self) -> dict[str, Any]:
        """The arguments of `attention_rows`. For a tensor that is not there another stands, which nobody reads."""
        n_batch, n_heads, n_queries, _ = self.query.shape
        output = self.query.new_empty(n_batch, n_queries, n_heads, self.d_value)  # as models want it
        lists = None if self.mask is None else tile_lists(self.mask[..., : self.keys.key.shape[2]], self.sizes)
        tiles, whole, seen = (self.sums,) * 3 if lists is None else (lists.tiles, lists.n_whole, lists.n_seen)
        value = self.query if self.value is None else self.value
        return {
            **self._common(),
            "value": value, "tiles": tiles, "n_whole": whole, "n_seen": seen, "output": output,
            "value_batch": value.stride(0), "value_head": value.stride(1), "value_row": value.stride(2),
            "tiles_batch": 0 if len(tiles) == 1 else tiles.stride(0), "tiles_row": tiles.stride(1),
            "D_VALUE": self.d_value, "D_VALUE_BLOCK": _padded(self.d_value), "VALUED": self.value is not None,
        }  # fmt: skip

    def of_groups(self, groups: Bool[Tensor, "key group"]) -> dict[str, Any]:
        """The arguments of `group_rows`."""
        groups = pad(groups, (0, -groups.shape[1] % self.sizes.columns))
        begins, ends = group_ranges(groups, self.sizes)
        return {
            **self._common(),
            "columns": groups.bfloat16(), "begins": begins, "ends": ends,
            "mass": self.sums.new_empty(*self.query.shape[:3], groups.shape[1]),
            "n_columns": groups.shape[1], "COLUMNS": self.sizes.columns,
        }  # fmt: skip

    def _common(self) -> dict[str, Any]:
        """The arguments of both kernels."""
        key, rest = self.keys
        n_heads, n_queries, d = self.query.shape[1:]
        mask, mask_batch, mask_row = self.sums, 0, 16
        if self.mask is not None:
            mask, mask_row = self.mask.view(torch.uint8), self.mask.stride(2)
            mask_batch = 0 if len(mask) == 1 else mask.stride(0)
        query_strides = dict(zip(("query_batch", "query_head", "query_row"), self.query.stride()))
        key_strides = dict(zip(("key_batch", "key_head", "key_row"), key.stride()))
        return {
            "query": self.query, "key": key, "key_rest": key if rest is None else rest, "mask": mask,
            "sums": self.sums, "scale": self.scale, "softcap": (self.softcap or 0.0) / math.log(2),
            "n_heads": n_heads, "n_queries": n_queries, "n_keys": key.shape[2],
            **query_strides, **key_strides,
            "mask_batch": mask_batch, "mask_row": mask_row, "plane": self.plane,
            "GROUP": n_heads // key.shape[1], "D": d, "D_BLOCK": _padded(d),
            "ROWS": self.sizes.rows, "KEYS": self.sizes.keys,
            "SPLIT": rest is not None, "MASKED": self.mask is not None, "CAPPED": self.softcap is not None,
            "PRECISION": "ieee", "num_warps": self.sizes.warps, "num_stages": self.sizes.stages,
        }  # fmt: skip


@contextmanager
def _launching(query: Tensor) -> Iterator[None]:
    """Launches on the GPU of `query`; where the kernel cannot be built, a ValueError of one line."""
    from triton import TritonError

    try:
        with torch.cuda.device_of(query):
            yield
    except TritonError as error:
        line = (str(error).strip().splitlines() or [""])[0]
        raise ValueError(
            f"the attention kernel cannot be built for {query.device} ({type(error).__name__}: {line}); "
            f"set {SWITCH}=0 to measure without it"
        ) from error


def _dense(tensor: Tensor) -> Tensor:
    """The tensor with the numbers of a head side by side; models have them so."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _padded(d: int) -> int:
    """The power of two that a tile has for heads of `d` numbers: a product needs 16."""
    return max(16, 1 << (d - 1).bit_length()) if d else 16


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
