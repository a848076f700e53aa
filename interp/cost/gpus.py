"""How fast is a GPU? Peaks from its maker's data sheet, and the shares of them that plain PyTorch reaches."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One device; peaks are dense, without sparsity."""

    name: str
    memory: float
    """Bytes."""
    bandwidth: float
    """Bytes of memory moved each second."""
    peaks: dict[str, float]
    """Floating-point operations each second, by dtype."""

    def seconds(self, flops: float, moved: float, dtype: str) -> float:
        """One operation: as long as its arithmetic, its memory traffic or its launch takes, whichever is longest."""
        return max(self.busy(flops, moved, dtype), LAUNCH)

    def busy(self, flops: float, moved: float, dtype: str) -> float:
        """One operation as part of a larger one: as long as its arithmetic or its memory traffic takes."""
        peak = self.peaks.get(dtype, self.peaks["float32"])
        return max(flops / (ARITHMETIC * peak), moved / (TRAFFIC * self.bandwidth))


ARITHMETIC = 0.5
"""Share of the peak that matrix products reach; small ones reach less."""
TRAFFIC = 0.7
"""Share of the bandwidth that elementwise operations reach."""
LAUNCH = 1e-5
"""Seconds between two operations of eager PyTorch: small models wait for Python, not for the GPU."""
USABLE = 0.9
"""Share of the memory that is left beside the CUDA context and fragments."""

# T4: no tensor cores for bfloat16, which then runs as fast as float32. Float32 products do not use TF32 here.
GPUS = {
    "T4": Gpu("T4", 16e9, 0.32e12, {"float64": 0.25e12, "float32": 8.1e12, "bfloat16": 8.1e12, "float16": 65e12}),
    "A100": Gpu("A100", 80e9, 2.0e12, {"float64": 9.7e12, "float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12}),
    "H100": Gpu("H100", 80e9, 3.35e12, {"float64": 34e12, "float32": 67e12, "bfloat16": 989e12, "float16": 989e12}),
}


def find_gpu(name: str) -> Gpu:
    """The GPU called `name`; an unknown name lists the known ones."""
    found = {known.lower(): gpu for known, gpu in GPUS.items()}.get(name.lower())
    if found is None:
        raise ValueError(f"--gpu {name}: unknown; the GPUs are {', '.join(GPUS)}")
    return found
