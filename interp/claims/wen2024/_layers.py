"""What does each layer of a model that has learned the task attend to at the steps of its chain?"""

from dataclasses import dataclass

import pandas as pd

from interp.claims.wen2024._runs import outcomes
from interp.core.parts import NotMeasurable

SOLVED = 0.99
"""Test accuracy at which a model has learned the task."""
HIT = 0.5
"""A head attends to a secret index if its largest weight is there on more than this share of the inputs."""


@dataclass(frozen=True)
class Layers:
    """What each layer does, by seed of the solved models; columns are layers."""

    covered: pd.DataFrame
    """The share of steps at which some head's largest weight is on S[i]."""
    sparsest: pd.DataFrame
    """Normalised entropy at the steps, of the sparsest head of each step, mean over steps."""
    entropy: pd.DataFrame
    """Normalised entropy at the steps, mean over steps and heads."""
    minimum: pd.DataFrame
    """The paper's entropy (eq. 1), a minimum over all positions, mean over heads."""
    n_models: int

    def values(self, measure: str, layer: int) -> pd.Series:
        """A measure of one layer, by seed."""
        found = getattr(self, measure)
        return found[layer] if layer in found else pd.Series(dtype=float)

    @property
    def none_solved(self) -> NotMeasurable:
        """Why there is nothing to judge."""
        return NotMeasurable(f"{len(self.entropy)} of {self.n_models} models reach {SOLVED:.0%} test accuracy")


def layers(rows: pd.DataFrame) -> Layers:
    """The attention of the models that have learned the task."""
    runs = outcomes(rows)
    of = rows[rows["run"].isin(runs.loc[runs["test_accuracy"] >= SOLVED, "run"])]
    hits, entropies = (of[of["metric"] == metric] for metric in ("top1_hit", "row_entropy"))
    step = ["unit", "layer", "query"]
    last = of[(of["metric"] == "entropy_min") & (of["samples"] == of["samples"].max())]
    return Layers(
        covered=_by_layer(hits.groupby(step)["value"].max() > HIT),
        sparsest=_by_layer(entropies.groupby(step)["value"].min()),
        entropy=_by_layer(entropies.groupby(step)["value"].mean()),
        minimum=_by_layer(last.groupby(["unit", "layer"])["value"].mean()),
        n_models=len(runs),
    )


def _by_layer(values: pd.Series) -> pd.DataFrame:
    """The mean over what else is in the index, by seed and layer."""
    return values.groupby(["unit", "layer"]).mean().unstack("layer")
