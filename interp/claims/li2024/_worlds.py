"""What would rows of errors look like, were the truth known? Simulated answers for the judges' error rates.

Errors of seeds are counts of wrong answers: binomial, given a rate that differs a little between seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.li2024._factors import ENOUGH
from interp.claims.li2024._runs import Line
from interp.claims.li2024._vote import cot_vote_error
from interp.statistics.interval import Number
from probes.rows import setting, table

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


def along_lines(
    scopes: Mapping[str, tuple[Sequence[Line], Sequence[int], int]], condition: str, error: ErrorOf
) -> Cells:
    """The cells of Figures 2 and 3; `scopes` maps a scope to its lines, numbers of examples and queries of a seed."""
    places = []
    for scope, (lines, lengths, n_queries) in scopes.items():
        for line, spread, settings in lines:
            labels = {"run": line, "condition": condition, "scope": scope, "metric": f"{condition}_error"}
            for alpha, tau, rho in settings:
                law = {"alpha": alpha, "tau": tau, "rho": rho, "tau_o": tau, "rho_o": rho, "line": line}
                places += [
                    (labels, {**law, "l": length}, error(alpha, tau, rho, spread, length), n_queries)
                    for length in lengths
                ]
    return cells(places)


def power_law(base: Number, alpha: Number, tau: Number, rho: Number) -> ErrorOf:
    """Errors 0.9 exp(-l / s): ENOUGH is reached after `base` examples at alpha' = 0.8, tau = rho = 0.5, elsewhere
    after a number that grows with these exponents of 1/alpha', 1/tau and 1/rho."""

    def error(a: float, t: float, r: float, spread: str, length: int) -> float:
        needed = base * (0.8 / a) ** alpha * (0.5 / t) ** tau * (0.5 / r) ** rho
        return 0.9 * float(np.exp(np.log(ENOUGH / 0.9) * length / needed))

    return error


vote: ErrorOf = cot_vote_error
"""Errors of an exact vote."""
