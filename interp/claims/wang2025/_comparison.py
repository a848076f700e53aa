"""Which help takes fewer sequences? The parts of wang2025/cot-vs-curriculum."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from interp.claims.wang2025._parts import AT_CHANCE, MOST
from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

EASIER = {"head_mixture": "a mixture of easier hops", "head_stagewise": "easier hops in stages"}
FEWER = 0.0
"""log10 of the factor by which chain of thought must save samples: any saving counts."""


def complexities(rows: pd.DataFrame) -> pd.DataFrame:
    """Sequences until the last hop is learned, by condition and seed; `censored` marks runs that never learned it."""
    found = with_settings(rows[rows["metric"].isin(["sample_complexity", "censored_at"])])
    return found.assign(censored=found["metric"] == "censored_at")


@dataclass(frozen=True)
class Compared:
    """What the parts read."""

    samples: pd.DataFrame
    """Sequences until the last hop is learned: a line for each seed, a column for each condition."""
    censored: pd.DataFrame
    """Whether the budget ended first, in the same order."""
    alone: pd.Series
    """Final accuracy of the decoder that is given nothing but the answer, by seed."""
    k: int
    n: int


def summary(rows: pd.DataFrame) -> Compared:
    """Sequences by seed and condition, and the accuracy of the decoder without help."""
    found = complexities(rows)
    accuracy = with_settings(rows[(rows["metric"] == "accuracy") & (rows["condition"] == "no_cot")])
    return Compared(
        samples=found.pivot(index="unit", columns="condition", values="value"),
        censored=found.pivot(index="unit", columns="condition", values="censored"),
        alone=accuracy.sort_values("samples").groupby("unit")["value"].last(),
        k=int(found["k"].iloc[0]),
        n=int(found["n"].iloc[0]),
    )


def parts(preset: Any) -> list[Part]:
    """The answer alone teaches nothing, as the paper's lower bound has it; the saving of chain of thought is ours."""
    alone = Part(
        key="alone",
        name="the answer alone teaches the decoder nothing",
        role="paper",
        source="Theorem 5 and Remark 6: from labels of the k-fold task alone, samples or time must be N^Omega(k)",
        primary=True,
        quantity=f"share of seeds with a test accuracy of the last hop below guessing plus {AT_CHANCE:g} at the end",
        estimate=share_at_chance,
        direction="above",
        threshold=MOST,
        why="a failure of every learner is claimed, so more than half of the runs is the least that it can mean",
        unit="seeds",
        note=_accuracies,
    )
    return [alone, *(_saving(condition, name) for condition, name in EASIER.items())]


def _saving(condition: str, name: str) -> Part:
    return Part(
        key=f"saves_{condition.removeprefix('head_')}",
        name=f"chain of thought takes fewer sequences than {name}",
        role="ours",
        quantity="log10 of sequences with easier hops / with chain of thought, mean over seeds",
        estimate=partial(log_saving, condition=condition),
        direction="above",
        threshold=FEWER,
        why="ours: any saving counts",
        unit="seeds",
        note=partial(_sequences, condition=condition),
    )


def share_at_chance(found: Compared, level: float) -> Interval | NotMeasurable:
    """The share of seeds in which the decoder learned nothing from answers alone."""
    return share_of(found.alone < 1 / found.n + AT_CHANCE, level)


def log_saving(found: Compared, level: float, *, condition: str) -> Interval | NotMeasurable:
    """How many times fewer sequences chain of thought takes, paired by seed; open where a budget ended first."""
    cut, cot_cut = found.censored[condition].any(), found.censored["cot"].any()
    ratio = np.log10(found.samples[condition] / found.samples["cot"])
    return mean_over(ratio, level, open_above=bool(cut), open_below=bool(cot_cut))


def _accuracies(found: Compared) -> str:
    return f"accuracy between {found.alone.min():.2f} and {found.alone.max():.2f}; guessing has {1 / found.n:.2f}"


def _sequences(found: Compared, condition: str) -> str:
    labels = {"cot": found.k, condition: found.k * found.n * found.k.bit_length()}
    shown = [f"{c}: {found.samples[c].mean():.0f} sequences of at most {m} labels" for c, m in labels.items()]
    cut = " and ".join(str(found.censored[c].sum()) for c in labels)
    return f"{', '.join(shown)}; out of budget: {cut} of {len(found.samples)} seeds"
