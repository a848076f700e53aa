"""How do the probes of one model become rows? Values from `probes`, intervals and corrections from `interp`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from interp.statistics import bootstrap_mean, sign_flip_max_t
from probes.attention.meter import AttentionProbe
from probes.rows import concat, table
from toy_models.engine.chance import StepAccuracy
from toy_models.engine.probing import StateProbe, StepKnockouts

LINEAR = ("accuracy", "low", "high", "control", "untrained", "shuffled", "bits", "untrained_bits")
ATTENTION = ("dependency_mass", "top1_hit", "row_entropy", "sink_mass", "most_mass")
ROUNDING = 64
"""Units in the last place by which two runs of the same model may differ."""
KNOCKOUTS = ("at_step", "everywhere", "random")


def accuracy_rows(found: StepAccuracy, labels: Mapping[str, Any]) -> pd.DataFrame:
    """The accuracy of every step (setting `step`) on the test inputs, and that of the best constant guess."""
    settings = [_joined(labels, step=step) for step in range(len(found.accuracy))]
    place = {**labels, "scope": "test", "setting": settings, "n_tokens": found.n_inputs}
    values = {"accuracy_at_step": found.accuracy, "chance": found.chance, "above_chance": map(float, found.above)}
    return concat(table(metric=metric, value=list(column), **place) for metric, column in values.items())


def attention_rows(probe: AttentionProbe, steps: Sequence[int], labels: Mapping[str, Any]) -> pd.DataFrame:
    """Every measure of every head at every step (column `query`)."""
    tables = []
    for metric in ATTENTION:
        for layer, by_head in enumerate(getattr(probe, metric).tolist()):
            for head, values in enumerate(by_head):
                place = {**labels, "layer": layer, "head": head, "query": steps, "n_tokens": probe.n_inputs}
                if not np.isnan(values).any():  # a layer with fewer heads
                    tables.append(table(metric=metric, value=values, **place))
    return concat(tables)


def metric_rows(
    found: Mapping[str, Float[Tensor, "layer head"]], n_tokens: int, labels: Mapping[str, Any]
) -> pd.DataFrame:
    """Metrics of `probes.attention.statistics`, named and scoped as those of a pretrained model: the same contrasts
    and the same explorer read both."""
    tables = []
    for metric, values in found.items():
        layer, head = np.indices(tuple(values.shape)).reshape(2, -1)
        value = values.double().cpu().numpy().reshape(-1)
        kept = ~np.isnan(value)
        place = {**labels, "layer": layer[kept], "head": head[kept], "scope": "all", "n_tokens": n_tokens}
        tables.append(table(metric=metric, value=value[kept], **place))
    return concat(tables)


def state_rows(found: Sequence[StateProbe], labels: Mapping[str, Any]) -> pd.DataFrame:
    """Every linear probe (settings `hook`, `pos`, `state`) with its interval and baselines, metrics `probe_...`."""
    settings = [_joined(labels, hook=one.hook.split(".")[-1], pos=one.position, state=one.state) for one in found]
    layers = [int(one.hook.split(".")[1]) for one in found]
    tests = [one.probe.n_groups for one in found]
    return concat(
        table(
            metric=f"probe_{name}",
            value=[getattr(one.probe, name) for one in found],
            **{**labels, "setting": settings, "layer": layers, "n_tokens": tests},
        )
        for name in LINEAR
    )


def knockout_rows(found: StepKnockouts, labels: Mapping[str, Any]) -> pd.DataFrame:
    """Accuracy of every step (setting `step`) with step `hidden`'s keys knocked out; scope `clean`: no knockout."""
    tables = []
    for scope in ("clean", *KNOCKOUTS):
        margins = getattr(found, scope)
        right = (margins[None] if margins.ndim == 2 else margins).gt(0).double().mean(1)  # [hidden step]
        for hidden, values in enumerate(right.tolist()):
            settings = [_joined(labels, hidden=hidden, step=step) for step in range(len(values))]
            place = {**labels, "scope": scope, "setting": settings, "n_tokens": margins.shape[-2]}
            tables.append(table(metric="step_accuracy", value=values, **place))
    return concat(tables)


def effect_rows(
    clean: Float[Tensor, "batch step"],
    edited: Float[Tensor, "head batch step"],
    places: Sequence[tuple[int, int]],
    edit: str,
    labels: Mapping[str, Any],
    seed: int,
) -> pd.DataFrame:
    """What an edit of each head costs each step: the fall of the answer's margin, in logits.

    Mean with a 95% bootstrap interval over inputs (`effect`, `effect_low`, `effect_high`), and the p-value of no
    effect, adjusted over all heads and steps by max-T (`effect_p`). A test of signs knows no size: an effect of
    1e-6 logits that is always to one side has the smallest p, so differences of rounding count as none (`resolved`).
    """
    falls = resolved(clean[None], edited).double().cpu().numpy()  # [head batch step]
    n_heads, n_inputs, n_steps = falls.shape
    adjusted = sign_flip_max_t(falls.transpose(1, 0, 2).reshape(n_inputs, -1), rng=seed, n_flips=1999).p_adjusted
    tables = []
    for index, (layer, head) in enumerate(places):
        means = [bootstrap_mean(falls[index, :, step], rng=seed, n_resamples=1999) for step in range(n_steps)]
        values = {
            "effect": [mean.value for mean in means],
            "effect_low": [mean.low for mean in means],
            "effect_high": [mean.high for mean in means],
            "effect_p": adjusted.reshape(n_heads, n_steps)[index].tolist(),
        }
        settings = [_joined(labels, step=step) for step in range(n_steps)]
        place = {**labels, "scope": edit, "layer": layer, "head": head, "setting": settings, "n_tokens": n_inputs}
        tables += [table(metric=metric, value=column, **place) for metric, column in values.items()]
    return concat(tables)


def resolved(
    clean: Float[Tensor, "#head batch step"], edited: Float[Tensor, "head batch step"]
) -> Float[Tensor, "head batch step"]:
    """clean - edited, zero where the two differ by no more than rounding makes them: 64 units in the last place."""
    fall = clean - edited
    unit = torch.finfo(fall.dtype).eps * torch.maximum(clean.abs(), edited.abs()).clamp(min=1.0)
    return fall.where(fall.abs() > ROUNDING * unit, 0.0)


def _joined(labels: Mapping[str, Any], **more: Any) -> str:
    return " ".join([labels.get("setting", ""), *(f"{name}={value}" for name, value in more.items())]).strip()
