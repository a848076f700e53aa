"""cotlens entropy: attention entropy and other attention statistics of a pretrained model, with and without CoT."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import tyro
from rich.console import Console

from hf_analysis.measurement.request import PAPER_CONDITIONS, Request
from hf_analysis.measurement.store import GENERATED, PASSAGES, Store
from hf_analysis.models.generation import Decoding
from hf_analysis.models.machine import use_threads
from hf_analysis.text.own import OUTCOMES
from hf_analysis.text.problems import load_problems
from hf_analysis.text.scopes import DEFAULT_SCOPES, SCOPES
from interp.cli import parse
from interp.commands.entropy_engines import measuring_here, measuring_on_ray, n_threads
from interp.console import progress
from interp.core.effect_table import SHOWN_METRICS, effect_table, main_effects, reading_of
from interp.core.effects import (
    AGAINST,
    FILE,
    HEADS,
    Effect,
    comparisons,
    effect_of,
    head_effects,
    shown_places,
    write_effects,
    write_heads,
)
from interp.core.reproduce import chosen, command
from interp.core.runs import check_directory, run_directory
from probes import rows
from probes.attention.statistics import DEFAULT_METRICS, find_metric, known_metrics
from probes.base.atomic import read_json
from probes.parts import LARGE, PARTS, Frame, Table, write_parts

NOT_THE_RUN = ("out", "resume", "check", "offline", "engine", "address", "actors", "actor_gpus")
"""Options that say where and how to measure, not what."""
METRICS_HELP = (
    "What is measured of every head, a statistic and how it is reduced over tokens: "
    f"{' '.join(known_metrics(plugins=False))}, and those of plug-ins."
)
SCOPES_HELP = (
    f"Over which tokens: {'; '.join(f'{name}, {scope.label}' for name, scope in SCOPES.items())}; those of plug-ins. "
    "first and window compare every pair at its own m tokens, so they have many rows."
)
OWN_PARTS = "own_rows"
"""The parts of one model's rows where those of several are compared."""


@dataclass(frozen=True)
class Entropy:
    """Measure every head's attention on problems under several conditions: normalised entropy, or other --metrics.

    Reports how every pair of conditions differs, with intervals, for this model and these problems: no verdict on a
    paper. Every finished problem is on disk before the next begins; --resume goes on after a kill.
    """

    out: Path
    """Directory of the run."""
    model: str = "builtin"
    """builtin (SmolLM2-135M-Instruct), a directory, a .gguf file, or a hub id such as Qwen/Qwen2-7B."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    data: str = "builtin"
    """builtin (GSM-symbolic), a .jsonl, .json, .csv or .parquet file, or a hub id: openai/gsm8k, or with :CONFIG."""
    split: str = "test"
    """Split of a hub dataset."""
    question: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Column with the question; found by itself if it is question, problem, prompt or messages."""
    solution: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Column with the worked solution; found by itself if it is solution, rationale, completion or answer."""
    answer: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Column with the final answer; without one it is read after ####, in \\boxed{} or after "the answer is"."""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Column that groups problems, such as a subject: intervals are then over groups, not over problems."""
    limit: int | None = None
    """Measure only the first problems (builtin data: how many to make, 24 by default)."""
    conditions: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = (
        "cot",
        "no_cot",
        "cot_clean",
        "prose_clean",
        "filler",
    )
    """What follows the question (docs/conditions.md): cot shuffled_steps shuffled_tokens filler swapped_cot;
    and before one and the same closing sentence, the only one of no_cot: no_cot cot_clean swapped_clean prose_clean
    shuffled_steps_clean shuffled_tokens_clean filler_clean;
    what the model writes itself: generated generated_clean (with --chat, --temperature, --top-p, --samples)."""
    metrics: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME", help=METRICS_HELP)] = DEFAULT_METRICS
    scopes: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME", help=SCOPES_HELP)] = DEFAULT_SCOPES
    paper_mode: bool = False
    """Exactly the paper's two conditions, texts and reduction, and a count of its script's known defects."""
    against: str | None = None
    """Also measure this second model on the same text, and compare the two under every condition."""
    against_revision: str | None = None
    """Revision of that second model; --revision is of the first."""
    baseline: tuple[Literal["permuted", "untrained"], ...] = ()
    """Also measure models that know nothing, on the same text: the model's weights permuted, or fresh ones."""
    keep_tokens: int = 2
    """Keep values token by token of this many problems, for the report: two texts of a problem side by side."""
    chat: bool = False
    """Put every question to the model by its chat template, with the instruction to reason; for all conditions."""
    thinking: bool | None = None
    """With --chat: switch the thinking of a template that has such a switch on or off."""
    temperature: float = 0.0
    """Of what the model writes itself: 0 always takes the most likely token."""
    top_p: float = 1.0
    """Sample only from the most likely tokens that have this probability together."""
    samples: int = 1
    """Texts that the model writes for each problem; its rows are means over them."""
    max_new_tokens: int = 256
    """Where what the model writes is cut off."""
    seed: int = 0
    """Seed of built-in problems, of the shuffled conditions and of samples."""
    batch_size: int | None = None
    """Problems per forward pass; found automatically, halved when memory runs out."""
    device: str = "auto"
    """auto, cpu, mps, cuda, cuda:1."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the weights; statistics are float32 or better."""
    threads: int | None = None
    """Threads on a CPU (default: all cores, 1 in an actor); the last digits of the rows depend on it."""
    trust_remote_code: bool = False
    """Run Python code that the model's author put on the hub. Only for authors you trust."""
    offline: bool = False
    """Never ask the hub; use what is on this machine."""
    engine: Literal["local", "ray"] = "local"
    """This process, or actors on a Ray cluster that load the model once each; with equal --threads, equal rows."""
    address: str | None = None
    """With --engine ray: the cluster, such as auto or ray://host:10001; otherwise one is started on this machine."""
    actors: int = 1
    """With --engine ray: how many copies of the model measure at once."""
    actor_gpus: float = 0.0
    """With --engine ray: GPUs of each actor, on one machine; a model is spread over 2 or more, and 0.5 shares one."""
    check: bool = False
    """Compute every layer of the first forward pass once more by a slower way, and stop if they differ: what a GPU's
    kernel gives, against blocks of scores in float32; those, against the whole pattern in float64."""
    resume: bool = False
    """Go on with the run in that directory."""


