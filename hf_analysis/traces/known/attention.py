"""Attention between sentences, vertical scores and receiver heads, as rows."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from hf_analysis.traces.measures import Study, register
from hf_analysis.traces.receivers import VERTICAL, attention_and_nulls, receiver_scores, vertical
from hf_analysis.traces.tokens import TraceTokens
from probes import rows

TRACE = "trace"
"""The condition of what is measured on the trace itself; `rotated` and `permuted` are its nulls."""


@register
def attention(tokens: TraceTokens, study: Study) -> pd.DataFrame:
    """Rows by what they are of:

    every head               the versions of the kurtosis (`receivers.VERSIONS`), on the trace and as means over the
                             draws of each null; `n_tokens` counts sentences
    every head and sentence  `vertical` and `vertical_depth` of each sentence (`key`) that others read from afar
    every pair of units      `attention_mean` and `attention_mass` of `key` by `query`, with and without the sink:
                             means over heads, and for kept traces of every head
    """
    found, nulls = attention_and_nulls(study, tokens)
    scores = vertical(found, tokens, study.gap)
    names = {"condition": TRACE, "n_tokens": len(tokens.reasoning)}
    tables = _heads(study, tokens, receiver_scores(scores), names)
    for null, draws in nulls.items():
        if draws:
            means = {name: torch.stack([draw[name] for draw in draws]).mean(0) for name in draws[0]}
            tables += _heads(study, tokens, means, {**names, "condition": null})
    for version, metric in (("kurtosis", VERTICAL), ("kurtosis_depth", f"{VERTICAL}_depth")):
        tables.append(_sentences(study, tokens, scores[version], metric))
    pairs = {
        "attention_mean": found.mean,
        "attention_mass": found.mass,
        "attention_mean_without_sink": found.mean_without_sink,
        "attention_mass_without_sink": found.mass_without_sink,
    }
    for metric, matrix in pairs.items():
        tables.append(_pairs(study, tokens, matrix.double().mean((0, 1))[None, None], metric, head=-1))
        if tokens.trace.id in study.keep and metric == "attention_mean":
            tables.append(_pairs(study, tokens, matrix, metric))
    return rows.concat(tables)


def _heads(
    study: Study, tokens: TraceTokens, values: dict[str, Float[Tensor, "layer head"]], names: dict[str, Any]
) -> list[pd.DataFrame]:
    tables = []
    for metric, value in values.items():
        layer, head = torch.isfinite(value).nonzero(as_tuple=True)
        if len(layer):
            tables.append(
                study.table(
                    tokens,
                    layer=layer.numpy(),
                    head=head.numpy(),
                    metric=metric,
                    value=value[layer, head].numpy(),
                    **names,
                )
            )
    return tables


def _sentences(
    study: Study, tokens: TraceTokens, value: Float[Tensor, "layer head sentence"], metric: str
) -> pd.DataFrame:
    layer, head, sentence = torch.isfinite(value).nonzero(as_tuple=True)
    if not len(layer):
        return rows.concat([])
    key = np.array(tokens.reasoning)[sentence.numpy()]
    columns = {
        "layer": layer.numpy(),
        "head": head.numpy(),
        "key": key,
        "value": value[layer, head, sentence].numpy(),
    }
    lengths = np.array([unit.n_tokens for unit in tokens.units])
    return study.table(tokens, condition=TRACE, metric=metric, n_tokens=lengths[key], **columns)


def _pairs(
    study: Study, tokens: TraceTokens, matrix: Float[Tensor, "layer head reading read"], metric: str, head: int = 0
) -> pd.DataFrame:
    """`head` -1: the one matrix is a mean over heads."""
    layer, heads, query, key = (index.numpy() for index in torch.ones_like(matrix).tril().nonzero(as_tuple=True))
    lengths = np.array([unit.n_tokens for unit in tokens.units])
    return study.table(
        tokens, condition=TRACE, layer=layer + min(head, 0), head=heads + min(head, 0), query=query, key=key,
        metric=metric, value=matrix.double().numpy()[layer, heads, query, key], n_tokens=lengths[key],
    )  # fmt: skip
