"""What is known of each sentence? From the rows of traces to one line for each sentence and one column a number."""

from collections.abc import Iterable, Sequence

import pandas as pd

ATTENTION, SUPPRESSION = "attention", "suppression"
BEYOND_CONTROL = "suppression_beyond_control"
RESAMPLING, GAIN = "resampling", "answer_gain"


def sentence_table(rows: pd.DataFrame, heads: Iterable[tuple[int, int]] | None = None) -> pd.DataFrame:
    """One line for each trace (`unit`) and sentence of its reasoning (`sentence`, the number of its unit), in order.

    attention                    vertical score, the mean over `heads`, or over all
    suppression                  the mean over later units of the effect of hiding it (minus the usual one there)
    suppression_beyond_control   the mean over later units of its log divergence minus that of random spans near it
    resampling                   divergence of the answers reached before and behind it
    answer_gain                  log-odds of the answer behind it minus before it
    Only what was measured; a sentence without a number has NaN.
    """
    parts = [
        _attention(rows, None if heads is None else set(heads)),
        _mean(rows, SUPPRESSION, "suppression_effect", "hidden"),
        _beyond_control(rows),
        _mean(rows, RESAMPLING, "resampling_importance", "resampled"),
        _mean(rows, GAIN, "answer_log_odds_gain", "early"),
    ]
    found = pd.concat([part for part in parts if len(part)], axis=1).sort_index() if any(map(len, parts)) else None
    if found is None:
        return pd.DataFrame(columns=["unit", "sentence"])
    return found.rename_axis(["unit", "sentence"]).reset_index()


def sentence_lengths(rows: pd.DataFrame) -> pd.Series:
    """Tokens of every sentence, by trace and sentence: what a matrix of attention says of its keys."""
    chosen = rows[(rows["metric"] == "attention_mean") & (rows["layer"] == -1)]
    return chosen.groupby(["unit", "key"])["n_tokens"].first()


def _attention(rows: pd.DataFrame, heads: set[tuple[int, int]] | None) -> pd.Series:
    chosen = rows[(rows["metric"] == "vertical") & (rows["condition"] == "trace")]
    if heads is not None:
        pairs: Sequence[tuple[int, int]] = list(zip(chosen["layer"], chosen["head"]))
        chosen = chosen[[pair in heads for pair in pairs]]
    return chosen.groupby(["unit", "key"])["value"].mean().rename(ATTENTION)


def _mean(rows: pd.DataFrame, name: str, metric: str, condition: str) -> pd.Series:
    chosen = rows[(rows["metric"] == metric) & (rows["condition"] == condition)]
    return chosen.groupby(["unit", "key"])["value"].mean().rename(name)


def _beyond_control(rows: pd.DataFrame) -> pd.Series:
    """Over the units that stand behind both the sentence and its control."""
    chosen = rows[rows["metric"] == "suppression_log_kl"]
    arms = [
        chosen[chosen["condition"] == arm].set_index(["unit", "key", "query"])["value"]
        for arm in ("hidden", "control")
    ]
    difference = (arms[0] - arms[1]).dropna()
    return difference.groupby(level=["unit", "key"]).mean().rename(BEYOND_CONTROL)
