"""What is measured of a trace? The registry of measures: one file in `hf_analysis/traces/known/`, one `@register`.

A measure is a function of a trace's tokens and a `Study`, what is the same for all traces of a run, to rows of the
table (`probes.rows`). In these rows `query` and `key` are numbers of units: the sentences of the reasoning and the
other spans, in the order in which `passages.jsonl` lists them. `unit`, the unit of replication, is the trace.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from hf_analysis.models.generation import Decoding
from hf_analysis.models.loading import LoadedModel
from hf_analysis.traces.tokens import TraceTokens
from probes import rows
from probes.attention.sentences import GAP
from probes.base.names import unknown
from probes.base.plugins import import_modules, load_plugins, registered_by_name
from probes.base.streams import torch_stream


@dataclass(frozen=True)
class Study:
    """What is the same for every trace of a run."""

    model: LoadedModel
    traces: Sequence[TraceTokens]
    """All of them: a measure may put the steps of one into another."""
    run: str
    seed: int = 0
    gap: int = GAP
    """Sentences between which attention from afar is counted."""
    rotations: int = 4
    """Draws of the null with rotated sentence boundaries."""
    permutations: int = 1
    """Draws of the null with permuted sentences; each is a forward pass."""
    controls: int = 1
    """Random spans that are hidden in place of each sentence."""
    heads: tuple[tuple[int, int], ...] | None = None
    """(layer, head) in which a sentence is hidden; None: in all."""
    keep: frozenset[str] = frozenset()
    """Traces whose matrices are kept for every head."""
    continuations: int = 4
    """Texts that are sampled from before each sentence."""
    decoding: Decoding = field(default_factory=lambda: Decoding(temperature=0.8, top_p=0.95))
    """How those are sampled."""

    def __post_init__(self) -> None:
        least = {"gap": 1, "rotations": 0, "permutations": 0, "controls": 0, "continuations": 1}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise ValueError(f"--{name} {getattr(self, name)}: need {smallest} or more")
        for layer, head in self.heads or ():
            if not (0 <= layer < self.model.n_layers and 0 <= head < self.model.n_heads):
                raise ValueError(
                    f"--heads {layer}.{head}: {self.model.name} has layers 0 to {self.model.n_layers - 1} of heads 0 "
                    f"to {self.model.n_heads - 1}"
                )

    @property
    def head_mask(self) -> Bool[Tensor, "layer head"] | None:
        """`heads` as a mask; None: all of them."""
        if self.heads is None:
            return None
        chosen = torch.zeros(self.model.n_layers, self.model.n_heads, dtype=torch.bool)
        chosen[tuple(torch.tensor(self.heads).T)] = True
        return chosen

    def stream(self, tokens: TraceTokens, purpose: str) -> torch.Generator:
        """The random numbers of one purpose for one trace, whatever else is measured."""
        return torch_stream(self.seed, f"{purpose} {tokens.trace.id}")

    def table(self, tokens: TraceTokens, **columns: Any) -> pd.DataFrame:
        """Rows of one trace."""
        return rows.table(run=self.run, unit=tokens.trace.id, **columns)


Measure = Callable[[TraceTokens, Study], pd.DataFrame]
MEASURES: dict[str, Measure] = {}
DEFAULT = ("attention", "suppression", "faithfulness")
"""What is measured unless something else is asked for; resampling takes minutes a trace on a CPU."""


def register(measure: Measure) -> Measure:
    """Makes `measure` known under its function's name; a name is taken once, except by a rerun cell."""
    return registered_by_name(MEASURES, "measure", measure)


def load_measures(plugins: bool = True) -> dict[str, Measure]:
    """Imports every module of `hf_analysis.traces.known`, and every plug-in, and returns the registry."""
    from hf_analysis.traces import known

    import_modules(known)
    if plugins:
        load_plugins()
    return MEASURES


def find_measure(name: str) -> Measure:
    """The measure called `name`; an unknown name lists the known ones."""
    known = load_measures(plugins=False)
    if name not in known:
        known = load_measures()
    if name not in known:
        raise ValueError(f"{unknown('measure', name)}; the measures are {', '.join(sorted(known))}")
    return known[name]
