"""How much does a piece of PyTorch compute? Every operation it runs, with its arithmetic and its memory traffic.

Matrix products and attention are counted by torch's own formulas, everything else as one operation for each element
that it writes. Views cost nothing. What NumPy or Python do is not counted: no GPU would take it over.
"""

import time
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from interp.cost.gpus import GPUS, LAUNCH

QUANTITIES = ("seconds", "flops", "launches", *GPUS, *(f"{name} busy" for name in GPUS))
"""What a cost is made of: seconds here, arithmetic, operations that are not views, and seconds on each GPU, with and
without waiting for launches. Of operations that grow with a loop, only the latter grow with it from the beginning."""
Cost = Float[np.ndarray, "quantity"]
SPARSE = ("embedding", "index", "gather", "index_select", "scatter")
"""Operations, by the beginning of their names, that read only as much of a table as they write."""


class Counting(TorchDispatchMode):
    """Counts the operations run within; `half` if a GPU would hold 16-bit numbers where this machine holds 32."""

    def __init__(self, half: bool = False) -> None:
        super().__init__()
        self.half = half
        self.cost: Cost = np.zeros(len(QUANTITIES))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._overloadpacket not in flop_registry and _is_composite(func):
            with self:  # in inference mode a linear layer arrives whole, and not as the product that it is
                return func.decompose(*args, **(kwargs or {}))
        out = func(*args, **(kwargs or {}))
        read, written = (_tensors(of) for of in ((args, kwargs), out))
        if written and not _is_view(func, read, written):
            self._count(_flops(func, args, kwargs or {}, out, written), func, read, written)
        return out

    def _count(self, flops: float, func: Any, read: list[Tensor], written: list[Tensor]) -> None:
        if func._overloadpacket.__name__.startswith(SPARSE):
            read = written
        moved = float(sum(tensor.numel() * tensor.element_size() for tensor in (*read, *written)))
        dtype = str(written[0].dtype).removeprefix("torch.")
        if self.half and dtype == "float32":
            dtype, moved = "bfloat16", moved / 2
        busy = [gpu.busy(flops, moved, dtype) for gpu in GPUS.values()]
        self.cost += [0.0, flops, 1.0, *(max(seconds, LAUNCH) for seconds in busy), *busy]


@cache
def seconds_of_counting(n: int = 1_000) -> float:
    """Seconds that counting adds to one operation here: a small one is run `n` times with it and without."""
    one = torch.ones(4)
    times = []
    for around in (Counting(), nullcontext()):
        with around:
            started = time.process_time()
            for _ in range(n):
                torch.add(one, one)
            times.append(time.process_time() - started)
    return max(times[0] - times[1], 0.0) / n


@cache
def _is_composite(func: Any) -> bool:
    """Whether torch itself computes the operation by others."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


def _tensors(of: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(of) if isinstance(leaf, Tensor)]


def _flops(func: Any, args: Any, kwargs: Any, out: Any, written: list[Tensor]) -> float:
    packet = func._overloadpacket
    if packet in flop_registry:
        return float(flop_registry[packet](*args, **kwargs, out_val=out))
    if "scaled_dot_product" in packet.__name__ and "backward" not in packet.__name__:
        return float(sdpa_flop_count(*(tensor.shape for tensor in args[:3])))
    return float(sum(tensor.numel() for tensor in written))


def _is_view(func: Any, read: list[Tensor], written: list[Tensor]) -> bool:
    """Whether nothing was computed: what comes out is the memory of what went in, unchanged."""
    held = {tensor.untyped_storage().data_ptr() for tensor in read}
    return not func._schema.is_mutable and all(tensor.untyped_storage().data_ptr() in held for tensor in written)
