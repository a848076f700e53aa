"""Do the inequalities of li2024's Lemmas F.5 and F.7 hold along the training? Gradients beside their bounds."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from interp.core.judging import share_of
from interp.core.parts import NotMeasurable
from interp.statistics import Interval
from probes.rows import with_settings

STAGE = 0.1
"""The attention on other steps that separates the stages of the two lemmas: Lemma F.6's epsilon."""
KINDS = ("same", "other_step", "other_pattern", "other_both")
NUMBERS = {"same": "30", "other_step": "31", "other_pattern": "32", "other_both": "33"}
"""The inequalities of Lemma F.5."""


@dataclass(frozen=True)
class Gradients:
    """By number of steps K: every quantity along the training."""

    values: Mapping[int, Mapping[str, Float[np.ndarray, "update seed"]]]

    def first(self, k: int) -> Bool[np.ndarray, "update seed"]:
        """Where the first stage is not over."""
        return self.values[k]["other_step_mass"] > STAGE


def summary(rows: pd.DataFrame) -> Gradients:
    """Gradients, bounds and masses by K."""
    wide = with_settings(rows).pivot(index=["k", "update"], columns=["metric", "unit"], values="value")
    metrics = wide.columns.get_level_values("metric").unique()
    return Gradients(
        {int(k): {str(m): of_k[m].to_numpy(float) for m in metrics} for k, of_k in wide.groupby(level="k")}
    )


def share_bounded(
    found: Gradients, level: float, *, kind: str, k: int, stage: str, bound: str = ""
) -> Interval | NotMeasurable:
    """The share of seeds in which a kind's inequality holds at every update of a stage (`first` or `second`)."""
    if k not in found.values:
        return NotMeasurable(f"no models with {k} steps in these rows")
    values, first = found.values[k], found.first(k)
    where = first if stage == "first" else ~first
    if not where.any(0).all():
        return NotMeasurable(f"the {stage} stage was not seen in every seed")
    holds = violations(values, kind, bound) <= 0
    return share_of((holds | ~where).all(0).tolist(), level)


def violations(
    values: Mapping[str, Float[np.ndarray, "update seed"]], kind: str, bound: str
) -> Float[np.ndarray, "update seed"]:
    """How far the gradient of a kind is outside its bounds, at most 0 if inside.

    `bound` names one upper bound; without it both ends of Lemma F.5 are meant. (38) bounds the size, (37) and (39) by
    epsilon, for which the attention on other steps stands.
    """
    gradient = values[f"gradient_{kind}"]
    if bound == "epsilon":
        return np.abs(gradient) - values["other_step_mass"]
    if bound == "f7_other_pattern":
        return np.abs(gradient) - values[bound]
    if bound or kind == "same":
        return gradient - values[bound or "f5_same"]
    return np.maximum(values[f"f5_{kind}_low"] - gradient, gradient - values[f"f5_{kind}_high"])


def worst_note(found: Gradients, kind: str, k: int, stage: str, bound: str = "") -> str:
    """The gradient over its bound at the last update of the stage, mean over seeds."""
    if k not in found.values or bound == "epsilon":
        return ""
    values, first = found.values[k], found.first(k).all(1)
    at = np.flatnonzero(first if stage == "first" else ~found.first(k).any(1))
    if not len(at):
        return ""
    name = bound or ("f5_same" if kind == "same" else f"f5_{kind}_high")
    ratio = (values[f"gradient_{kind}"] / values[name])[at].mean(1)
    return f"gradient over bound from {ratio[0]:.2f} to {ratio[-1]:.2f} along the stage"
