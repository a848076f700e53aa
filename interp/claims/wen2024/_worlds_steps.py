"""What would knockouts in a pretrained model show, were the truth known? The worlds of wen2024/mechanism-steps."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from interp.claims.wen2024._steps import ARMS, DISTANCE, INTACT, OUTCOMES, SMALLEST, TESTS
from interp.claims.wen2024._worlds_pretrained import deviations, simulated_log_probs
from interp.core.claim import World
from interp.core.problem_runs import built_in

N_PROBLEMS, DRAWS = 60, 2
"""As in the cpu preset."""


def _world(
    target: Mapping[str, float], control: Mapping[str, float]
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which a test's cut costs `target` nats and its controls `control`, more in some templates."""
    units = built_in(N_PROBLEMS)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        spread = np.exp(deviations(generator, units, (len(TESTS), 2), 0.5, 0.3))
        spread /= np.exp((0.5**2 + 0.3**2) / 2)  # of mean 1
        values = {metric: {(INTACT, INTACT, 0): np.full(len(units), -1.0)} for metric in OUTCOMES}
        values[DISTANCE] = {(test.kind, arm, 0): np.full(len(units), 40.0) for test in TESTS.values() for arm in ARMS}
        for (key, test), (of_target, of_control) in zip(TESTS.items(), spread):
            of = values[test.metric]
            own = generator.normal(0, 0.02, (1 + DRAWS, len(units)))
            of[test.kind, "target", 0] = own[0] - 1.0 - target[key] * of_target
            for draw in range(DRAWS):
                of[test.kind, "control", draw] = own[1 + draw] - 1.0 - control[key] * of_control
        return simulated_log_probs(units, values)

    return rows


_MARGIN = {key: SMALLEST[test.metric] for key, test in TESTS.items()}
_LARGE = {key: 10 * margin for key, margin in _MARGIN.items()}
_NONE = dict.fromkeys(TESTS, 0.0)
_OVER = [f"{key}_over" for key in TESTS]
WORLDS = (
    World("a loss at the margin", dict.fromkeys((*TESTS, *_OVER), False), _world(_MARGIN, _NONE)),
    World(
        "whatever is cut at that distance costs as much",
        dict.fromkeys(TESTS, True) | dict.fromkeys(_OVER, False),
        _world(_LARGE, _LARGE),
    ),
    World(
        "it costs more than the control by the margin",
        dict.fromkeys(TESTS, True) | dict.fromkeys(_OVER, False),
        _world({key: _LARGE[key] + _MARGIN[key] for key in TESTS}, _LARGE),
    ),
    World("only the other keys matter", dict.fromkeys((*TESTS, *_OVER), False), _world(_NONE, _LARGE)),
    World("steps and answer use what they look at", dict.fromkeys((*TESTS, *_OVER), True), _world(_LARGE, _NONE)),
)
