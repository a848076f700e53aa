"""cotlens bench: speed side by side with the peers, as ratios."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import tyro

from hf_analysis.models.machine import use_threads
from interp.cli import parse
from interp.core.runs import check_file
from probes.base.atomic import write_json


@dataclass(frozen=True)
class Bench:
    """Time the suite against its peers in one process and print ratios."""

    what: tyro.conf.Positional[
        Literal["entropy", "train", "sweep", "lego", "patching", "generate", "trace", "all"]
    ] = "all"
    """What to time."""
    json: Path | None = None
    """Also write the results as JSON to this file."""
    quick: bool = False
    """Only short texts: of entropy, 256 and 1,024 tokens; of traces, 1,024."""
    threads: int | None = None
    """Threads for every contender; by default 1 for training and patching, 2 for the others."""
    device: str = "cpu"
    """Of entropy: cpu, cuda, cuda:1. On most GPUs weights are bfloat16; targets are those of a CPU, judged there."""
    model: str = "builtin"
    """Of entropy: builtin, a directory, a .gguf file, or a hub id."""


def main(arguments: Sequence[str]) -> None:
    """Runs the benchmarks and prints each result as it comes."""
    options = parse(Bench, arguments, "bench")
    if options.threads is not None:
        use_threads(options.threads)
    if options.what != "entropy" and (options.device, options.model) != ("cpu", "builtin"):
        raise ValueError(f"--device and --model are of cotlens bench entropy, not of {options.what}")
    check_file(options.json, ".json", "--json")
    records = []
    if options.what in ("entropy", "all"):
        records += _entropy(options)
    if options.what in ("train", "all"):
        records += _train(options.threads or 1)
    if options.what in ("sweep", "all"):
        records += _sweep(options.threads or 1)
    if options.what in ("lego", "all"):
        records += _lego(options.threads or 1)
    if options.what in ("patching", "all"):
        records += _patching(options.threads or 1)
    if options.what in ("generate", "all"):
        records += _generate(options.threads or 2)
    if options.what in ("trace", "all"):
        records += _trace(options.threads or 2, options.quick)
    if options.json is not None:
        write_json(options.json, records)


def _entropy(options: Bench) -> list[dict]:
    from interp.bench import entropy

    threads = options.threads or 2
    place = f"{threads} thread(s)" if options.device == "cpu" else options.device
    model = "built-in model" if options.model == "builtin" else options.model
    print(f"every statistic of every head, {model}, batch 1, {place}", flush=True)
    records = []
    lengths = entropy.SHORT if options.quick else entropy.LENGTHS
    found = entropy.run(options.model, lengths=lengths, threads=threads, device=options.device)
    for record in _shown(found, records):
        if record["bench"] == "roofline":
            print(_roofline(record), flush=True)
            continue
        memory, eager = record["peak_over_bare"], record["eager_over_this"]
        parts = [f"{record['seconds']:7.2f} s", f"{record['over_bare']:5.2f}x the bare forward"]
        if memory is not None:
            parts.append(f"peak memory {memory:.2f}x")
        if eager is not None:
            parts.append(f"eager takes {eager:.2f}x this")
        missed = [name[6:-4] for name, met in record.items() if name.startswith("meets_") and met is False]
        bars = f"  MISSED: {', '.join(missed)}" if missed else ""
        print(f"  T={record['tokens']:<5} {record['contender']:<16} {', '.join(parts)}{bars}", flush=True)
    return records


def _roofline(record: dict) -> str:
    if "contender" not in record:
        speeds = (
            f"{record['flops_per_second'] / 1e12:.3g} TFLOP/s and copies {record['bytes_per_second'] / 1e9:.3g} GB/s"
        )
        heads = f"{record['heads']} heads on {record['kv_heads']} of {record['d']} numbers"
        return f"attention alone, {heads}, {record['dtype']} on {record['device']}; matrix products reach {speeds}"
    ratios = f"{record['of_roof']:4.0%} of the roof, {record['over_sdpa']:.2f}x SDPA"
    return f"  T={record['tokens']:<5} {record['contender']:<16} {1e3 * record['seconds']:9.2f} ms, {ratios}"


def _train(threads: int) -> list[dict]:
    from interp.bench import train

    torch.set_num_threads(threads)
    records = []
    print(f"training step, parity n=30 k=3, batch 512, {threads} thread(s); ratio = peer's time / ours")
    for record in _shown(train.run(), records):
        ours, ratio = record["ms"]["sparse"], record["ratio"]
        peers = ", ".join(f"{name} {value:.1f}x" for name, value in ratio.items())
        bar = f"bar {record['bar']:g}x {'reached' if record['reached'] else 'MISSED'}"
        speed = f"{record['gflops']:.0f} of {record['peak_gflops']:.0f} GFLOP/s"
        print(
            f"  {record['model']:<20} {record['condition']:<7} {ours:8.1f} ms  {peers}  ({bar}; {speed})", flush=True
        )
    print("time per step as one size doubles (1 layer, 1 head, with CoT)")
    for record in _shown(train.scaling(), records):
        sizes = " ".join(f"{name}={record[name]}" for name in ("n", "k", "d_model", "batch"))
        print(f"  {sizes:<34} {record['ms']:8.1f} ms  {record['times_base']:.2f}x", flush=True)
    return records


def _sweep(threads: int) -> list[dict]:
    from interp.bench import sweep

    torch.set_num_threads(threads)
    records = []
    print(f"ten seeds of parity n=30 k=3, {threads} thread(s); ratio = samples per second over evaluations apart")
    for record in _shown(sweep.run(), records):
        now, before = (record["samples_per_second"][name] for name in ("now", "before"))
        ratios = f"{record['ratio']:.2f}x, in processor time {record['cpu_ratio']:.2f}x"
        place = f"{record['model']:<20} {record['condition']:<7}"
        print(f"  {place} {now:9.0f} samples/s against {before:9.0f}  {ratios}", flush=True)
    return records


def _lego(threads: int) -> list[dict]:
    from interp.bench import lego

    records = []
    print(
        f"training step, 64 LEGO sentences of length 5, {threads} thread(s); ratio = processor time / that of tables"
    )
    for record in _shown(lego.run(threads=threads), records):
        peers = ", ".join(f"{name} {value:.2f}x" for name, value in record["ratio"].items())
        place = f"{record['model']}, {record['group']}"
        print(f"  {place:<28} {record['ms']['tables']:8.1f} ms  {peers}", flush=True)
    return records


def _patching(threads: int) -> list[dict]:
    from interp.bench import patching

    torch.set_num_threads(threads)
    records = []
    print(
        f"patching every head's output, parity n=30 k=3, {threads} thread(s); ratio = TransformerLens' loop / batched"
    )
    for record in _shown(patching.run(), records):
        ours, theirs = record["ms"]["batched"], record["ms"]["TransformerLens loop"]
        place = f"{record['model']}, {record['inputs']} inputs"
        print(f"  {place:<34} {ours:8.1f} ms against {theirs:8.1f} ms  {record['ratio']:.2f}x", flush=True)
    return records


def _generate(threads: int) -> list[dict]:
    from interp.bench import generate

    records = []
    print(f"greedy texts of the built-in model, {threads} thread(s); ratio = tokens per second over one at a time")
    for record in _shown(generate.run(threads=threads), records):
        speeds = ", ".join(f"{name} {value:.1f}" for name, value in record["tokens_per_second"].items())
        bar = f"bar {record['bar']:g}x {'reached' if record['reached'] else 'MISSED'}"
        place = f"{record['rows']} problems, {record['new_tokens']} tokens each, {record['turns']} turns"
        print(f"  {place}: tokens/s {speeds}  {record['ratio']:.2f}x  ({bar})", flush=True)
        load = "" if record["load_average"] is None else f"; load average {record['load_average']:.1f}"
        print(f"  in processor time {record['cpu_ratio']:.2f}x{load}", flush=True)
    return records


def _trace(threads: int, quick: bool) -> list[dict]:
    from interp.bench import trace

    print(f"sentence by sentence, built-in model, {threads} thread(s); in brackets: processor time", flush=True)
    records = []
    for record in _shown(trace.run(lengths=trace.SHORT if quick else trace.LENGTHS, threads=threads), records):
        if record["bench"] == "trace attention":
            memory = record["peak_over_bare"]
            peak = "" if memory is None else f", peak memory {memory:.2f}x"
            ratios = f"{record['over_bare']:5.2f}x [{record['cpu_over_bare']:.2f}x] the bare forward{peak}"
            print(
                f"  T={record['tokens']:<5} {record['contender']:<8} {record['seconds']:7.2f} s, {ratios}", flush=True
            )
            continue
        bar = f"bar {record['bar']:g}x {'reached' if record['reached'] else 'MISSED'}"
        print(
            f"  T={record['tokens']:<5} {record['sentences']} sentences hidden: a full pass each takes "
            f"{record['ratio']:.2f}x [{record['cpu_ratio']:.2f}x] ({bar}); numbers agree to "
            f"{record['largest_difference']:.1e}",
            flush=True,
        )
    return records


def _shown(found: Iterable[dict], records: list[dict]) -> Iterable[dict]:
    for record in found:
        records.append(record)
        yield record
