"""What do the processor and its memory do behind a model's back?

Some virtual machines announce AMX and die of its instructions. And glibc hands freed memory back to the system, so
that the activations of a long text may be faulted in anew in every layer.
"""

import subprocess
import sys
from functools import cache

import torch

MOST_THREADS = 1024
"""More than any machine has cores; a million would end the process."""
_PROBE = """
import torch
layer = torch.nn.Linear(128, 128, dtype=getattr(torch, {dtype!r}))
with torch.inference_mode():
    layer(torch.ones(1, 64, 128, dtype=layer.weight.dtype))
"""


@cache
def require_arithmetic(dtype: str) -> None:
    """A ValueError if a matrix product in `dtype` on the CPU ends the process; tried in a process of its own."""
    done = subprocess.run([sys.executable, "-c", _PROBE.format(dtype=dtype)], capture_output=True, check=False)
    if done.returncode < 0:
        raise ValueError(
            f"--dtype {dtype}: this processor announces instructions for it that it does not run (signal "
            f"{-done.returncode}); use --dtype float32, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment"
        )


def use_threads(n: int) -> None:
    """Lets torch compute on `n` threads; a ValueError for a number that it could not start."""
    if not 1 <= n <= MOST_THREADS:
        raise ValueError(f"--threads must be at least 1, and {MOST_THREADS} at most: got {n}")
    torch.set_num_threads(n)


def keep_freed_memory() -> None:
    """Makes glibc keep what a layer frees for the next one; with another library, does nothing.

    It keeps up to twice the largest block that it has seen freed, blocks of up to 32 MiB counted: here is one, never
    touched. At 1,024 tokens this saves the built-in model up to 130,000 page faults and a fifth of its time.
    """
    torch.empty(32 * 2**20 - 2**16, dtype=torch.uint8)
