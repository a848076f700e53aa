"""What hiding each sentence does to the ones after it, beside random spans of equal length, as rows."""

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from hf_analysis.traces.hidden import sentences_and_controls
from hf_analysis.traces.measures import Study, register
from hf_analysis.traces.suppression import by_unit, suppressed_kl, without_usual
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
    behind, sentences, controls = sentences_and_controls(study, tokens)
    spans = [*sentences, *(span for _, span in controls)]
    kl = suppressed_kl(study.model, tokens.ids, spans, study.head_mask)
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
