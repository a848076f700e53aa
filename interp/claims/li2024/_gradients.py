"""Do the inequalities of li2024's Lemmas F.5 and F.7 hold along the training? Gradients beside their bounds.

Lemma F.5 is about updates up to the order of T_1 = eta^-1 alpha^-2 K^3 log(K / epsilon), Lemma F.7 about those from
T_1 on. The constant of the order is not given: stages are split at T_1 with a constant of 1, and, as a reading of
ours, where the attention on other steps falls below EPSILON, which is what T_1 stands for in Lemma F.6.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from interp.core.judging import share_of
from interp.core.parts import NotMeasurable
from interp.statistics import Interval
from probes.rows import with_settings

EPSILON = 0.1
"""Lemma F.6's: the attention on other steps that is left at T_1."""
KINDS = ("same", "other_step", "other_pattern", "other_both")
NUMBERS = {"same": "30", "other_step": "31", "other_pattern": "32", "other_both": "33"}
"""The inequalities of Lemma F.5."""


def first_time(k: int, eta: float, alpha: float) -> float:
    """T_1 of (34) with a constant of 1, in updates."""
    return k**3 * math.log(k / EPSILON) / (eta * alpha**2)


@dataclass(frozen=True)
class Gradients:
    """By number of steps K: every quantity along the training."""

    values: Mapping[int, Mapping[str, Float[np.ndarray, "update seed"]]]
    updates: Mapping[int, Float[np.ndarray, "update"]]
    ends: Mapping[int, float]
    """T_1, in updates."""

    def within(self, k: int, stage: str, split: str) -> Bool[np.ndarray, "update seed"]:
        """The updates of a stage (`first` or `second`), split by `time`, at T_1, or by `attention`."""
        mass, time = self.values[k]["other_step_mass"], self.updates[k][:, None]
        if split == "attention":
            return mass > EPSILON if stage == "first" else mass <= EPSILON
        chosen = time <= self.ends[k] if stage == "first" else time >= self.ends[k]
        return np.broadcast_to(chosen, mass.shape)


def summary(rows: pd.DataFrame) -> Gradients:
    """Gradients, bounds and masses by K."""
    found = with_settings(rows)
    wide = found.pivot(index=["k", "update"], columns=["metric", "unit"], values="value").sort_index(axis=1)
    metrics = wide.columns.get_level_values("metric").unique()
    by_k = {int(k): of_k for k, of_k in wide.groupby(level="k")}
    return Gradients(
        {k: {str(m): of_k[m].to_numpy(float) for m in metrics} for k, of_k in by_k.items()},
        {k: of_k.index.get_level_values("update").to_numpy(float) for k, of_k in by_k.items()},
        {k: float(found[found["k"] == k]["t1"].iloc[0]) for k in by_k},
    )


def share_bounded(
    found: Gradients, level: float, *, kind: str, k: int, stage: str, split: str, bound: str = ""
) -> Interval | NotMeasurable:
    """The share of seeds in which a kind's inequality holds at every update of a stage (`first` or `second`)."""
    if k not in found.values:
        return NotMeasurable(f"no models with {k} steps in these rows")
    where = found.within(k, stage, split)
    if not where.any(0).all():
        return NotMeasurable(f"the {stage} stage was not seen in every seed")
    holds = violations(found.values[k], kind, bound) <= 0
    return share_of((holds | ~where).all(0).tolist(), level)


def violations(
    values: Mapping[str, Float[np.ndarray, "update seed"]], kind: str, bound: str
) -> Float[np.ndarray, "update seed"]:
    """How far the gradient of a kind is outside its bounds, at most 0 if inside.

    `bound` names one upper bound; without it both ends of Lemma F.5 are meant. (38) bounds the size.
    """
    gradient = values[f"gradient_{kind}"]
    if bound == "f7_other_pattern":
        return np.abs(gradient) - values[bound]
    if bound or kind == "same":
        return gradient - values[bound or "f5_same"]
    return np.maximum(values[f"f5_{kind}_low"] - gradient, gradient - values[f"f5_{kind}_high"])


def worst_note(found: Gradients, kind: str, k: int, stage: str, split: str, bound: str = "") -> str:
    """Between which updates the inequality fails in some seed, in the whole training and in the stage."""
    if k not in found.values:
        return ""
    fails = violations(found.values[k], kind, bound) > 0
    of_stage = fails & found.within(k, stage, split)
    texts = [_span(found.updates[k], which) for which in (fails, of_stage)]
    return f"fails {texts[0]} in the whole training, {texts[1]} in this stage; T_1 = {found.ends[k]:.0f}"


def _span(updates: Float[np.ndarray, "update"], fails: Bool[np.ndarray, "update seed"]) -> str:
    at = updates[np.unique(np.nonzero(fails)[0])]
    return f"at {len(at)} of {len(updates)} updates from {at[0]:.0f} to {at[-1]:.0f}" if len(at) else "nowhere"
