"""Can rows that memory would not hold be written, compared and reported? As many as one asks for, watched.

    python benchmarks/large.py 50_000_000 runs/large

writes synthetic rows of the shape of a measurement of Qwen2-72B (80 layers of 64 heads, 2 conditions, 7 metrics,
2 scopes), problem by problem as a measurement does; then computes every effect with its interval, every head's
p-value and the report from what was written. Times and the peak memory of each go into benchmarks/large.json, with
the machine, the commit and how busy the machine was.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from interp.core.effects import FILE, HEADS, comparisons, effect_of, head_effects, write_effects, write_heads
from interp.core.runs import provenance
from interp.cost.memory import peak, resident
from interp.report import write_report
from probes.base import atomic
from probes.parts import PARTS, head_means, read_parts, write_parts
from probes.rows import table

HERE = Path(__file__).parent
METRICS = ("min", "mean", "q10", "length_matched_min", "sink_mass", "sink_excluded_min", "sink_excluded_mean")
CONDITIONS, SCOPES = ("cot", "no_cot"), ("all", "answer")


def problems(n_rows: int, n_layers: int = 80, n_heads: int = 64) -> Iterator[pd.DataFrame]:
    """Tables of one problem each, until there are `n_rows` rows; with CoT every value is lower by 0.1."""
    cells = [(metric, scope, condition) for metric in METRICS for scope in SCOPES for condition in CONDITIONS]
    metric, scope, condition = (np.repeat(names, n_layers * n_heads) for names in zip(*cells))
    layer, head = (np.tile(of.reshape(-1), len(cells)) for of in np.indices((n_layers, n_heads)))
    shape = table(
        run="synthetic", condition=condition, unit="", metric=metric, scope=scope, layer=layer, head=head, value=0.0,
        n_tokens=100,
    )  # fmt: skip
    lower = np.where(condition == "cot", 0.1, 0.0)
    draws = np.random.default_rng(0)
    for number in range(-(-n_rows // len(shape))):
        value = 0.4 + 0.02 * draws.standard_normal() + 0.05 * draws.standard_normal(len(shape)) - lower
        yield shape.assign(unit=f"synthetic-{number:05d}", value=value)


def stage(record: dict, name: str, work: Callable[[], object]) -> None:
    """Does `work`; its seconds, processor seconds and peak memory."""
    started, cpu = time.monotonic(), time.process_time()
    resident()
    work()
    record[name] = {
        "seconds": round(time.monotonic() - started, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_gb": round(peak() / 1e9, 2),
    }
    print(name, record[name], flush=True)


def compare(out: Path) -> None:
    """Writes effects and heads from the parts in `out`."""
    found, heads = [], []
    for pairs in comparisons(read_parts(out / PARTS)):
        found += map(effect_of, pairs)
        heads.append(head_effects(pairs))
    write_effects(out / FILE, "benchmarks/large.py", found)
    write_heads(out / HEADS, heads)


def main(n_rows: int, out: Path) -> dict:
    """Runs every stage in `out`; what each took."""
    known = provenance()
    record: dict = {
        "rows": n_rows,
        "processor": known["processor"],
        "cores": os.cpu_count(),
        "commit": known["commit"],
        "load_before": round(os.getloadavg()[0], 1),
        "started_with_gb": round(resident() / 1e9, 2),
    }
    stage(record, "write", lambda: write_parts(out / PARTS, problems(n_rows)))
    stage(record, "compare", lambda: compare(out))
    stage(record, "means over heads", lambda: head_means(read_parts(out / PARTS)))
    atomic.write_json(out / "config.json", {"config": {"command": "entropy", "model": "synthetic", "data": "none"}})
    stage(record, "report", lambda: write_report([out], out / "report.html"))
    record["load_after"] = round(os.getloadavg()[0], 1)
    record["bytes_on_disk"] = sum(file.stat().st_size for file in (out / PARTS).iterdir())
    return record


if __name__ == "__main__":
    atomic.write_json(HERE / "large.json", main(int(sys.argv[1]), Path(sys.argv[2])))
