"""How do CoT and ICL err on either side of Condition 1? The answers behind Figure 4 of li2024, and estimates."""

from dataclasses import dataclass
from functools import partial

import pandas as pd

from interp.claims.li2024._estimates import bands, difference, largest_size, least
from interp.claims.li2024._runs import errors_of
from interp.core.judging import share_of
from interp.core.parts import NotMeasurable
from interp.statistics import Interval

TAU_O, RHO_O = 0.4, 0.1
"""The paper's pair."""
FAILS, HOLDS, CLEAR = "fails", "holds", "clear"
"""Condition 1 fails, holds with the same tau_o and rho_o, and holds clearly."""
LABELS = {
    FAILS: (round(TAU_O * (1 - RHO_O), 6), TAU_O),
    HOLDS: (TAU_O, round(TAU_O * (1 - RHO_O), 6)),
    CLEAR: (0.61, 0.32),
}
"""The probabilities of the right label and of its rival after three steps."""
HIGH, LOW = 0.5, 0.02
"""Errors that count as large, and as close to zero."""


@dataclass(frozen=True)
class Answers:
    """Errors of the label by case, number of examples and seed."""

    icl: pd.DataFrame
    cot: pd.DataFrame
    icl_vote: pd.DataFrame
    """ICL's by an ideal vote on the same prompts."""

    def at(self, who: str, case: str) -> pd.DataFrame:
        """The errors of `who` in one case, at every number of examples."""
        found: pd.DataFrame = getattr(self, who)
        return found[found["case"] == case]


def summary(rows: pd.DataFrame) -> Answers:
    """The errors of ICL, of CoT's last step, and of votes."""
    return Answers(*(errors_of(rows, name, "test") for name in ("icl_error", "cot_label_error", "icl_vote_error")))


def lowest_error(found: Answers, level: float) -> Interval | NotMeasurable:
    """ICL's error where Condition 1 fails, at the number of examples at which it is least."""
    at = found.at("icl", FAILS)
    if at["unit"].nunique() < 2:
        return NotMeasurable("fewer than two seeds with examples in which Condition 1 fails")
    wide = at.pivot(index="l", columns="unit", values="value").to_numpy(float)
    n_queries = int(at["n_tokens"].iloc[0]) * wide.shape[1]
    return least(partial(bands, wide, n_queries=n_queries, bounds=(0.0, 1.0)), level)


def fall(found: Answers, level: float) -> Interval | NotMeasurable:
    """ICL's error with the fewest examples minus that with the most, at the paper's pair where Condition 1 holds."""
    at = found.at("icl", HOLDS)
    if at.empty:
        return NotMeasurable("no examples in these rows in which Condition 1 holds at the paper's pair")
    return difference(at[at["l"] == at["l"].min()], at[at["l"] == at["l"].max()], level)


def share_right(found: Answers, level: float, *, who: str, case: str) -> Interval | NotMeasurable:
    """The share of seeds that are right with the most examples."""
    at = found.at(who, case)
    return share_of(at[at["l"] == at["l"].max()]["value"] < LOW, level)


def beyond_vote(found: Answers, level: float) -> Interval | NotMeasurable:
    """The largest difference between the errors of ICL and of a vote on the same prompts."""
    wide, of_vote = (
        t.pivot(index=["case", "l"], columns="unit", values="value") for t in (found.icl, found.icl_vote)
    )
    if wide.shape[1] < 2:
        return NotMeasurable("fewer than two seeds")
    n_queries = int(found.icl["n_tokens"].iloc[0]) * wide.shape[1]
    return largest_size(partial(bands, (wide - of_vote).to_numpy(float), n_queries=n_queries), level)


def curve_note(found: Answers, who: str, case: str) -> str:
    means = found.at(who, case).groupby("l")["value"].mean()
    return "error by number of examples: " + ", ".join(f"{length}: {mean:.3f}" for length, mean in means.items())


def last_note(found: Answers, who: str, case: str) -> str:
    at = found.at(who, case)
    last = at[at["l"] == at["l"].max()]
    return (
        f"mean error {last['value'].mean():.4f}; tau_o={last['tau_o'].iloc[0]:.3f}, rho_o={last['rho_o'].iloc[0]:.3f}"
    )
