"""Which rows belong to a pair of conditions? Some numbers of a text depend on what it is compared with.

A length-matched reduction, and any metric in a scope of m tokens (`first`, `window`), depend on how many tokens the
other text of the pair has. A condition whose text has n tokens has

    rows with m=n in `setting`               for comparisons with texts that are at least as long, if there are any
    rows with against=OTHER m=M in `setting` for the comparison with a shorter text OTHER, of M tokens

so a pair of texts has rows of its own on the longer side only: k conditions have at most k (k + 1) / 2 - 1 sets of
rows, not k (k - 1). `matched_to` picks the rows of one side of a pair. Rows that depend on no other text have neither
word, nor have those of results made before pairs had rows of their own (all texts of a problem were matched to the
shortest one): they are taken as they are.

Where a problem has several texts of the model (`measurement.samples`), rows with against=OTHER and no m are means
over the samples that have both texts of the pair, if some have one only.
"""

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from probes.rows import setting, words

TEXT = ["run", "condition", "unit", "metric", "scope"]
"""Columns that name one number of one text: what it may have several rows of, by pair."""


def pair_setting(own: str, m: int, against: str | None = None) -> str:
    """The column `setting` of a row of m tokens, which was `own` apart from that."""
    return setting(**words(own), m=m, **({} if against is None else {"against": against}))


def of_pairs(rows: pd.DataFrame) -> np.ndarray:
    """Row by row, the other condition of the pair that the row is of; empty where it is of no single pair."""
    return _word(rows, "against")


def own_settings(rows: pd.DataFrame) -> np.ndarray:
    """Row by row, what `setting` says but for the words of a pair."""
    codes, texts = pd.factorize(rows["setting"])
    kept = [{name: word for name, word in words(text).items() if name not in ("against", "m")} for text in texts]
    return np.array([setting(**one) for one in kept], dtype=object)[codes]


def sizes_of_pairs(rows: pd.DataFrame) -> np.ndarray:
    """Row by row, the m of a row of m tokens; empty where it depends on no other text."""
    return _word(rows, "m")


def matched_to(rows: pd.DataFrame, other: str) -> pd.DataFrame:
    """The rows for a comparison with the condition `other`: those against it, else those against none, in order."""
    against = of_pairs(rows)
    if not against.any():
        return rows
    texts = rows.groupby(TEXT, sort=False).ngroup().to_numpy()
    return rows[of_pair(against == other, against == "", texts)]


def of_pair(
    own: Bool[np.ndarray, " row"], unnamed: Bool[np.ndarray, " row"], texts: Int[np.ndarray, " row"]
) -> Bool[np.ndarray, " row"]:
    """Which rows are those of one pair: its `own`, and the `unnamed`, against none, of `texts` that have none own."""
    return own | (unnamed & ~np.isin(texts, texts[own]))


def _word(rows: pd.DataFrame, name: str) -> np.ndarray:
    """What `setting` says of `name`, row by row; empty where it says nothing."""
    codes, texts = pd.factorize(rows["setting"])
    return np.array([words(text).get(name, "") for text in texts], dtype=object)[codes]
