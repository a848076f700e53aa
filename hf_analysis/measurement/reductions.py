"""What is reported of a passage? The rows of the measurement table, from the row statistics of its tokens.

Metrics are those of `probes.attention.statistics`: per layer and head, a statistic reduced over the tokens of a scope
that see at least two keys. Length-matched reductions are expectations over a random subset of m tokens, where m is
the smallest number of tokens in that scope among the measured conditions of the same problem.
Scopes: `all` tokens; `answer`, the tokens after the question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from hf_analysis.attention.recorder import Recording
from probes import rows
from probes.attention.entropy import n_defined, reduced, with_two_keys
from probes.attention.statistics import find_metric

SCOPES = ("all", "answer")
PAPER_SCOPES = ("all",)
TOKEN_STATISTIC = "normalised_entropy"
"""What is kept token by token."""


@dataclass(frozen=True)
class PassageRows:
    """The row statistics of one passage, its pads and the other passages cut away."""

    condition: str
    setting: str
    ids: tuple[int, ...]
    n_question: int
    values: Mapping[str, Float[Tensor, "layer head pos"]]
    """By statistic; NaN for tokens that see fewer than two keys."""

    def scoped(self, statistic: str, scope: str) -> Float[Tensor, "layer head in_scope"]:
        """The values of the tokens in `scope`."""
        return self.values[statistic][..., slice(None) if scope == "all" else slice(self.n_question, None)]


def passage_rows(
    recording: Recording,
    row: int,
    where: Tensor,
    condition: str,
    setting: str,
    ids: Sequence[int],
    n_question: int,
) -> PassageRows:
    """The part of `recording` that belongs to the passage at the places `where` of batch row `row`."""
    n_visible = recording.n_visible[:, row].index_select(-1, where)
    cut = {name: part[:, row].index_select(-1, where) for name, part in recording.values.items()}
    values = {name: with_two_keys(part, n_visible) for name, part in cut.items()}
    return PassageRows(condition, setting, tuple(ids), n_question, values)


def reduce_problem(
    run: str, unit: str, passages: Sequence[PassageRows], metrics: Sequence[str], scopes: Sequence[str] = SCOPES
) -> pd.DataFrame:
    """All rows of one problem: every metric of every passage in every scope."""
    found = [find_metric(name) for name in metrics]
    cells = []
    for scope in scopes:
        names = {metric.statistic.name for metric in found}
        matched = {name: min(n_defined(p.scoped(name, scope)) for p in passages) for name in names}
        for passage in passages:
            for metric in found:
                values = passage.scoped(metric.statistic.name, scope)
                by_head = reduced(metric.reduction, values, matched[metric.statistic.name])
                cells.append((passage.condition, passage.setting, metric.name, scope, n_defined(values), by_head))
    condition, setting, metric, scope, n_tokens, values = zip(*cells)
    n_layers, n_heads = values[0].shape
    each = n_layers * n_heads
    return rows.table(
        run=run,
        condition=np.repeat(condition, each),
        unit=unit,
        setting=np.repeat(setting, each),
        layer=np.tile(np.repeat(np.arange(n_layers), n_heads), len(cells)),
        head=np.tile(np.arange(n_heads), n_layers * len(cells)),
        metric=np.repeat(metric, each),
        scope=np.repeat(scope, each),
        value=torch.stack(values).double().numpy().reshape(-1),
        n_tokens=np.repeat(n_tokens, each),
    )


def token_table(unit: str, passages: Sequence[PassageRows], texts: Sequence[Sequence[str]]) -> pd.DataFrame:
    """The normalised entropy of every token, layer and head; the first token, which has none, is left out."""
    tables = []
    for passage, tokens in zip(passages, texts):
        entropy = passage.values[TOKEN_STATISTIC]
        layer, head, position = np.indices(tuple(entropy.shape)).reshape(3, -1)
        frame = pd.DataFrame(
            {
                "problem": unit,
                "condition": passage.condition,
                "layer": layer,
                "head": head,
                "position": position,
                "token": np.asarray(tokens, dtype=object)[position],
                "part": np.where(position < passage.n_question, "question", "answer"),
                "value": entropy.double().numpy().reshape(-1),
            }
        )
        tables.append(frame[frame["value"].notna()])
    return pd.concat(tables, ignore_index=True)
