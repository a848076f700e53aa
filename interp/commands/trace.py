"""cotlens trace: what each sentence of a reasoning trace does, sentence by sentence, with controls."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from hf_analysis.attention.recorder import require_measurable
from hf_analysis.measurement.store import PASSAGES
from hf_analysis.models.directories import require_tokenizer
from hf_analysis.models.generation import Decoding
from hf_analysis.models.loading import LoadedModel, load_model
from hf_analysis.models.machine import use_threads
from hf_analysis.text.problems import load_problems
from hf_analysis.text.traces import Trace, load_traces
from hf_analysis.text.written_traces import save_traces, saved_traces, written_traces
from hf_analysis.traces.attention import attention_check
from hf_analysis.traces.measures import DEFAULT, Study, find_measure
from hf_analysis.traces.receivers import long_enough
from hf_analysis.traces.tokens import trace_tokens
from hf_analysis.traces.tracing import measure_traces
from interp.cli import parse
from interp.console import progress
from interp.core.runs import check_directory, run_directory
from interp.core.trace_summary import summary
from interp.core.trace_words import legend
from interp.report.sources import TRACE_SUMMARY as SUMMARY
from interp.report.trace_page import PAGE, write_trace_page
from probes.attention.sentences import GAP
from probes.base.atomic import write_json

NOT_THE_RUN = ("out", "resume", "check", "offline", "top")
"""Options that say where and how to measure, not what."""
TRACES = "traces.jsonl"


@dataclass(frozen=True)
class TraceOptions:
    """Measure reasoning traces sentence by sentence: which sentence reads which, what hiding one changes, what the
    answer depends on. Any causal model, any length; no attention matrix is stored.

    Every finished trace is on disk before the next begins; --resume goes on after a kill. trace.html shows it all.
    """

    out: Path
    """Directory of the run."""
    model: str = "builtin"
    """builtin (SmolLM2-135M-Instruct), a directory, a .gguf file, or a hub id such as Qwen/Qwen3-8B."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    data: str = "builtin"
    """builtin (worked GSM-symbolic solutions), a file or a hub dataset: records with prompt and completion, with
    messages, with one text that holds <think>...</think>, or with question and worked solution."""
    split: str = "test"
    """Split of a hub dataset."""
    limit: int | None = None
    """Measure only the first traces (builtin data: how many to make, 24 by default)."""
    chat: bool = False
    """Put every question as the model's chat template has it."""
    thinking: bool | None = None
    """With --chat: switch the thinking of a template that has such a switch on or off."""
    generate: bool = False
    """Let the model write the traces itself, after the questions of --data."""
    temperature: float = 0.6
    """Of what the model writes, with --generate and for resampling: 0 always takes the most likely token."""
    top_p: float = 0.95
    """Sample only from the most likely tokens that have this probability together."""
    samples: int = 1
    """With --generate: traces for each question."""
    max_new_tokens: int = 1024
    """Where what the model writes is cut off."""
    measures: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = DEFAULT
    """attention, suppression, faithfulness; slow, for the model writes: resampling, continued (it goes on after a
    mistake); and those of plug-ins."""
    gap: int = GAP
    """Attention counts as from afar between sentences at least so far apart."""
    rotations: int = 4
    """Draws of the null with rotated sentence boundaries."""
    permutations: int = 1
    """Draws of the null with permuted sentences; each is a forward pass."""
    controls: int = 1
    """Random spans hidden in place of each sentence; 0: none."""
    heads: Annotated[tuple[str, ...], tyro.conf.arg(metavar="LAYER.HEAD")] = ()
    """Hide sentences only in these heads, such as 12.3; none named: in all."""
    continuations: int = 4
    """With resampling: texts from before each sentence."""
    keep: int = 2
    """Keep every head's matrix of this many traces."""
    top: int = 16
    """Receiver heads to print, and to read a sentence's attention in."""
    seed: int = 0
    """Seed of built-in problems, of nulls and controls, and of what is sampled."""
    device: str = "auto"
    """auto, cpu, mps, cuda, cuda:1."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the weights; attention is summed in float32 or better."""
    threads: int | None = None
    """Threads on a CPU (default: all cores); the last digits of the rows depend on it."""
    trust_remote_code: bool = False
    """Run Python code that the model's author put on the hub. Only for authors you trust."""
    offline: bool = False
    """Never ask the hub; use what is on this machine."""
    check: bool = False
    """Compute the first trace's attention between sentences once more by a slower way, and stop if they differ: what
    a GPU's kernel gives, against blocks of scores in float32; those, against the whole pattern in float64."""
    resume: bool = False
    """Go on with the run in that directory."""


