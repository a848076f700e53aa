"""What do Figures 2 and 3 measure? Errors by number of examples as alpha', tau and rho vary, and their estimates.

The required number of examples is that beyond which the error stays below ENOUGH. Its growth as a factor falls is an
exponent for each seed: the slope of log l over log (1 / factor). Seeds are examined on the same random numbers at
every setting, so that an exponent of each is the fair unit of replication. In every cell the error is compared with
that of an ideal vote on the same prompts, seed by seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from interp.claims.li2024._estimates import Bands, bands, largest, largest_size, least
from interp.claims.li2024._runs import VOTES, errors_of
from interp.claims.li2024._vote import vote_errors
from interp.core.parts import NotMeasurable
from interp.statistics import Interval
from probes.rows import with_settings

ENOUGH = 0.05
"""The error at which the number of examples counts as sufficient."""
FEWEST = 20
"""The number of examples from which on errors are judged against a vote's: with two or four columns of the query's
pattern what little attention is elsewhere decides many ties."""


@dataclass(frozen=True)
class Line:
    """The errors along one line of settings, in which one factor varies."""

    values: Float[np.ndarray, "value"]
    """Of the factor, ascending."""
    lengths: Float[np.ndarray, "length"]
    errors: Float[np.ndarray, "value length seed"]

    def at(self, length: int) -> Float[np.ndarray, "value seed"]:
        """The errors at one number of examples."""
        return self.errors[:, int(np.flatnonzero(self.lengths == length)[0])]


@dataclass(frozen=True)
class Growth:
    """The required number of examples along a line; `more` marks floors, `fewer` caps (see `needed_examples`)."""

    values: Float[np.ndarray, "value"]
    needed: Float[np.ndarray, "value seed"]
    more: Bool[np.ndarray, "value seed"]
    fewer: Bool[np.ndarray, "value seed"]


@dataclass(frozen=True)
class Factors:
    """What the parts of Figures 2 and 3 read; lines by the factor that varies, in the order alpha', tau, rho."""

    panels: Mapping[str, Line]
    growth: Mapping[str, Growth]
    vote_growth: Mapping[str, Growth]
    """The same numbers, of an exact vote."""
    ideal_growth: Mapping[str, Growth]
    """Those of an ideal vote on the same prompts, by seed."""
    beyond_vote: Float[np.ndarray, "cell seed"]
    """Error minus that of an ideal vote on the same prompts, in every cell."""
    cells: pd.DataFrame
    """Scope, setting and number of examples of each."""
    judged: Bool[np.ndarray, "cell"]
    """Those that are judged against a vote: of the lines of the required numbers, from FEWEST examples on."""
    n_panel: int
    """Queries of a cell of a panel, all seeds together."""
    n_queries: int
    """Queries of the cell that has fewest, all seeds together."""
    composed: Growth | None = None
    """Of ICL with errors in every step: along tau_o rho_o."""

    @property
    def n_seeds(self) -> int:
        return self.beyond_vote.shape[1]


def summarised(rows: pd.DataFrame, metric: str, factors: Sequence[str], curves: str) -> Factors:
    """The panels, the growth along the lines of scope `curves`, and the votes; `metric` is cot_error or icl_error."""
    panels = errors_of(rows, metric, "panel")
    found = errors_of(rows, metric, curves)
    ideal = errors_of(rows, VOTES[metric], curves)
    growth, of_vote, of_ideal = {}, {}, {}
    for factor in factors:
        line = _line(found, factor)
        growth[factor], of_ideal[factor] = _growth(line), _growth(_line(ideal, factor))
        base = found[found["line"] == factor].iloc[0]
        fixed = {name: float(base[name]) for name in factors}
        settings = [tuple({**fixed, factor: float(value)}.values()) for value in line.values]
        lengths = line.lengths.astype(int).tolist()
        exact = np.array([vote_errors(alpha, tau, rho, lengths) for alpha, tau, rho in settings])
        of_vote[factor] = Growth(line.values, *needed_examples(line.lengths, exact[..., None]))
    cells, beyond, n_queries = beyond_votes(rows, metric)
    judged = (cells["l"] >= FEWEST) & cells["scope"].isin([curves, "composed"])
    n_panel = int(panels["n_tokens"].iloc[0]) * panels["unit"].nunique()
    of_panels = {factor: _line(panels, factor) for factor in factors}
    return Factors(of_panels, growth, of_vote, of_ideal, beyond, cells, judged.to_numpy(bool), n_panel, n_queries)


