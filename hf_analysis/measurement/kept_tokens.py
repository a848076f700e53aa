"""What is kept token by token? Enough to read a text with one statistic, and to compare closing sentences in all.

Of every token of a kept problem, TOKEN_STATISTIC by layer and head. Of the tokens of the closing sentence, which are
the same in every text that ends in it, each statistic that was recorded: few tokens, so that texts can be compared
token by token in whatever was measured.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hf_analysis.measurement.reductions import PassageRows, identical
from hf_analysis.text.scopes import find_scope

TOKEN_STATISTIC = "normalised_entropy"
"""What is kept of every token."""
COLUMNS = ("run", "problem", "condition", "statistic", "layer", "head", "position", "token", "part", "value")
PARTS = ("question", "answer", "closing")
"""Of a text; `closing` only where the closing sentence has the same tokens in all texts of the problem."""


def token_table(run: str, unit: str, passages: Sequence[PassageRows], texts: Sequence[Sequence[str]]) -> pd.DataFrame:
    """A row for each kept token, layer, head and statistic; tokens that have no value, as the first, are left out."""
    final = find_scope("final")
    closes = identical(final, passages)
    tables = []
    for passage, tokens in zip(passages, texts):
        sentence = final.selection(passage.counts) if closes else None
        start = passage.counts.n if sentence is None else sentence.tokens.start
        names = {"run": run, "problem": unit, "condition": passage.condition}
        for statistic in passage.values:
            first = 0 if statistic == TOKEN_STATISTIC else start
            tables.append(_table(passage, statistic, tokens, first, start).assign(**names))
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


def _table(passage: PassageRows, statistic: str, tokens: Sequence[str], first: int, closing: int) -> pd.DataFrame:
    """One statistic of one text from the token `first` on; the closing sentence begins at `closing`."""
    values = passage.values[statistic][..., first:]
    layer, head, position = np.indices(tuple(values.shape)).reshape(3, -1)
    position += first
    part = np.digitize(position, [passage.counts.n_question, closing])
    frame = pd.DataFrame(
        {
            "statistic": statistic,
            "layer": np.array(passage.layers)[layer],
            "head": head,
            "position": position,
            "token": np.asarray(tokens, dtype=object)[position],
            "part": np.asarray(PARTS, dtype=object)[part],
            "value": values.float().numpy().reshape(-1),  # for the eye, and half the file
        }
    )
    return frame[frame["value"].notna()]
