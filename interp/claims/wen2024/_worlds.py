"""What would the rows of parity runs look like, were the truth known? Simulated runs for the judges' error rates."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.wen2024._runs import ParityRun
from probes.rows import table


def simulated_outcomes(
    runs: Sequence[ParityRun], samples: Float[np.ndarray, "run seed"], accuracy: Float[np.ndarray, "run seed"]
) -> pd.DataFrame:
    """Outcome rows of every run and seed: samples to solution, cut at the run's budget, and test accuracy."""
    n_seeds = samples.shape[1]
    budgets = np.array([[run.budget] for run in runs], dtype=float)
    metric = np.where(samples >= budgets, "censored_at", "sample_complexity").ravel()
    names = [f"{run.labels['run']} {seed}" for run in runs for seed in range(n_seeds)]
    return table(
        run=names * 2,
        unit=[str(seed) for seed in range(n_seeds)] * (2 * len(runs)),
        condition=np.tile(np.repeat([run.labels["condition"] for run in runs], n_seeds), 2),
        setting=np.tile(np.repeat([run.labels["setting"] for run in runs], n_seeds), 2),
        metric=np.concatenate([metric, np.full(metric.size, "test_accuracy")]),
        value=np.concatenate([np.minimum(samples, budgets).ravel(), accuracy.ravel()]),
    )
