"""How many examples are needed as the number of patterns grows? Estimates of the factor log M of li2024."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.li2024._estimates import bands, largest_size
from interp.claims.li2024._factors import ENOUGH, Growth, exponents, mean_slope, needed_examples
from interp.claims.li2024._runs import VOTES, errors_of
from interp.core.parts import NotMeasurable
from interp.statistics import Interval


def all_right(m: int) -> float:
    """The error of one query at which all m of a task are right with probability 0.95."""
    return 1 - (1 - ENOUGH) ** (1 / m)


@dataclass(frozen=True)
class Needs:
    """The required numbers by number of patterns, along 1 / log M: for the average, and for all queries at once."""

    average: Growth
    every: Growth
    vote: Growth
    """For the average, of an ideal vote on the same prompts."""
    patterns: Float[np.ndarray, "value"]


def summary(rows: pd.DataFrame) -> Needs:
    """The required numbers of examples of the network, and of votes."""
    own, votes = (_by_pattern(rows, metric) for metric in ("cot_error", VOTES["cot_error"]))
    patterns = np.sort(own.index.get_level_values("m").unique().to_numpy())[::-1]

    def growth(found: pd.DataFrame, enough: Callable[[int], float]) -> Growth:
        parts = [
            needed_examples(found.loc[m].index.to_numpy(float), found.loc[m].to_numpy(float)[None], enough(int(m)))
            for m in patterns
        ]
        return Growth(1 / np.log(patterns), *(np.concatenate(part) for part in zip(*parts)))

    each = growth(own, lambda m: ENOUGH), growth(own, all_right), growth(votes, lambda m: ENOUGH)
    return Needs(*each, patterns.astype(float))


def _by_pattern(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    return errors_of(rows, metric, "test").pivot(index=["m", "l"], columns="unit", values="value")


def beyond_vote(found: Needs, level: float) -> Interval | NotMeasurable:
    """The required number over that of an ideal vote on the same prompts, minus 1: the largest size over M."""
    own, vote = found.average, found.vote
    if any((g.more | g.fewer).any() for g in (own, vote)):
        return NotMeasurable("a required number lies beyond the numbers of examples that were measured")
    if own.needed.shape[1] < 2:
        return NotMeasurable("one seed only; a mean with an interval needs two")
    return largest_size(partial(bands, own.needed / vote.needed - 1), level)


def exponent(found: Needs, level: float, *, of: str) -> Interval | NotMeasurable:
    """p of needed ~ (log M)^p, the mean over seeds."""
    return mean_slope(exponents(getattr(found, of), level), level)


def vote_note(found: Needs) -> str:
    ratios = (found.average.needed / found.vote.needed).mean(1)
    return "mean ratio by M: " + ", ".join(f"{m:.0f}: {ratio:.3f}" for m, ratio in zip(found.patterns, ratios))


def needs_note(found: Needs, of: str) -> str:
    growth: Growth = getattr(found, of)
    pairs = zip(found.patterns, np.median(growth.needed, axis=1))
    return "median l by M: " + ", ".join(f"{m:.0f}: {median:.0f}" for m, median in pairs)
