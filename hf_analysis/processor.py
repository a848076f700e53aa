"""Does this processor run the arithmetic it announces? Some virtual machines name AMX and die of its instructions."""

import subprocess
import sys
from functools import cache

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