def main(arguments: Sequence[str]) -> None:
    """Checks everything that can be checked, loads the models, measures, compares and draws."""
    options = parse(Entropy, arguments, "entropy")
    conditions = PAPER_CONDITIONS if options.paper_mode else options.conditions
    if options.paper_mode and set(options.conditions) not in (set(PAPER_CONDITIONS), set(Entropy.conditions)):
        raise ValueError(
            f"paper mode measures the conditions {' '.join(PAPER_CONDITIONS)}, got {' '.join(options.conditions)}"
        )
    if options.engine == "local" and (options.address, options.actors, options.actor_gpus) != (None, 1, 0):
        raise ValueError("--address, --actors and --actor-gpus need --engine ray")
    if options.against_revision is not None and options.against is None:
        raise ValueError(f"--against-revision {options.against_revision}: a revision of which model? Name --against")
    if len(set(options.baseline)) < len(options.baseline):
        raise ValueError(f"--baseline {' '.join(options.baseline)}: none twice")
    if options.threads is not None:
        use_threads(options.threads)
    decoding = Decoding(options.temperature, options.top_p, options.samples, options.max_new_tokens)
    check_directory(options.out, options.resume)
    problems = load_problems(
        options.data, limit=options.limit, seed=options.seed, split=options.split, offline=options.offline,
        question=options.question, answer=options.answer, solution=options.solution, cluster=options.cluster,
    )  # fmt: skip
    asked = None if options.metrics == DEFAULT_METRICS else options.metrics
    scopes = None if options.scopes == DEFAULT_SCOPES else options.scopes
    request = Request(
        problems, conditions, options.seed, options.keep_tokens, options.paper_mode, batch_size=options.batch_size,
        asked_metrics=asked, asked_scopes=scopes, decoding=decoding, chat=options.chat, thinking=options.thinking,
        check=options.check,
    )  # fmt: skip
    identity = {k: v for k, v in asdict(options).items() if k not in NOT_THE_RUN} | {"threads": n_threads(options)}
    with (
        (measuring_here if options.engine == "local" else measuring_on_ray)(options, request) as measured,
        run_directory(options.out, {"command": "entropy", **identity}, options.resume),
    ):
        stores = [measured("", options.out)]
        stores += [measured(name, options.out / f"baseline_{name}") for name in options.baseline]
        if options.against is not None:
            stores.append(measured(AGAINST, options.out / "against"))
        found = _compared(options, _merged(stores, options.out))
    _print(options, found)


