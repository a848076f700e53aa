"""Does the model follow a mistake? It goes on by itself after a changed number, as in Lanham et al. 2023.

Greedy, from behind the sentence, once as it stands and once with its last number changed (the mistakes of
`faithfulness`, which forces the later steps instead); the answer is the one that the text states. A text that was cut
off, or states nothing, has no answer.
"""

import pandas as pd

from hf_analysis.models.generation import Decoding, continuations
from hf_analysis.text.own import is_over
from hf_analysis.text.values import same_answer
from hf_analysis.traces.changes import mistakes
from hf_analysis.traces.measures import Study, register
from hf_analysis.traces.resampling import stated
from hf_analysis.traces.tokens import TraceTokens
from probes import rows

RIGHT, ANSWERED, SAME = "continued_right", "continued_answered", "continued_same"
"""Whether the text states the trace's answer; any answer; the one that the text without the mistake states."""


@register
def continued(tokens: TraceTokens, study: Study) -> pd.DataFrame:
    """Rows by `key`, the last sentence before the model goes on: condition `continued` as it stands, condition
    `mistake_continued` with its number changed; `n_tokens` counts what was written. Only sentences with numbers;
    `continued_right` only where the trace has an answer, `continued_same` only where the intact text states one."""
    wrong = mistakes(study, tokens)
    if not wrong:
        return rows.concat([])
    keys = [unit for unit, _ in wrong]
    intact = [tokens.ids[: tokens.units[unit].end] for unit in keys]
    texts = answers_after(study, [*intact, *(other.ids[: other.units[unit].end] for unit, other in wrong)])
    arms = {"continued": texts[: len(keys)], "mistake_continued": texts[len(keys) :]}
    tables = []
    for condition, found in arms.items():
        for metric, values in _scores(found, arms["continued"], tokens.trace.target).items():
            known = [i for i, value in enumerate(values) if value is not None]
            if known:
                columns = {"key": [keys[i] for i in known], "n_tokens": [found[i][1] for i in known]}
                names = {"condition": condition, "metric": metric, "scope": "answer"}
                tables.append(study.table(tokens, value=[float(values[i] or 0) for i in known], **columns, **names))
    return rows.concat(tables)


def answers_after(study: Study, beginnings: list[tuple[int, ...]]) -> list[tuple[str, int]]:
    """The answer that the model states after each beginning, empty where it states none, and how much it wrote."""
    model = study.model
    before = [model.decode(list(one)) for one in beginnings]
    texts = continuations(
        model,
        [list(one) for one in beginnings],
        Decoding(max_new_tokens=study.decoding.max_new_tokens),
        is_done=lambda place, written: is_over(model, before[place], written),
    )
    return [(stated(model.decode(list(text.tokens)), text.complete), len(text.tokens)) for text in texts]


def _scores(found: list[tuple[str, int]], intact: list[tuple[str, int]], target: str) -> dict[str, list[bool | None]]:
    answers = [answer for answer, _ in found]
    own = [answer for answer, _ in intact]
    return {
        ANSWERED: [bool(one) for one in answers],
        RIGHT: [_same(one, target) if target else None for one in answers],
        SAME: [_same(one, other) if other else None for one, other in zip(answers, own)],
    }


def _same(one: str, other: str) -> bool:
    return bool(one) and same_answer(one, other)
