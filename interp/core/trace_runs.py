"""How do claims about reasoning traces measure? Traces in shards, given or written by the model, measured alike.

Papers ask different questions of the same traces. What they share is here: which traces a preset asks for, how a
shard of them is measured, and the interval of a mean over traces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pandas as pd

from interp.core.claim import Item
from interp.core.judging import UNBOUNDED
from interp.core.loops import Loop
from interp.core.parts import NotMeasurable
from interp.core.problem_runs import LIKE, PROBLEMS, clustered, clusters_of, load, shards, some_problems
from interp.statistics import Interval

if TYPE_CHECKING:
    from hf_analysis.traces.tokens import TraceTokens


def _tokens(p: Mapping[str, Any]) -> int:
    """Of all traces of an item that the model writes."""
    return p["shard"] * p["max_new_tokens"] if p["written"] else 0


_model = lru_cache(maxsize=2)(load)
"""The last models are kept: nothing here changes them."""
LOOPS = (
    PROBLEMS,
    Loop("tokens written", _tokens, lambda p, n: {"max_new_tokens": n, "least": 2, "gap": 1}, least=24),
)
"""What an item repeats. A rehearsal measures worked solutions, which are shorter than what a large model writes."""
CLUSTERED = (
    "Traces of problems made from one template (the built-in ones) are one cluster: intervals are for new templates, "
    "n counts templates; other problems are their own clusters."
)


@dataclass(frozen=True)
class Traces:
    """Which traces are read by which model; a shard of problems is one item."""

    model: str
    data: str
    limit: int | None
    """Problems; those whose trace is too short are left out."""
    shard: int
    measures: tuple[str, ...]
    """Names of `hf_analysis.traces.measures`."""
    written: bool = False
    """Whether the model writes the traces itself, asked in a chat; else it reads worked solutions."""
    temperature: float = 0.6
    """With which it writes, from the tokens that have 0.95 of the probability together."""
    max_new_tokens: int = 256
    """Where what it writes is cut off."""
    least: int = 2
    """Sentences of the shortest trace that is measured."""
    gap: int = 4
    """Sentences between which attention counts as from afar."""
    rotations: int = 4
    permutations: int = 1
    controls: int = 1
    """Draws of the nulls, and of the spans hidden in place of each sentence."""
    seed: int = 0
    seeds: int = 1
    """Problems, not seeds, are the unit of replication."""
    first_unit: int = 0
    """The first problem."""


def items(preset: Traces) -> list[Item]:
    """One item for each shard of problems, from the preset's first one on."""
    return shards(preset, preset.limit or len(some_problems(preset.data, preset.first_unit, None)))


def measured(item: Item) -> pd.DataFrame:
    """The rows of every trace of the item's shard."""
    from hf_analysis.traces.measures import Study
    from hf_analysis.traces.tracing import measured_rows
    from probes.rows import concat

    preset, traces = traces_of(item)
    model = _model(preset.model)
    study = Study(
        model, traces, model.name, seed=preset.seed, gap=preset.gap, rotations=preset.rotations,
        permutations=preset.permutations, controls=preset.controls,
    )  # fmt: skip
    return concat(measured_rows(study, one, preset.measures) for one in traces)


def traces_of(item: Item) -> tuple[Traces, Sequence["TraceTokens"]]:
    """The preset that an item is of, and the traces of its shard."""
    given = {field.name: item.parameters[field.name] for field in fields(Traces)}
    preset = Traces(**{**given, "measures": tuple(given["measures"])})
    return preset, _traces(replace(preset, measures=()), item.parameters["start"])


@lru_cache(maxsize=8)
def _traces(preset: Traces, start: int) -> tuple["TraceTokens", ...]:
    """The traces of one shard that are long enough; kept, because claims share them and writing takes longest."""
    from hf_analysis.models.generation import Decoding
    from hf_analysis.text.sentences import sentence_spans
    from hf_analysis.text.traces import trace_of
    from hf_analysis.text.written_traces import written_traces
    from hf_analysis.traces.tokens import trace_tokens

    end = start + preset.shard
    if preset.limit is not None:
        end = min(end, preset.first_unit + preset.limit)
    model, problems = _model(preset.model), some_problems(preset.data, start, end - start)
    if preset.written:
        top_p = 0.95 if preset.temperature else 1.0
        decoding = Decoding(preset.temperature, top_p, 1, preset.max_new_tokens)
        found, _ = written_traces(model, problems, decoding, preset.seed, chat=True)
    if not preset.written or preset.model.startswith(LIKE):  # what a random model writes has no sentences to measure
        found = [trace_of(problem) for problem in problems]
    long = [one for one in found if len(sentence_spans(one.span("reasoning"))) >= preset.least]
    tokens = [trace_tokens(model, one) for one in long]
    return tuple(one for one in tokens if len(one.reasoning) >= preset.least)


def mean_over_traces(
    values: pd.Series, level: float, bounds: tuple[float, float] = UNBOUNDED
) -> Interval | NotMeasurable:
    """The mean over traces, whose ids are the index, with an interval for new templates; without undefined values."""
    values = values.dropna().sort_index()
    data, clusters = values.to_numpy(float), clusters_of(values.index)
    return clustered(data, clusters, level, bounds, of="traces")
