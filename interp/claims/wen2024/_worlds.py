"""What would the rows of parity runs look like, were the truth known? Simulated runs for the judges' error rates."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.wen2024._runs import ParityRun
from probes.rows import concat, table


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


def simulated_curves(
    runs: Sequence[ParityRun],
    steps: Sequence[Float[np.ndarray, "_"]],
    accuracy: Sequence[Float[np.ndarray, "seed _"]],
    entropy: Sequence[Float[np.ndarray, "seed _ _"]],
) -> pd.DataFrame:
    """Validation accuracy and each head's entropy, clipped to [0, 1], of every run and seed at the run's steps."""
    parts: dict[str, list[np.ndarray]] = {
        name: [] for name in ("run", "unit", "condition", "setting", "metric", "samples", "head", "layer", "value")
    }
    for run, at, right, heads in zip(runs, steps, accuracy, entropy):
        n_seeds, n_heads, n_points = heads.shape
        size = n_points * (n_heads + 1)
        metric = np.repeat(["accuracy"] + ["entropy_min"] * n_heads, n_points)
        head = np.repeat(np.arange(-1, n_heads), n_points)
        names = np.array([f"{run.labels['run']} {seed}" for seed in range(n_seeds)])
        parts["run"].append(np.repeat(names, size))
        parts["unit"].append(np.repeat(np.arange(n_seeds).astype(str), size))
        parts["condition"].append(np.full(n_seeds * size, run.labels["condition"]))
        parts["setting"].append(np.full(n_seeds * size, run.labels["setting"]))
        parts["metric"].append(np.tile(metric, n_seeds))
        parts["samples"].append(np.tile(at, n_seeds * (n_heads + 1)))
        parts["head"].append(np.tile(head, n_seeds))
        parts["layer"].append(np.tile(np.minimum(head, 0), n_seeds))
        parts["value"].append(np.concatenate([right[:, None], heads], axis=1).clip(0, 1).ravel())
    return table(**{name: np.concatenate(values) for name, values in parts.items()})


def simulated_measures(
    runs: Sequence[ParityRun], measures: Mapping[str, Float[np.ndarray, "run seed"]], **columns: int | str
) -> pd.DataFrame:
    """One row for each measure, run and seed; `columns` (layer, head, samples, ...) are the same in all."""
    n_seeds = next(iter(measures.values())).shape[1]
    labels = [run.labels for run in runs for _ in range(n_seeds)]
    times = len(measures)
    return table(
        run=[f"{label['run']} {seed % n_seeds}" for seed, label in enumerate(labels)] * times,
        unit=[str(seed % n_seeds) for seed in range(len(labels))] * times,
        condition=[label["condition"] for label in labels] * times,
        setting=[label["setting"] for label in labels] * times,
        metric=np.repeat(list(measures), len(labels)),
        value=np.concatenate([values.ravel() for values in measures.values()]),
        **columns,
    )


def simulated_layers(
    run: ParityRun, measures: Mapping[str, Float[np.ndarray, "seed layer head query"]]
) -> pd.DataFrame:
    """Measures of a run's attention, such as its hits, by seed, layer, head and step of the chain."""
    shape = next(iter(measures.values())).shape
    seed, layer, head, query = (index.ravel() for index in np.indices(shape))
    names = np.array([f"{run.labels['run']} {number}" for number in range(shape[0])])
    return concat(
        table(
            run=names[seed],
            unit=seed.astype(str),
            condition=run.labels["condition"],
            setting=run.labels["setting"],
            layer=layer,
            head=head,
            query=query,
            metric=metric,
            value=values.ravel(),
        )
        for metric, values in measures.items()
    )
