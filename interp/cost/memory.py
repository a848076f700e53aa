"""How much memory does this process take? Its peak since a moment, and a limit that makes an error."""

import sys
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

OF_FREE_MEMORY = 0.9
"""Share of the free memory that a process with a limit may take."""
_STATUS = Path("/proc/self/status")


class limited_memory:
    """Within, this process can have no more than most of what is free: an allocation beyond it is an error."""

    def __enter__(self) -> None:
        if resource is None:
            return
        self.before = resource.getrlimit(resource.RLIMIT_DATA)
        free, has = _bytes(Path("/proc/meminfo"), "MemAvailable"), _bytes(_STATUS, "VmData")
        if free is not None and has is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (int(has + OF_FREE_MEMORY * free), self.before[1]))

    def __exit__(self, *error: object) -> None:
        if resource is not None:
            resource.setrlimit(resource.RLIMIT_DATA, self.before)


def resident() -> int:
    """Bytes of this process now; `peak` counts from here on, where the system lets it."""
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")
    found = _bytes(_STATUS, "VmRSS")
    return peak() if found is None else found


def peak() -> int:
    """Bytes of this process at their most since `resident` was called, or since it began."""
    found = _bytes(_STATUS, "VmHWM")
    if found is not None:
        return found
    if resource is None:
        raise ValueError("a process's peak memory is not told by this system: plan on Linux or macOS (or in WSL)")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _bytes(file: Path, name: str) -> int | None:
    """A number of kilobytes that the system keeps under `name`."""
    if not file.exists():
        return None
    lines = (line.split() for line in file.read_text().splitlines())
    return next((1024 * int(line[1]) for line in lines if line and line[0] == f"{name}:"), None)