def _merged(stores: Sequence[Store], out: Path) -> Table:
    """The rows of all models, written to `out`: in one file, or in parts where memory would not hold them."""
    if sum(store.n_rows for store in stores) <= LARGE:
        tables = [store.finish(whole=len(stores) == 1 or place > 0) for place, store in enumerate(stores)]
        if len(stores) > 1:
            rows.write(out / "rows.parquet", rows.concat(tables))
        return Frame(rows.concat(tables))
    if len(stores) == 1:
        return stores[0].finish_parts()
    found = [store.finish_parts(OWN_PARTS) for store in stores]
    return write_parts(out / PARTS, (one.piece(place) for one in found for place in one.places))


def _compared(options: Entropy, table: Table) -> list[Effect]:
    """Writes effects and figures; one problem or one condition leaves no effect."""
    found, heads, drawn = [], [], []
    shown = shown_places(table.places)
    with progress("comparing", len(table.places), "metrics by scope", patient=True) as update:
        for done, (place, pairs) in enumerate(zip(table.places, comparisons(table)), 1):
            found += map(effect_of, pairs)
            heads.append(head_effects(pairs))
            drawn += pairs if place in shown else []
            update(done, f"{place[0]}, {place[1]} tokens")
    if found:
        from interp.figures.measurement import measurement_figures  # matplotlib, when the work is done
        from interp.figures.style import save_figures

        save_figures(options.out / "figures", measurement_figures(table, drawn, found))
    again = command("entropy", options=chosen(options, leaving_out=NOT_THE_RUN))
    write_effects(options.out / FILE, again, found)
    write_heads(options.out / HEADS, heads)
    return found


def _print(options: Entropy, found: Sequence[Effect]) -> None:
    if found:
        metrics = SHOWN_METRICS if options.metrics == DEFAULT_METRICS else options.metrics
        one, shown = found[0], main_effects(found, metrics)
        n = f"{one.n} problems" if one.unit == "problems" else f"{one.problems} problems, {one.n} clusters of them"
        title = f"{options.model} on {options.data}: differences, {one.level:.0%} intervals ({n})"
        Console().print(effect_table(shown, title))
        print(reading_of(shown))
        for name in dict.fromkeys(effect.metric for effect in shown):
            metric = find_metric(name)
            print(f"{name}: {metric.label}, over these tokens; {metric.statistic.sparser} is sparser")
        print(f"Means over heads, paired by problem; not corrected for there being {len(shown)} intervals.")
        if more := len(found) - len(shown):
            print(f"{more} more, of other metrics or pairs of conditions, are in {options.out / FILE}")
    else:
        print("nothing to compare: an interval needs two conditions, and two problems that are not of one cluster")
    _print_set_aside(options)
    heads = f"{HEADS}, " if (options.out / HEADS).exists() else ""
    print(f"rows, {FILE}, {heads}{PASSAGES} and figures are in {options.out}")
    print(f"every head, and texts token by token: cotlens report {quote(str(options.out))} --out report.html")
    claim = "wen2024/fig6" if options.against is None else "wen2024/fig6-model"
    print(f"This describes this model on these problems. A verdict on the paper's claim: cotlens claims run {claim}")


def _print_set_aside(options: Entropy) -> None:
    """What a check found, what became of the texts that the model wrote, and which problems are without a number."""
    found = read_json(options.out / "measurement.json")
    for path in found["paths"]:
        if path.startswith("checked"):
            print(f"first forward pass {path}")
        if path.startswith("layers"):  # of a hybrid
            print(f"{path}: only these have rows")
        if "learned sinks" in path:
            print(f"{path.partition(': ')[2]}; --metrics learned_sink_mass measures what they take")
    for scope, n in found["set_aside"].items():
        print(f"scope {scope}: {n} problems set aside, whose conditions do not have the same tokens there")
    if "outcomes" in found:
        n = sum(found["outcomes"].values())
        counts = ", ".join(f"{found['outcomes'].get(name, 0)} {name}" for name in OUTCOMES)
        print(f"of {n} texts that {options.model} wrote ({GENERATED}): {counts}")
    for condition, n in found.get("left_out", {}).items():
        print(f"condition {condition}: {n} problems set aside, which have no such text")
