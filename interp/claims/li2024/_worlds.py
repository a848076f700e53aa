"""What would rows of errors look like, were the truth known? Simulated answers for the judges' error rates.

Errors of seeds are counts of wrong answers: binomial, given a rate that differs a little between seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.li2024._factors import ENOUGH
from interp.claims.li2024._runs import VOTES, Line
from interp.claims.li2024._vote import N_PATTERNS, N_STEPS, cot_vote_error
from interp.statistics.interval import Number
from probes.rows import concat, setting, table

ErrorOf = Callable[[float, float, float, str, int], float]
"""The error rate by alpha', tau, rho, spread of the errors and number of examples."""


@dataclass(frozen=True)
class Cells:
    """Places at which every seed's error is measured: their labels and rates."""

    columns: Mapping[str, Sequence[str]]
    """Of the table, one entry for each cell."""
    rates: Float[np.ndarray, "cell"]
    n_queries: Sequence[int]

    def rows(self, generator: np.random.Generator, seeds: int, spread: float = 0.05) -> pd.DataFrame:
        """One draw; `spread` is the standard deviation of a seed's log odds, the same seed's in every cell."""
        odds = np.log(np.clip(self.rates, 1e-12, 1 - 1e-12)) - np.log1p(-np.clip(self.rates, 1e-12, 1 - 1e-12))
        rates = 1 / (1 + np.exp(-odds[:, None] - generator.normal(0, spread, seeds)))
        n_queries = np.array(self.n_queries)
        wrong = generator.binomial(n_queries[:, None], rates)
        return table(
            **{name: np.repeat(np.array(column, object), seeds) for name, column in self.columns.items()},
            unit=np.tile(np.array([str(seed) for seed in range(seeds)], object), len(rates)),
            value=(wrong / n_queries[:, None]).ravel(), n_tokens=np.repeat(n_queries, seeds),
        )  # fmt: skip


def cells(places: Sequence[tuple[Mapping[str, str], Mapping[str, Number | str], Number, int]]) -> Cells:
    """From (columns, setting, rate, queries) of each cell."""
    names = list(places[0][0])
    columns = {name: [place[0][name] for place in places] for name in names}
    columns["setting"] = [setting(**place[1]) for place in places]
    return Cells(columns, np.array([place[2] for place in places]), [place[3] for place in places])


@dataclass(frozen=True)
class Along:
    """The cells of Figures 2 and 3, with the errors of a vote on the same prompts."""

    cells: Cells
    votes: Float[np.ndarray, "cell"]
    """The rates of the vote."""

    def rows(self, generator: np.random.Generator, seeds: int) -> pd.DataFrame:
        """One draw; the two err on the same queries, but for what their rates differ by and for one error in ten."""
        network = self.cells.rows(generator, seeds)
        n, wrong = (network[name].to_numpy(float) for name in ("n_tokens", "value"))
        wrong = (wrong * n).round().astype(int)
        own, of_vote = (np.repeat(rates, seeds) for rates in (self.cells.rates, self.votes))
        swapped = 0.1 * np.minimum(own, 1 - own)
        # Of the network's errors some are right in the vote, and the other way round, so that its rate comes out.
        repaired = generator.binomial(wrong, np.clip((swapped + np.maximum(own - of_vote, 0)) / own, 0, 1))
        broken = (swapped + np.maximum(of_vote - own, 0)) / np.maximum(1 - own, 1e-12)
        broken = generator.binomial(n.astype(int) - wrong, np.clip(broken, 0, 1))
        metric = network["metric"].map(lambda name: VOTES.get(name, ""))
        votes = network.assign(metric=metric, value=(wrong - repaired + broken) / n)
        return concat([network, votes[metric != ""]])


def along_lines(
    scopes: Mapping[str, tuple[Sequence[Line], int]], condition: str, error: ErrorOf, votes: ErrorOf | None = None
) -> Along:
    """The cells of Figures 2 and 3; `scopes` maps a scope to its lines and queries of a seed.

    `votes` are the errors of the vote, an exact one's unless given.
    """
    places, of_vote = [], []
    for scope, (lines, n_queries) in scopes.items():
        for line, spread, settings, lengths in lines:
            labels = {"run": line, "condition": condition, "scope": scope, "metric": f"{condition}_error"}
            for alpha, *errors in settings:
                # ICL sees labels alone: errors in every step are for it those of one step, with tau_o and rho_o.
                tau, rho = _of_label(*errors) if (condition, spread) == ("icl", "even") else errors
                law = {"alpha": alpha, "tau": tau, "rho": rho, "tau_o": tau, "rho_o": rho, "line": line}
                of = "first" if condition == "icl" else spread
                where = [(alpha, tau, rho, of, length) for length in lengths]
                places += [(labels, {**law, "l": at[-1]}, error(*at), n_queries) for at in where]
                of_vote += [(votes or vote)(*at) for at in where]
    return Along(cells(places), np.array(of_vote))


def _of_label(tau: float, rho: float) -> tuple[float, float]:
    from toy_models.incontext.errors import Errors

    errors = Errors.of(tau, rho, N_STEPS, N_PATTERNS, "even")
    return errors.tau_o, errors.rho_o


def power_law(base: Number, alpha: Number, tau: Number, rho: Number) -> ErrorOf:
    """Errors 0.9 exp(-l / s): ENOUGH is reached after `base` examples at alpha' = 0.8, tau = rho = 0.5, elsewhere
    after a number that grows with these exponents of 1/alpha', 1/tau and 1/rho."""

    def error(a: float, t: float, r: float, spread: str, length: int) -> float:
        needed = base * (0.8 / a) ** alpha * (0.5 / t) ** tau * (0.5 / r) ** rho
        return 0.9 * float(np.exp(np.log(ENOUGH / 0.9) * length / needed))

    return error


vote: ErrorOf = cot_vote_error
"""Errors of an exact vote."""


def but_for_one_cell(error: ErrorOf, more: float) -> ErrorOf:
    """`error`, and `more` at one setting and number of examples: alpha' = 0.8, tau = rho = 0.5, 28 examples."""

    def changed(a: float, t: float, r: float, spread: str, length: int) -> float:
        return error(a, t, r, spread, length) + (more if (a, t, r, length) == (0.8, 0.5, 0.5, 28) else 0.0)

    return changed
