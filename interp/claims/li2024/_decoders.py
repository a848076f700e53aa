"""What do standard decoders on the task of li2024 do? Errors on either side of Condition 1, and attention."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from interp.claims.li2024._estimates import difference
from interp.claims.li2024._runs import errors_of
from interp.claims.li2024._worlds import cells
from interp.core.judging import share_of, typical_of
from interp.core.parts import NotMeasurable
from interp.statistics import Interval
from probes.rows import concat, table

VIOLATED, SATISFIED = 0.7, 0.9
"""Accuracies of a step, on either side of 0.75."""
CLEAN, TIE = 0.02, 0.05
"""The error of a decoder that has learned the task; a difference from a vote's error that is too small to matter."""
NAMES = {"cot": "CoT", "icl": "ICL"}


@dataclass(frozen=True)
class Decoders:
    """What the parts read of both decoders of each seed."""

    errors: pd.DataFrame
    """Of the label, by condition, accuracy of a step and seed."""
    votes: pd.DataFrame
    """Those of an ideal vote on the same prompts."""
    focus: pd.Series
    """By condition and seed: the attention on the examples' columns of the query's pattern and step."""

    def at(self, condition: str, accuracy: float, *, vote: bool = False) -> pd.DataFrame:
        """The errors of one condition at one accuracy of a step, the decoders' or the votes'."""
        found = self.votes if vote else self.errors
        return found[(found["condition"] == condition) & (found["a"] == accuracy)]


def summary(rows: pd.DataFrame) -> Decoders:
    """Errors by accuracy, and the attention of each decoder."""
    mass = rows[rows["metric"] == "dependency_mass"]
    errors, votes = (errors_of(rows, metric, "errors") for metric in ("label_error", "vote_error"))
    return Decoders(errors, votes, mass.groupby(["condition", "unit"])["value"].mean())


def share_clean(found: Decoders, level: float, *, condition: str) -> Interval | NotMeasurable:
    """The share of seeds whose decoder has learned the task."""
    return share_of(found.at(condition, 1.0)["value"] < CLEAN, level)


def advantage(found: Decoders, level: float) -> Interval | NotMeasurable:
    """The error of ICL minus that of CoT where Condition 1 fails, by seed."""
    return difference(found.at("icl", VIOLATED), found.at("cot", VIOLATED), level)


def beyond_vote(found: Decoders, level: float, *, condition: str, accuracy: float) -> Interval | NotMeasurable:
    """The decoder's error minus that of an ideal vote on the same prompts, by seed."""
    return difference(found.at(condition, accuracy), found.at(condition, accuracy, vote=True), level)


def mean_focus(found: Decoders, level: float, *, condition: str) -> Interval | NotMeasurable:
    """The attention of the median seed on the relevant columns."""
    return typical_of(found.focus[condition].sort_index(), level)


def clean_note(found: Decoders, condition: str) -> str:
    return f"mean error {found.at(condition, 1.0)['value'].mean():.4f}"


def better_note(found: Decoders) -> str:
    cot, icl = (found.at(name, VIOLATED)["value"].mean() for name in ("cot", "icl"))
    votes = [found.at(name, VIOLATED, vote=True)["value"].mean() for name in ("cot", "icl")]
    return f"errors of CoT {cot:.3f} and ICL {icl:.3f}; of ideal votes {votes[0]:.3f} and {votes[1]:.3f}"


def beyond_note(found: Decoders, condition: str, accuracy: float) -> str:
    own, vote = (found.at(condition, accuracy, vote=vote)["value"].mean() for vote in (False, True))
    return f"error {own:.3f}, an ideal vote's {vote:.3f}"


def simulated_decoders(
    seeds: int,
    n_queries: int,
    *,
    icl: float,
    cot: float,
    clean: float,
    beyond: float,
    focus: Callable[[np.random.Generator, int], np.ndarray],
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows with these errors where Condition 1 fails (`icl`, `cot`) and without errors (`clean`).

    Ideal votes have `beyond` fewer where there are errors.
    """
    places = []
    for condition, failing in (("icl", icl), ("cot", cot)):
        labels = {"run": condition, "condition": condition, "scope": "errors", "metric": "label_error"}
        for accuracy, rate in ((VIOLATED, failing), (SATISFIED, 0.05), (1.0, clean)):
            place = {"a": accuracy, "l": 20, "condition_1": int(accuracy > 0.75)}
            vote = max(rate - beyond, 0.0) if accuracy < 1 else 0.0
            places += [
                (labels, place, rate, n_queries), ({**labels, "metric": "vote_error"}, place, vote, n_queries),
            ]  # fmt: skip
    simulated = cells(places)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        units = [str(seed) for seed in range(seeds)]
        common = {"run": "focus", "scope": "test", "metric": "dependency_mass", "unit": units}
        looks = [table(condition=name, value=focus(generator, seeds), **common) for name in NAMES]
        return concat([simulated.rows(generator, seeds, spread=0.2), *looks])

    return rows


def one_or_none(generator: np.random.Generator, seeds: int) -> np.ndarray:
    """A seed looks at one kind of columns wholly or not at all."""
    return generator.integers(0, 2, seeds).astype(float)


def mostly(generator: np.random.Generator, seeds: int) -> np.ndarray:
    """Every seed looks mostly at the relevant columns."""
    return generator.normal(0.8, 0.05, seeds).clip(0, 1)
