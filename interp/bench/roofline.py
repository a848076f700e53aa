"""How far is attention with statistics from what the device can do? Against its own matrix products and copies.

The roof over a computation is the longer of two times: its multiplications at the speed of a large square matrix
product in the same dtype, and its least memory traffic (every input and output once) at the speed of a copy. Both
speeds are measured here, in the same process. Only causal pairs of query and key count, with two operations for each
multiplication.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hf_analysis.models.loading import LoadedModel
from interp.bench.timing import wait
from probes.attention.chunked import chunked_row_statistics
from probes.attention.computation import choose_computation, row_statistics

PEAK_SIZE = {"cpu": 1024, "cuda": 8192}
"""Rows of the square matrices whose product is timed."""
COPIED_BYTES = 2**27
"""More than any cache has."""
PLAIN_UP_TO = 4096
"""Tokens up to which the blocks of scores that a kernel replaces are timed too."""


@dataclass(frozen=True)
class Heads:
    """The attention of one layer."""

    heads: int
    kv_heads: int
    d: int

    @classmethod
    def of(cls, loaded: LoadedModel) -> "Heads":
        config = loaded.model.config.get_text_config()
        heads = config.num_attention_heads
        d = getattr(config, "head_dim", None) or config.hidden_size // heads
        return cls(heads, getattr(config, "num_key_value_heads", None) or heads, d)


@dataclass(frozen=True)
class Work:
    """What a computation must do at least."""

    flops: int
    bytes: int

    def seconds(self, flops_per_second: float, bytes_per_second: float) -> float:
        """The roof: the longer of the two."""
        return max(self.flops / flops_per_second, self.bytes / bytes_per_second)


def work(heads: Heads, n: int, itemsize: int, *, measured: bool, split: bool = False) -> Work:
    """Causal attention of `n` tokens: scores and output, and if `measured` four sums of every row in float32.

    `split`: keys come in two parts, as the kernel has them.
    """
    pairs = heads.heads * n * (n + 1) // 2
    parts = 2 if split else 1
    numbers = n * heads.d * (2 * heads.heads + (1 + parts) * heads.kv_heads)  # queries and output; keys and values
    return Work(2 * pairs * heads.d * (parts + 1), numbers * itemsize + (16 * heads.heads * n if measured else 0))


def run(
    heads: Heads, device: torch.device, dtype: torch.dtype, lengths: Sequence[int], repeats: int = 5, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """A record of the device, then one for each length and way to compute attention."""
    peak_flops, peak_bytes = peaks(device, dtype)
    place = {"bench": "roofline", "device": str(device), "dtype": str(dtype).removeprefix("torch.")}
    yield {**place, "flops_per_second": peak_flops, "bytes_per_second": peak_bytes, **vars(heads)}
    generator = torch.Generator().manual_seed(seed)
    for n in lengths:
        query, key, value = (
            torch.randn(1, count, n, heads.d, generator=generator).to(device, dtype)
            for count in (heads.heads, heads.kv_heads, heads.kv_heads)
        )
        ways = _ways(query, key, value)
        seconds = {way: _fastest(partial(call, query), query, repeats) for way, call in ways.items()}
        for way in ways:
            least = work(heads, n, dtype.itemsize, measured=way != "sdpa", split=way == "kernel")
            yield {
                **place, "contender": way, "tokens": n, "seconds": seconds[way],
                "flops": least.flops, "bytes": least.bytes,
                "of_roof": least.seconds(peak_flops, peak_bytes) / seconds[way],
                "over_sdpa": seconds[way] / seconds["sdpa"],
            }  # fmt: skip


def _ways(query: Tensor, key: Tensor, value: Tensor) -> dict[str, Callable[[Tensor], Any]]:
    """SDPA; ours, under the name of the computation that is chosen here; the blocks that the kernel replaces."""
    scale, quantities = query.shape[-1] ** -0.5, ("top1_mass",)
    name = choose_computation(query, key, quantities=quantities).name
    gqa = query.shape[1] != key.shape[1]
    ways: dict[str, Callable[[Tensor], Any]] = {
        "sdpa": lambda q: scaled_dot_product_attention(q, key, value, is_causal=True, enable_gqa=gqa),
        name: lambda q: row_statistics(q, key, scale, value=value, quantities=quantities),
    }
    if name != "chunked" and query.shape[2] <= PLAIN_UP_TO:
        ways["chunked"] = lambda q: chunked_row_statistics(q, key, scale, value=value)
    return ways


def peaks(device: torch.device, dtype: torch.dtype) -> tuple[float, float]:
    """Operations per second of a square matrix product, and bytes per second of a copy, read and written."""
    size = PEAK_SIZE.get(device.type, 2048)
    matrix = torch.ones(size, size, device=device, dtype=dtype)
    product = torch.empty_like(matrix)
    source = torch.ones(COPIED_BYTES, device=device, dtype=torch.uint8)
    copy = torch.empty_like(source)
    multiply = _fastest(lambda: torch.mm(matrix, matrix, out=product), matrix)
    move = _fastest(lambda: copy.copy_(source), source)
    return 2 * size**3 / multiply, 2 * COPIED_BYTES / move


def _fastest(call: Callable[[], Any], where: Tensor, repeats: int = 5) -> float:
    """Seconds of the fastest of `repeats` calls, after one that compiles and allocates."""
    call()
    times = []
    for _ in range(repeats):
        wait(where)
        start = time.perf_counter()
        call()
        wait(where)
        times.append(time.perf_counter() - start)
    return min(times)
