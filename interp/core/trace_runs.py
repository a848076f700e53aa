"""How do claims about reasoning traces measure? Traces in shards, given or written by the model, measured alike.

Papers ask different questions of the same traces. What they share is here: which traces a preset asks for, how a
shard of them is measured, and the interval of a mean over traces.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hf_analysis.text.problems import template_of
from interp.core.claim import Item
from interp.core.judging import UNBOUNDED, mean_over
from interp.core.parts import NotMeasurable, Unit
from interp.statistics import Interval, clustered_mean

if TYPE_CHECKING:
    from hf_analysis.models.loading import LoadedModel
    from hf_analysis.text.problems import Problem
    from hf_analysis.traces.tokens import TraceTokens

TINY = "tiny "
"""Prefix that asks for a small, randomly initialised model with the tokenizer of the named one."""
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
    total = preset.limit or len(_problems(preset, preset.first_unit, None))
    end = preset.first_unit + total
    return [
        Item(f"problems={start}-{min(start + preset.shard, end) - 1}", {**asdict(preset), "start": start})
        for start in range(preset.first_unit, end, preset.shard)
    ]


def measured(item: Item) -> pd.DataFrame:
    """The rows of every trace of the item's shard."""
    from hf_analysis.traces.measures import Study
    from hf_analysis.traces.tracing import measured_rows
    from probes.rows import concat

    preset, traces = traces_of(item)
    model = load(preset.model)
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
    model, problems = load(preset.model), _problems(preset, start, end - start)
    if preset.written:
        top_p = 0.95 if preset.temperature else 1.0
        decoding = Decoding(preset.temperature, top_p, 1, preset.max_new_tokens)
        found, _ = written_traces(model, problems, decoding, preset.seed, chat=True)
    else:
        found = [trace_of(problem) for problem in problems]
    long = [one for one in found if len(sentence_spans(one.span("reasoning"))) >= preset.least]
    tokens = [trace_tokens(model, one) for one in long]
    return tuple(one for one in tokens if len(one.reasoning) >= preset.least)


@lru_cache(maxsize=2)
def load(name: str) -> "LoadedModel":
    """The model called `name`, or its tiny twin; the last ones are kept."""
    from hf_analysis.models.loading import load_model, tiny_twin

    if name.startswith(TINY):
        return tiny_twin(load(name.removeprefix(TINY)), seed=0)
    return load_model(name)


def _problems(preset: Traces, first: int, limit: int | None) -> list["Problem"]:
    """`limit` problems from number `first` on; without a limit all that follow."""
    from hf_analysis.text.problems import load_problems

    return load_problems(preset.data, limit=None if limit is None else first + limit)[first:]


def unit_of(data: str) -> Unit:
    """What n counts: built-in problems come from templates, any others are their own clusters."""
    return "clusters" if data == "builtin" else "problems"


def clusters_of(units: Sequence[str] | pd.Index) -> np.ndarray:
    """The cluster of each trace: the template of its problem, or the problem where several are of one."""
    return np.array([template_of(str(unit).partition(" sample=")[0]) for unit in units])


def mean_over_traces(
    values: pd.Series, level: float, bounds: tuple[float, float] = UNBOUNDED
) -> Interval | NotMeasurable:
    """The mean over traces, whose ids are the index, with an interval for new templates; without undefined values."""
    values = values.dropna().sort_index()
    data, clusters = values.to_numpy(float), clusters_of(values.index)
    _, first = np.unique(clusters, return_index=True)
    if len(first) < 2:
        return NotMeasurable(f"{len(data)} traces of {len(first)} templates; a mean with an interval needs two")
    if np.ptp(data) == 0:  # as many units as clusters agree
        return mean_over(data[first], level, bounds)
    found = clustered_mean(data, clusters, rng=0, level=level)
    return replace(found, low=max(found.low, bounds[0]), high=min(found.high, bounds[1]))


def built_in(n: int, first: int = 0) -> list[str]:
    """The ids of n built-in problems, for simulated worlds."""
    return [f"gsm-symbolic-0-{place:05d}" for place in range(first + 1, first + n + 1)]
