"""How each sentence changes the answers that sampled continuations reach, as rows."""

from itertools import pairwise

import pandas as pd

from hf_analysis.traces.measures import Study, register
from hf_analysis.traces.resampling import answer_divergence, resampled
from hf_analysis.traces.tokens import TraceTokens
from probes import rows

RIGHT, ANSWERED = "resampled_right", "resampled_answered"
"""The share of texts from a beginning that state the trace's answer, and any answer."""
IMPORTANCE, GAIN = "resampling_importance", "resampling_right_gain"
"""Of a sentence: KL of the answers before it against those behind it; the change in the share that are right."""


@register
def resampling(tokens: TraceTokens, study: Study) -> pd.DataFrame:
    """Rows by `key`: of beginnings, the last sentence kept (-1 for none); of importances, the sentence itself;
    `n_tokens` counts texts. A trace without an answer has only importances."""
    found = resampled(study, tokens)
    target, keys = tokens.trace.target, [-1, *tokens.reasoning]
    names = {"condition": "resampled", "scope": "answer", "n_tokens": study.continuations}
    answered = [sum(map(bool, one.answers)) / len(one.answers) for one in found]
    tables = [study.table(tokens, metric=ANSWERED, key=keys, value=answered, **names)]
    pairs = list(pairwise(found))
    importance = [answer_divergence(before.answers, behind.answers) for before, behind in pairs]
    tables.append(study.table(tokens, metric=IMPORTANCE, key=keys[1:], value=importance, **names))
    if target:
        right = [one.right(target) for one in found]
        gains = [behind - before for before, behind in pairwise(right)]
        tables.append(study.table(tokens, metric=RIGHT, key=keys, value=right, **names))
        tables.append(study.table(tokens, metric=GAIN, key=keys[1:], value=gains, **names))
    return rows.concat(tables)
