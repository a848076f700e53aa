"""What do the rows of kim2024/no-supervision say? Seeds that learn, the gradient's signal, and the declared parts."""

from dataclasses import dataclass
from functools import partial
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._parts import HIGH_PROBABILITY, MOST, WHY_HIGH_PROBABILITY
from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

if TYPE_CHECKING:
    from interp.claims.kim2024.no_supervision import NoSupervision

REGIMES = ("direct", "end_to_end", "teacher_forcing", "filter")
LEARNED, NOT_LEARNED = 0.05, 0.4
"""Losses of the root: below the first the task is learned, above the second it is not (0.5 for the answer 0)."""


@dataclass(frozen=True)
class Summary:
    """What the parts read."""

    losses: pd.DataFrame
    """The root's loss after training, by seed and regime."""
    accuracy: pd.DataFrame
    """Its accuracy, likewise."""
    signals: pd.DataFrame
    """`signals` at the largest k."""


def signals(rows: pd.DataFrame) -> pd.DataFrame:
    """Signal-to-noise ratios with d, k and 1 / sqrt(number of candidate secrets), which bounds them on average."""
    found = with_settings(rows[rows["metric"] == "signal_to_noise"])
    return found.assign(bound=[comb(d, k) ** -0.5 for d, k in zip(found["d"], found["k"])])


def summary(rows: pd.DataFrame) -> Summary:
    """The end of training, and the gradient at the largest k."""
    end = rows[rows["samples"] == rows.loc[rows["metric"] == "loss", "samples"].max()]
    by_metric = {metric: end[end["metric"] == metric] for metric in ("loss", "accuracy")}
    losses, accuracy = (
        found.pivot(index="unit", columns="condition", values="value") for found in by_metric.values()
    )
    found = signals(rows)
    return Summary(losses, accuracy, found[found["k"] == found["k"].max()])


def parts(preset: "NoSupervision") -> list[Part]:
    """By regime: how many seeds learn. And how much signal the gradient has at the largest k."""
    return [
        _regime(
            "direct", "root only: not learned", "Theorem 2 and its remark: 'with high probability'; abstract (1)"
        ),
        _regime("teacher_forcing", "teacher forcing: learned", "section 3.2, Theorem 5; abstract (2)"),
        _regime("filter", "own chain with filter: learned", "section 3.3, Theorem 7; abstract (3)"),
        _signal_part(preset),
        _separation_part(),
        _own_chain_part(),
        _forced_signal_part(preset),
    ]


def _regime(regime: str, name: str, source: str) -> Part:
    """A primary part: nearly every seed learns, or nearly none."""
    learns = regime != "direct"
    bound = f"below {LEARNED:g}" if learns else f"above {NOT_LEARNED:g}"
    return Part(
        key=regime,
        name=f"{name}, with high probability",
        role="paper",
        source=source,
        primary=True,
        quantity=f"share of seeds whose root has a loss {bound} after training (0 if solved, 0.5 for the answer 0)",
        estimate=partial(share_learned if learns else share_not_learned, regime=regime),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why=WHY_HIGH_PROBABILITY,
        unit="seeds",
        note=partial(_reached, regime=regime),
    )


def _signal_part(preset: "NoSupervision") -> Part:
    return Part(
        key="signal",
        name="root only, through the own chain: the gradient's signal is below its bound",
        role="paper",
        source="Proposition 3: the gradient's variance over secrets is at most F^2 / |H|; section 3.1",
        primary=True,
        quantity=f"log10 of signal-to-noise over 1 / sqrt(number of secrets) at d={preset.signal_d}, "
        f"k={max(preset.signal_ks)}, mean over seeds",
        estimate=partial(log_signal, loss="end_to_end"),
        direction="below",
        threshold=0.0,
        why="the bound itself: it holds of the quadratic mean over secrets, hence of the geometric mean",
        unit="seeds",
        note=partial(_median_signal, loss="end_to_end"),
    )


def _separation_part() -> Part:
    return Part(
        key="separation",
        name="teacher forcing learns what the root alone does not",
        role="paper",
        source="section 3.2: 'a strict separation'",
        quantity="share of seeds that have learned with teacher forcing and not learned from the root alone",
        estimate=share_separated,
        direction="above",
        threshold=MOST,
        why="the least that a separation can mean: it is there for most secrets, with the same samples and step size",
        unit="seeds",
    )


def _own_chain_part() -> Part:
    return Part(
        key="own_chain",
        name="own chain without filter: not learned at this size",
        role="ours",
        quantity=f"share of seeds whose root has a loss above {NOT_LEARNED:g} after training",
        estimate=partial(share_not_learned, regime="end_to_end"),
        direction="above",
        threshold=MOST,
        why="the paper does not say that it fails; more often than not is the least that failing can mean",
        unit="seeds",
        note=partial(_reached, regime="end_to_end"),
    )


def _forced_signal_part(preset: "NoSupervision") -> Part:
    return Part(
        key="forced_signal",
        name="teacher forcing: the gradient's signal is above that bound",
        role="control",
        quantity=f"log10 of signal-to-noise over 1 / sqrt(number of secrets) at d={preset.signal_d}, "
        f"k={max(preset.signal_ks)}, mean over seeds",
        estimate=partial(log_signal, loss="teacher_forcing"),
        direction="above",
        threshold=0.0,
        why="the bound of the root alone: told every node, a gradient must be able to exceed it",
        unit="seeds",
        note=partial(_median_signal, loss="teacher_forcing"),
    )


def share_learned(summary: Summary, level: float, *, regime: str) -> Interval | NotMeasurable:
    """The share of seeds that have learned the parity."""
    return share_of(summary.losses[regime] < LEARNED, level)


def share_not_learned(summary: Summary, level: float, *, regime: str) -> Interval | NotMeasurable:
    """The share of seeds that have learned nothing."""
    return share_of(summary.losses[regime] > NOT_LEARNED, level)


def share_separated(summary: Summary, level: float) -> Interval | NotMeasurable:
    """The share of seeds that have learned with teacher forcing, and nothing from the root alone."""
    losses = summary.losses
    return share_of((losses["teacher_forcing"] < LEARNED) & (losses["direct"] > NOT_LEARNED), level)


def log_signal(summary: Summary, level: float, *, loss: str) -> Interval | NotMeasurable:
    """log10 of the signal-to-noise ratio over its bound, mean over seeds."""
    found = summary.signals[summary.signals["condition"] == loss]
    if (found["value"] <= 0).any():
        return NotMeasurable("a gradient has no signal at all, hence no logarithm")
    return mean_over(np.log10(found["value"] / found["bound"]), level)


def _reached(summary: Summary, regime: str) -> str:
    losses, accuracy = summary.losses[regime], summary.accuracy[regime]
    return (
        f"mean loss of the root {losses.mean():.2g} ({losses.min():.2g} to {losses.max():.2g}), accuracy "
        f"{accuracy.min():.3f} to {accuracy.max():.3f}"
    )


def _median_signal(summary: Summary, loss: str) -> str:
    found = summary.signals[summary.signals["condition"] == loss]
    return f"median signal-to-noise ratio {found['value'].median():.2g}, bound {found['bound'].iloc[0]:.2g}"


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """Loss curves, accuracy at the end, and signals."""
    last = rows["samples"] == rows.loc[rows["metric"] == "loss", "samples"].max()
    return rows[rows["metric"].isin(["loss", "signal_to_noise"]) | ((rows["metric"] == "accuracy") & last)]
