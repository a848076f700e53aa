"""What do the rows of kim2024/no-supervision say? Seeds that learn, the gradient's signal, and the declared parts."""

from dataclasses import dataclass
from functools import partial
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._parts import HIGH_PROBABILITY, MOST, WHY_HIGH_PROBABILITY, least_share
from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

if TYPE_CHECKING:
    from interp.claims.kim2024.no_supervision import NoSupervision

ROOT_ONLY = {"direct": "theory model", "perceptron": "perceptron", "transformer": "transformer"}
"""Conditions that are told the root alone, with the model that each trains."""
FEW = 2
"""Secret bits that the root alone must be able to teach: what no model learned would say nothing about parity."""
LEARNED, NOT_LEARNED = 0.05, 0.4
"""Losses of the root: below the first the task is learned, above the second it is not (0.5 for the answer 0)."""


@dataclass(frozen=True)
class Summary:
    """What the parts read."""

    best: pd.DataFrame
    """By condition (regime or model), d, k and seed: the `least` loss of the root after training over the step sizes
    tried, and the `accuracy` there."""
    signals: pd.DataFrame
    """`signals` at the largest k."""


def signals(rows: pd.DataFrame) -> pd.DataFrame:
    """Signal-to-noise ratios with d, k and 1 / sqrt(number of candidate secrets), which bounds them on average."""
    found = with_settings(rows[rows["metric"] == "signal_to_noise"])
    return found.assign(bound=[comb(d, k) ** -0.5 for d, k in zip(found["d"], found["k"])])


def trained(rows: pd.DataFrame) -> pd.DataFrame:
    """Loss and accuracy of the root after training, by condition, size, step size and seed."""
    found = with_settings(rows[rows["metric"].isin(["loss", "accuracy"])])
    index = ["condition", "d", "k", "eta", "unit"]
    last = found["samples"] == found.groupby("run")["samples"].transform("max")
    return found[last].pivot(index=index, columns="metric", values="value").reset_index()


def summary(rows: pd.DataFrame) -> Summary:
    """The best step size of every seed, and the gradient at the largest k."""
    index = ["condition", "d", "k", "unit"]
    found = trained(rows).sort_values("loss", kind="stable").groupby(index, as_index=False).first()
    measured = signals(rows)
    return Summary(found.rename(columns={"loss": "least"}), measured[measured["k"] == measured["k"].max()])


def parts(preset: "NoSupervision") -> list[Part]:
    """The root alone teaches no model, every node does; where the own chain is learned; and the gradient's signal."""
    d, k = preset.d, preset.k
    return [
        Part(
            key="direct",
            name=f"root only: not learned by any of three models at any step size tried (d={d}, k={k})",
            role="paper",
            source="Theorem 2 and its remark: 'with high probability'; abstract (1)",
            primary=True,
            quantity=f"share of seeds whose root has a loss above {NOT_LEARNED:g} after training at every step size "
            "(0 if solved, 0.5 for the answer 0), least over models",
            estimate=partial(share_untaught, d=d, k=k),
            direction="above",
            threshold=HIGH_PROBABILITY,
            why=WHY_HIGH_PROBABILITY,
            unit="seeds",
            note=partial(_untaught_note, d=d, k=k),
        ),
        _few_part(d),
        _learned_part("teacher_forcing", "teacher forcing", d, "section 3.2, Theorem 5; abstract (2)"),
        _learned_part("filter", "own chain with filter", d, "section 3.3, Theorem 7; abstract (3)"),
        _separation_part(d, k),
        *(
            _chain_part(run.d, run.k, learned=run.d < preset.needs_filter)
            for run in preset.runs
            if run.regime == "end_to_end"
        ),
        *_signal_parts(preset),
    ]


def _learned_part(regime: str, words: str, d: int, source: str) -> Part:
    return Part(
        key=regime,
        name=f"{words}: learned, with high probability",
        role="paper",
        source=source,
        primary=True,
        quantity=f"share of seeds whose root has a loss below {LEARNED:g} after training, at d={d}",
        estimate=partial(share_learned, regime=regime, d=d),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why=WHY_HIGH_PROBABILITY,
        unit="seeds",
        note=partial(_reached, regime=regime, d=d),
    )


def _few_part(d: int) -> Part:
    return Part(
        key="few",
        name=f"root only: every model learns a parity of {FEW} bits, with the same samples and step sizes (d={d})",
        role="control",
        quantity=f"share of seeds whose root has a loss below {LEARNED:g} after training at some step size, at "
        f"k={FEW}, least over models",
        estimate=partial(share_few, d=d),
        direction="above",
        threshold=MOST,
        why="a model that cannot learn from the root at all would fail for another reason; more often than not",
        unit="seeds",
        note=partial(_untaught_note, d=d, k=FEW),
    )


def _separation_part(d: int, k: int) -> Part:
    return Part(
        key="separation",
        name="teacher forcing learns what the root alone does not, at its best step size",
        role="paper",
        source="section 3.2: 'a strict separation'",
        quantity="share of seeds of the theory model that have learned with teacher forcing at one step size and not "
        "from the root alone at any",
        estimate=partial(share_separated, d=d, k=k),
        direction="above",
        threshold=MOST,
        why="the least that a separation can mean: it is there for most secrets, with as many samples",
        unit="seeds",
    )


