"""What is reported of a passage? The rows of the measurement table, from the row statistics of its tokens.

Metrics, per layer and head, over the tokens of a scope that see at least two keys:
min, mean, q10           of the normalised entropy H / log(visible keys)
length_matched_min       the expected minimum over a random subset of m tokens, where m is the smallest number
                         of tokens in that scope among the measured conditions of the same problem
sink_mass                the mean attention on the first token
sink_excluded_min, _mean of the normalised entropy of the row without the first token
Scopes: `all` tokens; `answer`, the tokens after the question.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from hf_analysis.attention.recorder import Recording
from probes import rows
from probes.attention import entropy

METRICS = ("min", "mean", "q10", "length_matched_min", "sink_mass", "sink_excluded_min", "sink_excluded_mean")
SCOPES = ("all", "answer")


@dataclass(frozen=True)
class PassageRows:
    """The row statistics of one passage, its pads and the other passages cut away."""

    condition: str
    setting: str
    ids: tuple[int, ...]
    n_question: int
    entropy: Float[Tensor, "layer head pos"]
    without_sink: Float[Tensor, "layer head pos"]
    sink_mass: Float[Tensor, "layer head pos"]

    def scope(self, scope: str) -> slice:
        return slice(None) if scope == "all" else slice(self.n_question, None)


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
    parts = (recording.entropy, recording.without_sink, recording.sink_mass)
    cut = [part[:, row].index_select(-1, where) for part in parts]
    return PassageRows(condition, setting, tuple(ids), n_question, cut[0], cut[1], cut[2])


def reduce_problem(run: str, unit: str, passages: Sequence[PassageRows], paper_mode: bool = False) -> pd.DataFrame:
    """All rows of one problem; `paper_mode` keeps the paper's reduction only, the minimum over all tokens."""
    cells = []
    for scope in ("all",) if paper_mode else SCOPES:
        matched = min(_n_defined(p.entropy[..., p.scope(scope)]) for p in passages)
        for passage in passages:
            for metric in ("min",) if paper_mode else METRICS:
                values, n_tokens = _values(metric, passage, scope, matched)
                cells.append((passage.condition, passage.setting, metric, scope, n_tokens, values))
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


def _values(metric: str, passage: PassageRows, scope: str, matched: int) -> tuple[Float[Tensor, "layer head"], int]:
    """The metric's value for every head, and how many tokens it was reduced over."""
    name = metric.removeprefix("sink_excluded_")
    source = passage.without_sink if metric.startswith("sink_excluded_") else passage.entropy
    source = source[..., passage.scope(scope)]
    n_tokens = _n_defined(source)
    if metric == "length_matched_min":
        return entropy.length_matched_min(source, matched), n_tokens
    if metric == "sink_mass":
        mass = passage.sink_mass[..., passage.scope(scope)].masked_fill(source.isnan(), torch.nan)
        return entropy.mean(mass), n_tokens
    return entropy.REDUCTIONS[name](source), n_tokens


def _n_defined(values: Float[Tensor, "layer head pos"]) -> int:
    """How many tokens have a value; the same in every head, because visibility is."""
    return int((~values[0, 0].isnan()).sum())


def token_table(unit: str, passages: Sequence[PassageRows], texts: Sequence[Sequence[str]]) -> pd.DataFrame:
    """The normalised entropy of every token, layer and head; the first token, which has none, is left out."""
    tables = []
    for passage, tokens in zip(passages, texts):
        n_layers, n_heads, n_tokens = passage.entropy.shape
        layer, head, position = np.indices((n_layers, n_heads, n_tokens)).reshape(3, -1)
        frame = pd.DataFrame(
            {
                "problem": unit,
                "condition": passage.condition,
                "layer": layer,
                "head": head,
                "position": position,
                "token": np.asarray(tokens, dtype=object)[position],
                "part": np.where(position < passage.n_question, "question", "answer"),
                "value": passage.entropy.double().numpy().reshape(-1),
            }
        )
        tables.append(frame[frame["value"].notna()])
    return pd.concat(tables, ignore_index=True)
