"""How are contenders timed side by side? In turns, and by the peak of memory in a first pass.

Ratios are medians over rounds of the ratio within a round, which a busy machine disturbs less than the ratio of two
medians.
"""

import ctypes
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hf_analysis.models.loading import LoadedModel

Contender = Callable[[Tensor], Any]


@contextmanager
def with_threads(n: int) -> Iterator[None]:
    """Computes with `n` threads, and then with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ratio(first: list[float], second: list[float]) -> float:
    """The median over rounds of the ratio within a round."""
    return statistics.median(a / b for a, b in zip(first, second))


def rounds(contenders: dict[str, Contender], ids: Tensor, n_rounds: dict[str, int]) -> dict[str, list[float]]:
    """Seconds of each contender in each of its rounds; the first rounds have all of them."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(max(n_rounds.values())):
        for name, contender in contenders.items():
            if round_ < n_rounds[name]:
                gc.collect()
                wait(ids)
                start = time.perf_counter()
                contender(ids)
                wait(ids)
                times[name].append(time.perf_counter() - start)
    return times


def wait(tensor: Tensor) -> None:
    """Returns when the GPU of `tensor`, if it is on one, has done what it was asked to."""
    if tensor.device.type == "cuda":
        torch.cuda.synchronize(tensor.device)


def bare(loaded: LoadedModel) -> Contender:
    """The model's own forward pass without logits, which measures nothing."""

    @torch.inference_mode()
    def forward(ids: Tensor) -> None:
        loaded.model.base_model(input_ids=ids, use_cache=False)

    return forward


def first_pass(contender: Contender, ids: Tensor) -> tuple[float, int | None]:
    """Seconds of one call, and its peak bytes: on a GPU what was allocated there, on Linux what was resident.

    The latter is the kernel's high-water mark, reset before the call.
    """
    if ids.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(ids.device)
        (seconds,) = rounds({"": contender}, ids, {"": 1})[""]
        return seconds, torch.cuda.max_memory_allocated(ids.device)
    status = Path("/proc/self/status")
    known = sys.platform == "linux" and status.exists()
    gc.collect()
    if known:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    start = time.perf_counter()
    contender(ids)
    seconds = time.perf_counter() - start
    if not known:
        return seconds, None
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return seconds, int(line.split()[1]) * 1024
