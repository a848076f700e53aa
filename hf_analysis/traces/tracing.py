"""What does each sentence of a trace do? All measures of one trace, or of many with resumable rows.

from hf_analysis import load_model, trace
found = trace(load_model("builtin"), "Ann has 3, buys 4. <think>She has 3. So 3+4=7.</think> The answer is 7.")
found.sentences()  # one line for each sentence: what it receives, what hiding it does, what it adds
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from hf_analysis.measurement.measure import Measured, Progress, collect
from hf_analysis.measurement.request import Request
from hf_analysis.measurement.store import fingerprint
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.traces import Trace, asked_of, put_together, require_distinct
from hf_analysis.traces.hidden import written_without
from hf_analysis.traces.measures import DEFAULT, Study, find_measure
from hf_analysis.traces.sentences import sentence_table
from hf_analysis.traces.tokens import TraceTokens, trace_tokens
from probes import rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class Traced:
    """One trace and its rows."""

    tokens: TraceTokens
    rows: pd.DataFrame

    def sentences(self) -> pd.DataFrame:
        """One line for each sentence of the reasoning, one column for each number that is known of it."""
        texts = {i: self.tokens.units[i].text.strip() for i in self.tokens.reasoning}
        table = sentence_table(self.rows).drop(columns="unit").set_index("sentence")
        table.insert(0, "tokens", pd.Series({i: self.tokens.units[i].n_tokens for i in texts}))
        table.insert(0, "text", pd.Series(texts))
        return table

    def matrix(self, metric: str = "attention_mean", layer: int = -1, head: int = -1) -> pd.DataFrame:
        """Sentence by sentence: rows are the reading (or changed) units, columns the read (or hidden) ones."""
        chosen = self.rows[(self.rows["metric"] == metric) & (self.rows["query"] >= 0)]
        chosen = chosen[(chosen["layer"] == layer) & (chosen["head"] == head) & (chosen["condition"] != "control")]
        if chosen.empty:
            known = ", ".join(sorted(self.rows[self.rows["query"] >= 0]["metric"].unique()))
            raise ValueError(f"no matrix of {metric!r} in head {layer}.{head}; the matrices are {known}")
        return chosen.pivot(index="query", columns="key", values="value")


def trace(
    model: "LoadedModel | PreTrainedModel",
    text: str | Trace,
    *,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
    measures: Sequence[str] = DEFAULT,
    **options: Any,
) -> Traced:
    """All `measures` of one trace: a text with `<think>...</think>`, or a `Trace`; `options` are those of `Study`.

    Every head's matrix is kept. Measures that need another trace (the steps of another problem) leave that part out.
    """
    if not isinstance(model, LoadedModel):
        if tokenizer is None:
            raise ValueError("trace: a model alone does not read texts; pass its tokenizer= too")
        model = LoadedModel(getattr(model, "name_or_path", "") or type(model).__name__, model, tokenizer)
    if isinstance(text, str):
        asked = asked_of({"text": text}, "trace")
        if asked is None:
            raise ValueError(
                f"the text {text[:40]!r} has no <think>...</think>; put its reasoning between these tags"
            )
        text = put_together(asked)
    tokens = trace_tokens(model, text)
    study = Study(model, [tokens], model.name, keep=frozenset({text.id}), **options)
    return Traced(tokens, measured_rows(study, tokens, measures))


def measured_rows(study: Study, tokens: TraceTokens, measures: Sequence[str]) -> pd.DataFrame:
    """The rows of every measure of one trace."""
    return rows.concat([find_measure(name)(tokens, study) for name in measures])


def measure_traces(
    study: Study,
    measures: Sequence[str],
    out: Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The rows of every trace of `study`, in order, also written to `out`; each is on disk before the next begins."""
    if not measures or len(set(measures)) != len(measures):
        raise ValueError(f"measures {list(measures)}: need at least one, and none twice")
    for name in measures:
        find_measure(name)
    require_distinct([one.trace for one in study.traces])
    problems = [one.trace.problem for one in study.traces]
    request = Request(problems, ("cot_clean",), study.seed)

    def measured(group: range) -> list[Measured]:
        tokens = study.traces[group.start]
        table = measured_rows(study, tokens, measures)
        return [Measured(problems[group.start], table, _facts(tokens, written_without(study, tokens, table)), None)]

    settings = {
        name: value for name, value in vars(study).items() if name not in ("model", "traces", "run", "seed", "keep")
    }
    identity = {
        **fingerprint(study.model, study.run, request), "measured": "trace", "measures": list(measures),
        "keep": sorted(study.keep), **settings, "decoding": asdict(study.decoding),
        "heads": None if study.heads is None else [list(pair) for pair in study.heads],
    }  # fmt: skip
    groups = [range(i, i + 1) for i in range(len(problems))]
    return collect(request, identity, groups, lambda missing: map(measured, missing), out, resume, progress)


def _facts(tokens: TraceTokens, written: list[dict[str, Any]]) -> dict[str, Any]:
    """What was read: the units with their spans, texts and tokens; and what was written with a sentence hidden."""
    units = [{"span": unit.span, "text": unit.text, "start": unit.start, "end": unit.end} for unit in tokens.units]
    passage = {"condition": "trace", "text": tokens.trace.text, "target": tokens.trace.target, "units": units}
    passage |= {"written": written} if written else {}
    n = len(tokens.ids)
    return {
        "forwarded_tokens": n, "unshared_tokens": n, "layout": "one trace at a time", "passages": [passage],
        "paths": ["groups: attention on sentences is summed without a pattern"],
    }  # fmt: skip
