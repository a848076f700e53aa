"""What hiding each sentence does to the ones after it, beside random spans of equal length, as rows."""

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hf_analysis.traces.measures import Study, register
from hf_analysis.traces.suppression import Hidden, by_unit, control_span, suppressed_kl, without_usual
from hf_analysis.traces.tokens import TraceTokens
from probes import rows

LOG_KL, EFFECT = "suppression_log_kl", "suppression_effect"
"""The mean log divergence of a unit's tokens; the same minus the mean over hidden sentences at that unit."""


@register
def suppression(tokens: TraceTokens, study: Study) -> pd.DataFrame:
    """Rows of pairs: hiding `key` changes `query` so much, `n_tokens` of which were read.

    Condition `hidden`: the sentence itself. Condition `control`: the mean over draws of a random span of equal length
    next to it (`control_span`), in the place of the same `key`, where `query` lies behind both.
    """
    behind = [i for i in tokens.reasoning if tokens.units[i].end < len(tokens.ids)]
    sentences = [Hidden(tokens.units[i].start, tokens.units[i].end) for i in behind]
    stream = study.stream(tokens, "control spans")
    drawn = [
        (n, control_span(one, len(tokens.ids) - 1, stream))
        for _ in range(study.controls)
        for n, one in enumerate(sentences)
    ]
    controls = [(n, span) for n, span in drawn if span is not None]
    spans = [*sentences, *(span for _, span in controls)]
    kl = suppressed_kl(study.model, tokens.ids, spans, _chosen(study))
    found = by_unit(kl, spans, tokens.units)
    own, others = found[: len(sentences)], found[len(sentences) :]
    tables = [_table(study, tokens, behind, own, "hidden")]
    if controls:
        instead = torch.full_like(own, torch.nan)
        place = torch.tensor([n for n, _ in controls])
        for n in range(len(sentences)):
            if bool((place == n).any()):
                instead[n] = others[place == n].mean(0)  # NaN unless behind every draw
        tables.append(_table(study, tokens, behind, instead.where(own.isfinite(), torch.nan), "control"))
    return rows.concat([table for pair in tables for table in pair])


def _chosen(study: Study) -> Bool[Tensor, "layer head"] | None:
    if study.heads is None:
        return None
    chosen = torch.zeros(study.model.n_layers, study.model.n_heads, dtype=torch.bool)
    chosen[tuple(torch.tensor(study.heads).T)] = True
    return chosen


def _table(
    study: Study, tokens: TraceTokens, keys: list[int], effects: Float[Tensor, "span unit"], condition: str
) -> list[pd.DataFrame]:
    lengths = np.array([unit.n_tokens for unit in tokens.units])
    tables = []
    for metric, values in ((LOG_KL, effects), (EFFECT, without_usual(effects))):
        span, query = (index.numpy() for index in values.isfinite().nonzero(as_tuple=True))
        if len(span):
            columns = {"key": np.array(keys)[span], "query": query, "value": values.numpy()[span, query]}
            tables.append(study.table(tokens, condition=condition, metric=metric, n_tokens=lengths[query], **columns))
    return tables
