"""Which spans of a trace are hidden, and what does the model write without one? Greedy texts beside the intact one.

A divergence says that something changed; the text says what. From the end of the reasoning the model goes on with
nothing hidden, with the sentence of the largest effect hidden, and with the random span that is its control.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from hf_analysis.models.generation import end_tokens
from hf_analysis.models.loading import LoadedModel
from hf_analysis.models.logits import output_head
from hf_analysis.traces.measures import Study
from hf_analysis.traces.suppression import Hidden, check_spans, continued, control_span, hiding, read
from hf_analysis.traces.tokens import TraceTokens

MOST_WRITTEN = 32
"""Tokens of each text."""


def sentences_and_controls(
    study: Study, tokens: TraceTokens
) -> tuple[list[int], list[Hidden], list[tuple[int, Hidden]]]:
    """The sentences that have tokens behind them, as numbers of units and as spans, and random spans in their place:
    each with the index of its sentence, all sentences once before any a second time."""
    behind = [i for i in tokens.reasoning if tokens.units[i].end < len(tokens.ids)]
    sentences = [Hidden(tokens.units[i].start, tokens.units[i].end) for i in behind]
    stream = study.stream(tokens, "control spans")
    drawn = [
        (n, control_span(one, len(tokens.ids) - 1, stream))
        for _ in range(study.controls)
        for n, one in enumerate(sentences)
    ]
    return behind, sentences, [(n, span) for n, span in drawn if span is not None]


@torch.inference_mode()
def texts_without(
    model: LoadedModel,
    ids: Sequence[int],
    spans: Sequence[Hidden | None],
    heads: Bool[Tensor, "layer head"] | None = None,
    most: int = MOST_WRITTEN,
) -> list[tuple[int, ...]]:
    """What the model writes after `ids`, always the most likely token, while no query behind spans[i] sees it.

    None: nothing is hidden. A text ends before a token that ends texts, after `most` tokens, or where the model's
    context ends. Keys and values up to the first span's end are computed once; all texts are written together.
    """
    hidden = [
        Hidden(len(ids) - 1, len(ids) - 1) if one is None else one for one in spans
    ]  # an empty span hides nothing
    check_spans(len(ids), [one for one in spans if one is not None])
    room = most if model.max_tokens is None else min(most, model.max_tokens - len(ids))
    start, head, ends, network = min(one.end for one in hidden), output_head(model), end_tokens(model), _base(model)
    past, _ = read(model, ids)
    states, cache = continued(model, ids, past, start, hidden, heads)
    written: list[list[int]] = [[] for _ in spans]
    for n in range(room):
        chosen = head(states[:, -1]).argmax(-1)
        for row, token in zip(written, chosen.tolist()):
            row.append(token)
        if n + 1 == room or all(ends & set(row) for row in written):
            break
        at = len(ids) + n
        with hiding(model, at + 1, at, hidden, heads):
            states = network(input_ids=chosen[:, None], past_key_values=cache, use_cache=True).last_hidden_state
    return [_until_end(row, ends) for row in written]


def _base(model: LoadedModel) -> Any:
    return model.model.base_model


def _until_end(row: list[int], ends: frozenset[int]) -> tuple[int, ...]:
    last = next((i for i, token in enumerate(row) if token in ends), len(row))
    return tuple(row[:last])


def written_without(study: Study, tokens: TraceTokens, rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The texts from the end of the reasoning: intact, without the sentence whose hiding changes most (by `rows`, its
    mean `suppression_effect`), and without its first control; none where no sentence has an effect or no room is
    left."""
    end = tokens.sentences[-1].end
    behind, sentences, controls = sentences_and_controls(study, tokens)
    effects = rows[(rows["metric"] == "suppression_effect") & (rows["condition"] == "hidden")]
    mean = effects.groupby("key")["value"].mean()
    mean = mean[[key for key in mean.index if tokens.units[key].end < end]]
    if mean.empty or (study.model.max_tokens is not None and end >= study.model.max_tokens):
        return []
    key = int(mean.idxmax())
    found: list[tuple[str, Hidden | None]] = [("intact", None), ("hidden", sentences[behind.index(key)])]
    instead = [span for n, span in controls if behind[n] == key and span.end < end]
    found += [("control", span) for span in instead[:1]]
    texts = texts_without(study.model, tokens.ids[:end], [span for _, span in found], study.head_mask)
    return [_record(study, tokens, name, key, span, text) for (name, span), text in zip(found, texts)]


def _record(
    study: Study, tokens: TraceTokens, name: str, key: int, span: Hidden | None, text: tuple[int, ...]
) -> dict[str, Any]:
    hidden = None if span is None else study.model.decode(list(tokens.ids[span.start : span.end]))
    key = -1 if span is None else key
    return {"condition": name, "key": key, "hidden": hidden, "text": study.model.decode(list(text))}
