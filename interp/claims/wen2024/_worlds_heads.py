"""What would ablations of sparse heads show, were the truth known? The worlds of wen2024/mechanism-sparse-heads."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from interp.claims.wen2024._ablations import FINAL, GROUPS, INTACT, STEPS, Group
from interp.claims.wen2024._worlds_pretrained import deviations, simulated_log_probs
from interp.core.claim import World
from interp.core.problem_runs import built_in

N_SELECTION, N_PROBLEMS, DRAWS = 16, 40, 2
"""As in the cpu preset."""
SMALLEST = 0.1
"""The smallest difference of interest, in nats of the whole final answer."""
KEYS = {"length_matched_min": "sparsest", "sink_excluded_min": "no_sink"}
"""What the keys of a criterion's parts begin with."""


def part_key(group: Group) -> str:
    """The key of the part that judges these heads."""
    return f"{KEYS[group.metric]}{'_unknown' if group.unknown else ''}_{group.replacement}"


def _world(lost_more: float, of_unknown: float) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which the sparsest heads cost so many nats more than others, and those of no known kind so many.

    More in some templates than in others.
    """
    units = built_in(N_PROBLEMS, first=N_SELECTION)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        values = {}
        spread = np.exp(deviations(generator, units, (2, len(GROUPS)), 0.5, 0.3))
        spread /= np.exp((0.5**2 + 0.3**2) / 2)  # of mean 1
        noise = generator.normal(0, 0.05, (2, len(GROUPS), DRAWS, len(units)))
        for metric, of_metric, others in zip((FINAL, STEPS), spread, noise):
            values[metric] = {(INTACT, INTACT, 0): np.full(len(units), -1.0)}
            for group, factor, of_draws in zip(GROUPS, of_metric, others):
                lost = of_unknown if group.unknown else lost_more
                values[metric][group.condition, "target", 0] = -1.2 - lost * factor
                for draw, change in enumerate(of_draws):
                    values[metric][group.condition, "control", draw] = -1.2 + change
        return simulated_log_probs(units, values)

    return rows


def _truth(value: bool, of_unknown: bool) -> dict[str, bool]:
    return {part_key(group): of_unknown if group.unknown else value for group in GROUPS}


WORLDS = (
    World("the sparsest heads are like any others", _truth(False, False), _world(0.0, 0.0)),
    World("a difference at the margin, of few templates", _truth(False, False), _world(SMALLEST, SMALLEST)),
    World("sparse heads matter only if they are of a known kind", _truth(True, False), _world(0.5, 0.0)),
    World("the sparsest heads do the work", _truth(True, True), _world(0.5, 0.5)),
)
