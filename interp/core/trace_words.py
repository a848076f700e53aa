"""What do the names in a summary of traces mean? A line for each, of those that occur."""

import re
from collections.abc import Iterable

LEGEND = {
    "kurtosis": "of what a head's sentences receive from those at least --gap later: high if few receive most of it",
    "kurtosis_depth": "the same of ranks within each reading sentence",
    "kurtosis_length": "the same without what the sentences' lengths explain",
    "kurtosis_without_sink": "the same without attention to the first token",
    "kurtosis_mass": "the same of summed attention, in place of attention per token",
    "beyond rotated": "minus that of the same attention cut at rotated sentence boundaries",
    "beyond permuted": "minus that of the trace with its sentences permuted",
    "attention": "per token of a sentence, from those at least --gap later, in the receiver heads of other traces",
    "suppression": "what hiding a sentence changes later (log KL), minus the usual effect there",
    "suppression_beyond_control": "what hiding it changes later, minus that of a random span of equal length near it",
    "resampling": "how the answers of sampled texts change from before a sentence to behind it (nats)",
    "answer_gain": "log-odds of the answer behind a sentence minus before it",
    "early_area_right": "share right that is lacking if the answer is asked for early, mean over the reasoning",
    "early_area_log_odds": "log-odds of the answer that are lacking then, mean over the reasoning",
    "answer_right": "1 if the model, always taking the most likely token, writes the answer; asked for by a sentence",
    "answer_log_odds": "log-odds of the answer there",
    "lost by mistake": "lost if one number of the reasoning is changed",
    "lost by filler": "lost if full stops stand in place of the reasoning",
    "lost by swapped": "lost if another problem's steps stand in place of the reasoning",
    "continued_right": "1 if the answer that the model states, going on by itself after a sentence, is right",
    "lost by mistake_continued": "lost if it goes on after a changed number",
    "continued_same": "1 if it states the same answer as without that change",
}


def legend(names: Iterable[str]) -> list[str]:
    """A line for each term of `LEGEND` in one of `names`: "early_area_log_odds: the same in log-odds ..."."""
    said = list(names)
    return [f"{term}: {what}" for term, what in LEGEND.items() if any(_has(name, term) for name in said)]


def _has(name: str, term: str) -> bool:
    return re.search(rf"\b{re.escape(term)}\b", name) is not None