def composed_growth(found: pd.DataFrame) -> Growth | None:
    """The required numbers along the product of tau_o and rho_o, which errors in several steps vary together."""
    if found.empty:
        return None
    by = found.assign(product=found["tau_o"] * found["rho_o"], line="product")
    return _growth(_line(by, "product"))


def composed_exponent(found: Factors, level: float) -> Interval | NotMeasurable:
    """p of needed ~ (tau_o rho_o)^-p with errors in every step, the mean over seeds."""
    if found.composed is None:
        return NotMeasurable("no errors in every step in these rows")
    return mean_slope(exponents(found.composed, level), level)


def beyond_votes(rows: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, Float[np.ndarray, "cell seed"], int]:
    """Cells, error minus that of an ideal vote by seed, and the fewest queries of a cell in all seeds together."""
    chosen = rows[rows["metric"].isin([metric, VOTES[metric]])]
    wide = chosen.pivot(index=["scope", "setting"], columns=["metric", "unit"], values="value").sort_index(axis=1)
    values = (wide[metric] - wide[VOTES[metric]]).to_numpy(float)
    cells = with_settings(wide.index.to_frame(index=False))
    return cells, values, int(chosen["n_tokens"].min()) * values.shape[1]


def _line(found: pd.DataFrame, factor: str) -> Line:
    chosen = found[found["line"] == factor]
    columns = [chosen[name].to_numpy() for name in (factor, "l", "unit")]
    values, lengths, units = (np.unique(column) for column in columns)
    if len(chosen) != len(values) * len(lengths) * len(units):
        raise ValueError(
            f"the line of {factor} has {len(chosen)} errors; expected one for each value, length and seed"
        )
    errors = chosen["value"].to_numpy(float)[np.lexsort(columns[::-1])]
    return Line(values.astype(float), lengths.astype(float), errors.reshape(len(values), len(lengths), len(units)))


def _growth(line: Line) -> Growth:
    return Growth(line.values, *needed_examples(line.lengths, line.errors))


def needed_examples(
    lengths: Float[np.ndarray, "length"], errors: Float[np.ndarray, "value length seed"], enough: float = ENOUGH
) -> tuple[Float[np.ndarray, "value seed"], Bool[np.ndarray, "value seed"], Bool[np.ndarray, "value seed"]]:
    """The number of examples beyond which the error stays below `enough`, interpolated linearly in log l.

    With it, whether it is a floor (`more`: the error does not stay below up to the longest prompt) or a cap (`fewer`:
    it is below from the shortest prompt on).
    """
    above = errors > enough
    last = np.where(above.any(1), len(lengths) - 1 - above[:, ::-1].argmax(1), -1)
    more, fewer = last == len(lengths) - 1, last == -1
    at = np.clip(last, 0, max(len(lengths) - 2, 0))
    after = np.minimum(at + 1, len(lengths) - 1)
    here, there = (np.take_along_axis(errors, place[:, None], 1)[:, 0] for place in (at, after))
    share = np.divide(here - enough, here - there, out=np.zeros(last.shape), where=~more & ~fewer)
    needed = lengths[at] * (lengths[after] / lengths[at]) ** share
    return np.where(more, lengths[-1], np.where(fewer, lengths[0], needed)), more, fewer


