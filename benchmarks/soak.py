"""Does a long measurement stay as fast and as small as it began? `cotlens entropy` in one process, watched.

    python benchmarks/soak.py gsm8k_test.jsonl runs/soak

measures every problem of the file with the built-in model under `cot` and `no_cot` on one thread, and writes
soak.json and soak.png into benchmarks/: resident memory and tokens per second, in windows of 50 problems.
"""

import sys
import time
from pathlib import Path

import torch

from hf_analysis.measurement.measure import measure
from hf_analysis.measurement.store import safe_name
from hf_analysis.models.loading import load_model
from hf_analysis.text.problems import load_problems
from interp.figures.style import SERIES, new_figure, styled
from probes import rows
from probes.base import atomic

WINDOW = 50
HERE = Path(__file__).parent


def resident() -> int:
    """Bytes of this process in memory now."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def windows(data: str, out: Path) -> list[dict]:
    """Memory, processor seconds and answer tokens after every WINDOW problems."""
    model, problems = load_model("builtin", device="cpu", dtype="float32"), load_problems(data)
    points: list[dict] = []

    def watch(done: int, total: int, _: str) -> None:
        if done % WINDOW == 0 or done == total:
            points.append({"problems": done, "bytes": resident(), "cpu": time.process_time()})
            print(f"{done} of {total}: {points[-1]['bytes'] / 2**20:.0f} MB", flush=True)

    started = time.process_time()
    measure(model, problems, ["cot", "no_cot"], out, progress=watch)
    sums = [0]
    for problem in problems:
        file = out / "problems" / f"{safe_name(problem.id)}.parquet"
        sums.append(sums[-1] + rows.read(file).attrs["forwarded_tokens"])
    before, cpu = 0, started
    for point in points:
        point["tokens"] = sums[point["problems"]] - sums[before]
        point["seconds"] = point["cpu"] - cpu
        before, cpu = point["problems"], point.pop("cpu")
    return points


def draw(points: list[dict], path: Path) -> None:
    with styled():
        figure = new_figure(6.4, 4.4)
        memory, speed = figure.subplots(2, 1, sharex=True)
        done = [point["problems"] for point in points]
        memory.plot(done, [point["bytes"] / 2**20 for point in points], **SERIES[0])
        memory.set(ylabel="resident memory (MB)")
        speed.plot(done, [point["tokens"] / point["seconds"] for point in points], **SERIES[1])
        speed.set(ylabel="tokens per CPU second", xlabel="problems measured")
        for axes in (memory, speed):
            axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        figure.savefig(path, dpi=150)


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = windows(sys.argv[1], Path(sys.argv[2]))
    atomic.write_json(HERE / "soak.json", found)
    draw(found, HERE / "soak.png")
    warm = found[2:]  # the first two windows warm up
    curves = {"memory": [p["bytes"] for p in warm], "tokens a second": [p["tokens"] / p["seconds"] for p in warm]}
    for name, values in curves.items():
        print(f"{name}: largest over smallest after warm-up {max(values) / min(values):.3f}")
