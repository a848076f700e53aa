"""What would knockouts and probes of trained models show, were the truth known? For the mechanism claims' worlds."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.wen2024._runs import ParityRun
from interp.claims.wen2024._worlds import simulated_outcomes
from probes.rows import concat, table


def simulated_knockouts(
    runs: Sequence[ParityRun],
    own: Float[np.ndarray, "run seed"],
    others: Float[np.ndarray, "run seed"],
    random: Float[np.ndarray, "run seed"],
) -> pd.DataFrame:
    """Solved models of which two steps were tried.

    `own`: accuracy of a step that its secret bit is hidden from; `others`: of the other steps if the bit is hidden
    from every position; `random`: of a step that a random key is hidden from.
    """
    kinds = [("at_step", 0, 0, own), ("at_step", 1, 1, own), ("random", 0, 0, random), ("random", 1, 1, random)]
    kinds += [("everywhere", 0, 1, others), ("everywhere", 1, 0, others)]
    settings = [
        f"{run.labels['setting']} hidden={hidden} step={step}" for _, hidden, step, _ in kinds for run in runs
    ]
    seeds = own.shape[1]
    found = table(
        **_places(runs, seeds, len(kinds)),
        setting=np.repeat(settings, seeds),
        scope=np.repeat([scope for scope, _, _, _ in kinds], own.size),
        metric="step_accuracy",
        value=np.concatenate([values.ravel() for _, _, _, values in kinds]),
    )
    return concat([_solved(runs, seeds), found])


def simulated_probes(run: ParityRun, values: Mapping[str, Float[np.ndarray, "seed"]]) -> pd.DataFrame:
    """Solved models, each probed for its second parity: `post`, `mid` and `earlier` are the probe's accuracies.

    `control` and `untrained` are those of the baselines at the parity's own step, after the MLP.
    """
    seeds, home = len(values["post"]), run.n + 1
    lines = [
        *(("probe_accuracy", name, home, name) for name in ("post", "mid")),
        ("probe_accuracy", "post", home - 1, "earlier"),
        *((f"probe_{name}", "post", home, name) for name in ("control", "untrained")),
        *((f"probe_{name}", "post", home, "chance") for name in ("shuffled", "bits")),
    ]
    known = {**values, "chance": np.full(seeds, 0.5)}
    place = run.labels["setting"]
    found = table(
        **_places([run], seeds, len(lines)),
        setting=np.repeat([f"{place} hook=hook_resid_{hook} pos={pos} state=1" for _, hook, pos, _ in lines], seeds),
        metric=np.repeat([metric for metric, _, _, _ in lines], seeds),
        value=np.concatenate([known[name] for _, _, _, name in lines]),
    )
    return concat([_solved([run], seeds), found])


def _solved(runs: Sequence[ParityRun], seeds: int) -> pd.DataFrame:
    shape = (len(runs), seeds)
    return simulated_outcomes(runs, np.full(shape, 5e4), np.ones(shape))


def _places(runs: Sequence[ParityRun], seeds: int, times: int) -> dict[str, list[str]]:
    """Columns for every run and seed, repeated; runs are named as in `simulated_outcomes`."""
    names = [f"{run.labels['run']} {seed}" for run in runs for seed in range(seeds)]
    units = [str(seed) for _ in runs for seed in range(seeds)]
    return {"run": names * times, "unit": units * times, "condition": ["cot"] * (len(names) * times)}