def required(found: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """`needed_examples` as a table by line, setting and seed: `needed`, and `more` where it is a floor."""
    tables = []
    for factor in [name for name in factors if (found["line"] == name).any()]:
        chosen = found[found["line"] == factor]
        wide = chosen.pivot(index=[*factors, "unit"], columns="l", values="value").sort_index(axis=1)
        needed, more, _ = needed_examples(wide.columns.to_numpy(float), wide.to_numpy(float).T[None])
        tables.append(wide.index.to_frame(index=False).assign(line=factor, needed=needed[0], more=more[0]))
    return pd.concat(tables, ignore_index=True)


def exponents(growth: Growth, level: float) -> Bands | NotMeasurable:
    """p of needed ~ factor^-p by seed, as one cell; open where a floor or a cap could move it."""
    known = ~(growth.more | growth.fewer)
    if known.any(1).sum() < 2:
        return NotMeasurable("fewer than two values have a required number within the range that was measured")
    if known.shape[1] < 2:
        return NotMeasurable("one seed only; a mean with an interval needs two")
    x = -np.log(growth.values)
    x -= x.mean()
    found = bands(_slopes(growth)[None], level)
    more, fewer = growth.more.any(1), growth.fewer.any(1)
    low = np.where((more & (x < 0)).any() | (fewer & (x > 0)).any(), -np.inf, found.low)
    high = np.where((more & (x > 0)).any() | (fewer & (x < 0)).any(), np.inf, found.high)
    return Bands(found.value, low, high, found.n)


def _slopes(growth: Growth) -> Float[np.ndarray, "seed"]:
    """p of needed ~ factor^-p, by seed."""
    x = -np.log(growth.values)
    x -= x.mean()
    return x @ np.log(growth.needed) / (x @ x)


def exponent(found: Factors, level: float, *, factor: str) -> Interval | NotMeasurable:
    """p of needed ~ factor^-p, the mean over seeds."""
    return mean_slope(exponents(found.growth[factor], level), level)


def mean_slope(result: Bands | NotMeasurable, level: float) -> Interval | NotMeasurable:
    """What `exponents` found, as one interval."""
    if isinstance(result, NotMeasurable):
        return result
    ends = float(result.value[0]), float(result.low[0]), float(result.high[0])
    return Interval(*ends, level, result.n, "mean of the seeds' slopes, t")


def vote_exponent(found: Factors, factor: str) -> float:
    """p of an exact vote over the same values and lengths; not a number if a required number lies beyond them."""
    growth = found.vote_growth[factor]
    if (growth.more | growth.fewer).any():
        return float("nan")
    return slope(growth.values, growth.needed[:, 0])


def slope(values: Float[np.ndarray, "value"], needed: Float[np.ndarray, "value"]) -> float:
    """p of needed ~ value^-p by least squares of logarithms."""
    return float(np.polyfit(-np.log(values), np.log(needed), 1)[0])


def least_exponent(found: Factors, level: float) -> Interval | NotMeasurable:
    """The exponent of the factor on which the required number depends least."""
    problem = _unmeasured(found)
    return least(partial(_all_exponents, found), level) if problem is None else problem


def largest_exponent(found: Factors, level: float) -> Interval | NotMeasurable:
    """The exponent of the factor on which the required number depends most steeply."""
    problem = _unmeasured(found)
    return largest(partial(_all_exponents, found), level) if problem is None else problem


def _unmeasured(found: Factors) -> NotMeasurable | None:
    each = [exponents(growth, 0.95) for growth in found.growth.values()]
    return next((e for e in each if isinstance(e, NotMeasurable)), None)


def _all_exponents(found: Factors, level: float) -> Bands:
    each = [e for growth in found.growth.values() if isinstance(e := exponents(growth, level), Bands)]
    value, low, high = (np.concatenate([getattr(e, end) for e in each]) for end in ("value", "low", "high"))
    return Bands(value, low, high, each[0].n)


def least_clear_order(found: Factors, level: float, *, length: int) -> Interval | NotMeasurable:
    """Error at a value of a factor minus that at the next higher one: the least of all pairs in the panels."""
    return _least_gap(
        found, np.concatenate([-np.diff(line.at(length), axis=0) for line in found.panels.values()]), level
    )


def least_fall(found: Factors, level: float, *, lengths: tuple[int, int]) -> Interval | NotMeasurable:
    """How much the error, averaged over a panel's values, falls between two lengths: the least of the panels."""
    short, long = lengths
    falls = [line.at(short).mean(0) - line.at(long).mean(0) for line in found.panels.values()]
    return _least_gap(found, np.array(falls), level)


def _least_gap(found: Factors, gaps: Float[np.ndarray, "cell seed"], level: float) -> Interval | NotMeasurable:
    if found.n_seeds < 2 or not len(gaps):
        return NotMeasurable("fewer than two values of each factor, or one seed only")
    return least(partial(bands, gaps, n_queries=found.n_panel), level)


def beyond_vote(found: Factors, level: float) -> Interval | NotMeasurable:
    """The largest difference between the errors of the network and of a vote, over the cells that are judged."""
    if found.n_seeds < 2 or not found.judged.any():
        return NotMeasurable("one seed only, or no cell; a mean with an interval needs two seeds")
    return largest_size(partial(bands, found.beyond_vote[found.judged], n_queries=found.n_queries), level)


def beyond_vote_exponent(found: Factors, level: float) -> Interval | NotMeasurable:
    """The largest difference between an exponent and that of an ideal vote on the same prompts, over the factors."""
    if found.n_seeds < 2:
        return NotMeasurable("one seed only; a mean with an interval needs two")
    pairs = [(found.growth[factor], found.ideal_growth[factor]) for factor in found.growth]
    if any((growth.more | growth.fewer).any() for pair in pairs for growth in pair):
        return NotMeasurable("a required number lies beyond the numbers of examples that were measured")
    gaps = np.array([_slopes(own) - _slopes(ideal) for own, ideal in pairs])
    return largest_size(partial(bands, gaps), level)
