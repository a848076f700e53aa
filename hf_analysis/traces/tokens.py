"""Which tokens of a trace belong to which sentence? By the characters that the tokenizer says it made them from."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.places import token_places
from hf_analysis.text.sentences import sentence_spans
from hf_analysis.text.traces import Trace

FEWEST = 2
"""Sentences of the shortest reasoning that is measured: one alone is read by no other."""


@dataclass(frozen=True)
class Unit:
    """A sentence of the reasoning, or a whole span (system, question, answer), as tokens [start, end)."""

    span: str
    text: str
    start: int
    end: int

    @property
    def n_tokens(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class TraceTokens:
    """One trace as a model reads it."""

    trace: Trace
    ids: tuple[int, ...]
    units: tuple[Unit, ...]
    """In order; tokens of the template and of tags are in none."""

    @cached_property
    def reasoning(self) -> tuple[int, ...]:
        """Which units are the sentences of the reasoning."""
        return tuple(i for i, unit in enumerate(self.units) if unit.span == "reasoning")

    @property
    def sentences(self) -> tuple[Unit, ...]:
        """The sentences of the reasoning."""
        return tuple(self.units[i] for i in self.reasoning)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each sentence of the reasoning."""
        return tuple(unit.n_tokens for unit in self.sentences)

    @property
    def prompt(self) -> tuple[int, ...]:
        """The tokens before the reasoning."""
        return self.ids[: self.sentences[0].start]


def trace_tokens(model: LoadedModel, trace: Trace) -> TraceTokens:
    """The tokens of `trace` and of its sentences. A token belongs to where its last character stands.

    So the space before a word, which many tokenizers join to it, goes with the word.
    """
    ids = model.encode(trace.text)
    if model.max_tokens is not None and len(ids) > model.max_tokens:
        raise ValueError(
            f"trace {trace.id} has {len(ids)} tokens, but {model.name} takes at most {model.max_tokens}; leave it "
            "out or use a model with a longer context"
        )
    last = [end - 1 if end > begin else -1 for begin, end in token_places(model, trace.text, ids)]
    units = []
    for name, start, end in trace.places():
        spans = sentence_spans(trace.text[start:end]) if name == "reasoning" else [(0, end - start)]
        for begin, behind in spans:
            inside = [i for i, place in enumerate(last) if start + begin <= place < start + behind]
            if inside:  # a piece that the tokenizer joined to its neighbours has no token of its own
                units.append(Unit(name, trace.text[start + begin : start + behind], inside[0], inside[-1] + 1))
    found = TraceTokens(trace, tuple(ids), tuple(units))
    if len(found.reasoning) < FEWEST:
        raise ValueError(
            f"trace {trace.id} has {len(found.reasoning)} sentence of reasoning, expected at least {FEWEST}: no "
            "later one reads it; leave it out"
        )
    return found


def group_of_token(n_tokens: int, units: Sequence[Unit]) -> Int[Tensor, "pos"]:
    """The number of every token's unit; -1 for tokens in none."""
    found = torch.full((n_tokens,), -1)
    for i, unit in enumerate(units):
        found[unit.start : unit.end] = i
    return found