def main(arguments: Sequence[str]) -> None:
    """Checks everything that can be checked, loads the model, measures and summarises."""
    options = parse(TraceOptions, arguments, "trace")
    _check(options)
    heads = tuple(map(_head, options.heads)) or None
    decoding = Decoding(options.temperature, options.top_p if options.temperature else 1.0, 1, options.max_new_tokens)
    check_directory(options.out, options.resume)
    given = None if options.generate else _read(options, None)  # before a model is loaded
    if options.generate:
        load_problems(
            options.data, limit=options.limit, seed=options.seed, split=options.split, offline=options.offline
        )
    require_tokenizer(options.model)
    print(f"loading {options.model}", flush=True)
    model = load_model(
        options.model, revision=options.revision, device=options.device, dtype=options.dtype,
        trust_remote_code=options.trust_remote_code, offline=options.offline,
    )  # fmt: skip
    require_measurable(model)
    identity = {k: v for k, v in asdict(options).items() if k not in NOT_THE_RUN}
    identity["threads"] = options.threads or torch.get_num_threads()
    with run_directory(options.out, {"command": "trace", **identity}, options.resume):
        traces = given if given and not options.chat else _traces(options, model)
        tokens = [trace_tokens(model, one) for one in traces]
        for name, difference in attention_check(model, tokens[0]).items() if options.check else ():
            print(f"first trace checked: within {difference:.1e} of {name}", flush=True)
        study = Study(
            model, tokens, model.name, seed=options.seed, gap=options.gap, rotations=options.rotations,
            permutations=options.permutations, controls=options.controls, heads=heads, decoding=decoding,
            keep=frozenset(one.id for one in traces[: options.keep]), continuations=options.continuations,
        )  # fmt: skip
        with progress(f"tracing {model.name}", len(traces), "traces") as update:
            table = measure_traces(
                study, options.measures, options.out, resume=options.resume,
                progress=lambda done, total, trace: update(done, trace),
            )  # fmt: skip
        found = summary(table, options.top)
        found["too_short_for_receiver_heads"] = sum(not long_enough(study, one) for one in tokens)
        write_json(options.out / SUMMARY, found)
        write_trace_page(options.out)
    _print(options, found)


def _check(options: TraceOptions) -> None:
    if options.threads is not None:
        use_threads(options.threads)
    if options.thinking is not None and not options.chat:
        raise ValueError("--thinking is a switch of chat templates; it needs --chat")
    if options.samples != 1 and not options.generate:
        raise ValueError(f"--samples {options.samples}: the traces are given; it needs --generate")
    if options.top < 1 or options.keep < 0:
        raise ValueError(f"--top {options.top} --keep {options.keep}: need at least 1 head, and 0 traces or more")
    for name in options.measures:
        find_measure(name)


def _head(text: str) -> tuple[int, int]:
    layer, _, head = text.partition(".")
    if not (layer.isdecimal() and head.isdecimal()):
        raise ValueError(f"--heads {text}: expected LAYER.HEAD, such as 12.3")
    return int(layer), int(head)


def _read(options: TraceOptions, model: LoadedModel | None) -> list[Trace]:
    """The traces of --data; with a model, as its chat template has them."""
    return load_traces(
        options.data, limit=options.limit, seed=options.seed, split=options.split, offline=options.offline,
        chat=model, thinking=options.thinking,
    )  # fmt: skip


def _traces(options: TraceOptions, model: LoadedModel) -> list[Trace]:
    """The traces that take the model: those that it writes, or those of --data in its chat template."""
    return _written(options, model) if options.generate else _read(options, model)


def _written(options: TraceOptions, model: LoadedModel) -> list[Trace]:
    """What the model writes; a run that goes on reads what it has written before."""
    path = options.out / TRACES
    if path.exists():
        return saved_traces(path)
    problems = load_problems(
        options.data, limit=options.limit, seed=options.seed, split=options.split, offline=options.offline
    )
    print(f"writing traces for {len(problems)} questions", flush=True)
    decoding = Decoding(
        options.temperature, options.top_p if options.temperature else 1.0, options.samples, options.max_new_tokens
    )
    found, outcomes = written_traces(
        model, problems, decoding, options.seed, chat=options.chat, thinking=options.thinking
    )
    print("; ".join(f"{n} {name}" for name, n in outcomes.items()), flush=True)
    if not found:
        raise ValueError(
            f"{options.model} wrote no trace with two sentences of reasoning; try --chat or other questions"
        )
    save_traces(path, found)
    return found


def _print(options: TraceOptions, found: dict[str, Any]) -> None:
    if found["receiver_heads"]:
        table = Table(title="Receiver heads: kurtosis of what each sentence receives from afar, mean over traces")
        shown = [name for name in found["receiver_heads"][0] if name not in ("layer", "head")]
        for column in ("head", *(name.replace("_", " ") for name in shown)):
            table.add_column(column)
        for one in found["receiver_heads"]:
            table.add_row(f"{one['layer']}.{one['head']}", *(f"{one[name]:.3g}" for name in shown))
        Console().print(table)
    if found["too_short_for_receiver_heads"]:
        n = found["too_short_for_receiver_heads"]
        print(f"{n} of {found['traces']} traces are too short for receiver heads at --gap {options.gap}")
    estimates = [*found["estimates"], *found["agreement"]]
    if estimates:
        level = estimates[0]["level"]
        table = Table(title=f"{options.model} on {options.data}: means over traces, {level:.0%} intervals")
        for column in ("what", "mean", "low", "high", "n"):
            table.add_column(column)
        for one in estimates:
            table.add_row(one["name"], *(f"{one[name]:.3g}" for name in ("value", "low", "high")), str(one["n"]))
        Console().print(table)
        print("\n".join(legend(one["name"] for one in estimates)))
    else:
        print("nothing to summarise: an interval needs two traces that are not of one cluster")
    print(f"rows, {SUMMARY}, {PASSAGES} and {PAGE} are in {options.out}; open {options.out / PAGE} in a browser")
    print(
        "Each interval alone has its level. This describes this model on these traces, and is no verdict on a paper."
    )