def _chain_part(d: int, k: int, learned: bool) -> Part:
    return Part(
        key=f"own_chain_d{d}",
        name=f"own chain without filter: {'learned' if learned else 'not learned'} (d={d}, k={k})",
        role="ours",
        quantity=f"share of seeds whose root has a loss {'below' if learned else 'above'} "
        f"{LEARNED if learned else NOT_LEARNED:g} after training at {'some' if learned else 'every'} step size",
        estimate=partial(share_learned if learned else share_not_learned, regime="end_to_end", d=d),
        direction="above",
        threshold=MOST,
        why="ours: the paper does not say whether the own chain is learned without a filter; more often than not",
        unit="seeds",
        note=partial(_reached, regime="end_to_end", d=d),
    )


def _signal_parts(preset: "NoSupervision") -> list[Part]:
    quantity = (
        f"log10 of signal-to-noise over 1 / sqrt(number of secrets) at d={preset.signal_d}, "
        f"k={max(preset.signal_ks)}, mean over seeds"
    )
    return [
        Part(
            key="signal",
            name="root only, through the own chain: the gradient's signal is below its bound",
            role="paper",
            source="Proposition 3: the gradient's variance over secrets is at most F^2 / |H|; section 3.1",
            quantity=quantity,
            estimate=partial(log_signal, loss="end_to_end"),
            direction="below",
            threshold=0.0,
            why="the bound itself: it holds of the quadratic mean over secrets, hence of the geometric mean",
            unit="seeds",
            note=partial(_median_signal, loss="end_to_end"),
        ),
        Part(
            key="forced_signal",
            name="teacher forcing: the gradient's signal is above that bound",
            role="control",
            quantity=quantity,
            estimate=partial(log_signal, loss="teacher_forcing"),
            direction="above",
            threshold=0.0,
            why="the bound of the root alone: told every node, a gradient must be able to exceed it",
            unit="seeds",
            note=partial(_median_signal, loss="teacher_forcing"),
        ),
    ]


def _of(summary: Summary, condition: str, d: int) -> pd.DataFrame:
    best = summary.best
    return best[(best["condition"] == condition) & (best["d"] == d)]


def _root_only(summary: Summary, d: int, k: int) -> pd.DataFrame:
    best = summary.best
    return best[best["condition"].isin(ROOT_ONLY) & (best["d"] == d) & (best["k"] == k)]


def share_untaught(summary: Summary, level: float, *, d: int, k: int) -> Interval | NotMeasurable:
    """The share of seeds that the root alone teaches nothing at any step size, at the model where it is smallest."""
    runs = _root_only(summary, d, k)
    return least_share(runs["least"] > NOT_LEARNED, runs.groupby("condition").ngroup(), level)


def share_few(summary: Summary, level: float, *, d: int) -> Interval | NotMeasurable:
    """The share of seeds that learn a parity of two bits from the root alone, at the model where it is smallest."""
    runs = _root_only(summary, d, FEW)
    return least_share(runs["least"] < LEARNED, runs.groupby("condition").ngroup(), level)


def share_learned(summary: Summary, level: float, *, regime: str, d: int) -> Interval | NotMeasurable:
    """The share of seeds that have learned the parity at some step size."""
    return share_of(_of(summary, regime, d)["least"] < LEARNED, level)


def share_not_learned(summary: Summary, level: float, *, regime: str, d: int) -> Interval | NotMeasurable:
    """The share of seeds that have learned nothing at any step size."""
    return share_of(_of(summary, regime, d)["least"] > NOT_LEARNED, level)


def share_separated(summary: Summary, level: float, *, d: int, k: int) -> Interval | NotMeasurable:
    """The share of seeds that have learned with teacher forcing, and nothing from the root alone at any step size."""
    forced = _of(summary, "teacher_forcing", d).set_index("unit")["least"]
    told = _root_only(summary, d, k)
    alone = told[told["condition"] == "direct"].set_index("unit")["least"]
    return share_of((forced < LEARNED) & (alone.reindex(forced.index) > NOT_LEARNED), level)


def log_signal(summary: Summary, level: float, *, loss: str) -> Interval | NotMeasurable:
    """log10 of the signal-to-noise ratio over its bound, mean over seeds."""
    found = summary.signals[summary.signals["condition"] == loss]
    if (found["value"] <= 0).any():
        return NotMeasurable("a gradient has no signal at all, hence no logarithm")
    return mean_over(np.log10(found["value"] / found["bound"]), level)


def _reached(summary: Summary, regime: str, d: int) -> str:
    found = _of(summary, regime, d)
    steps = ", ".join(f"{eta:g}" for eta in sorted(found["eta"].unique()))
    return (
        f"mean loss of the root {found['least'].mean():.2g} ({found['least'].min():.2g} to "
        f"{found['least'].max():.2g}), accuracy {found['accuracy'].min():.3f} to {found['accuracy'].max():.3f}; best "
        f"step sizes {steps}"
    )


def _untaught_note(summary: Summary, d: int, k: int) -> str:
    return "; ".join(
        f"{ROOT_ONLY[condition]}: loss {found['least'].min():.3f} to {found['least'].max():.3f} in {len(found)} "
        f"seeds, accuracy at most {found['accuracy'].max():.3f}"
        for condition, found in _root_only(summary, d, k).groupby("condition")
    )


def _median_signal(summary: Summary, loss: str) -> str:
    found = summary.signals[summary.signals["condition"] == loss]
    return f"median signal-to-noise ratio {found['value'].median():.2g}, bound {found['bound'].iloc[0]:.2g}"


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """Loss curves, accuracy at the end, and signals."""
    last = rows["samples"] == rows.groupby("run")["samples"].transform("max")
    return rows[rows["metric"].isin(["loss", "signal_to_noise"]) | ((rows["metric"] == "accuracy") & last)]
