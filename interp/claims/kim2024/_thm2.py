"""What do the rows of kim2024/thm2 say? Variances over secrets beside their bounds, and the declared parts."""

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._parts import HIGH_PROBABILITY, MOST, least_share
from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

if TYPE_CHECKING:
    from interp.claims.kim2024.thm2 import Thm2

REVEALED = 0.1
"""The share of secrets that a union bound over the queries lets the oracle reveal, where epsilon is set by it."""
ORACLES = {
    "sure": lambda variance, queries: math.sqrt(queries * variance / REVEALED) if variance else 1.0,
    "third": lambda variance, queries: variance ** (1 / 3) if variance else 1.0,
}
"""Epsilon from the bound on the variance and the number of queries: by the union bound, or as the proof has it."""
ROUNDING = 1 + 1e-9
"""A bound that is reached exactly may be exceeded by rounding."""
SOLVED = 0.5
"""A squared error below this is far from the theorem's 1."""
WHY_ALL = (
    "the inequality is a theorem (on samples: but for a probability below (2/e)^(2d)); nine seeds in ten is a lower "
    "bar, and the least that a statement about all weights can mean"
)


@dataclass(frozen=True)
class Summary:
    """What the parts read."""

    held: pd.DataFrame
    """By model, d and seed of the judged sizes: whether `population`, `sample` and `correlation` hold everywhere."""
    ratios: pd.DataFrame
    """`spreads` of the judged sizes."""
    slopes: pd.Series
    """By model and seed: the exponent of variance / E|grad f|^2 in the number of secrets, at k = d/2."""
    told: pd.DataFrame
    """By model and seed under the oracle: whether `revealed` and `loss` keep to their bounds at every step size."""
    whole: pd.Series
    """By seed: the least loss over step sizes at k = d."""
    least_loss: float


def spreads(rows: pd.DataFrame) -> pd.DataFrame:
    """By model, d, k, n, time and seed: variance, bound, their ratio, the number of secrets."""
    found = with_settings(rows[rows["scope"] == "secrets"])
    index = ["condition", "d", "k", "n", "judged", "update", "unit"]
    found = found.pivot(index=index, columns="metric", values="value").reset_index()
    n_secrets = [math.comb(d, k) for d, k in zip(found["d"], found["k"])]
    return found.assign(ratio=found["variance"] / found["bound"], secrets=n_secrets)


def summary(rows: pd.DataFrame) -> Summary:
    """Whether each bound holds, by seed; how fast the variance falls; and the loss under the oracle."""
    found = spreads(rows)
    judged = found[found["judged"] == 1]
    holds = judged.assign(
        population=(judged["n"] > 0) | (judged["ratio"] <= ROUNDING),
        sample=(judged["n"] == 0) | (judged["ratio"] <= ROUNDING),
        correlation=(judged["n"] == 0) | (judged["correlation"] <= ROUNDING),
    )
    held = holds.groupby(["condition", "d", "unit"])[["population", "sample", "correlation"]].min().reset_index()
    asked = with_settings(rows[rows["scope"].isin(["oracle", "whole"])])
    index = ["scope", "condition", "d", "k", "rate", "oracle", "unit"]
    asked = asked.pivot(index=index, columns="metric", values="value").reset_index()
    under = asked[asked["scope"] == "oracle"]
    told = under.assign(
        revealed=under["revealed"] <= under["revealed_bound"] * ROUNDING,
        loss=under["loss"] * ROUNDING >= under["loss_bound"],
    )
    told = told.groupby(["condition", "d", "unit"])[["revealed", "loss"]].min().reset_index()
    whole = asked[asked["scope"] == "whole"].groupby("unit")["loss"].min()
    return Summary(held, judged, _slopes(found), told, whole, float(under["loss"].min()))


def _slopes(found: pd.DataFrame) -> pd.Series:
    """Least squares of log variance (over E|grad f|^2) on log |P|, by model and seed with three sizes or more."""
    half = found[(found["n"] == 0) & (found["update"] == 0) & (found["k"] == found["d"] // 2)]
    half = half[half["condition"] != "one_parity"]
    x, y = np.log(half["secrets"]), np.log(half["ratio"] / half["secrets"])  # variance over E|grad f|^2
    runs = half.assign(x=x, y=y, xy=x * y, xx=x * x).groupby(["condition", "unit"])
    mean = runs[["x", "y", "xy", "xx"]].mean()[runs.size() > 2]
    return (mean["xy"] - mean["x"] * mean["y"]) / (mean["xx"] - mean["x"] ** 2)


def parts(preset: "Thm2") -> list[Part]:
    """Both bounds on the variance, the oracle's loss, and what happens where there is one secret."""
    primary = [
        _bound("population", "over all inputs the variance keeps to its bound", "Proposition 3"),
        _bound("sample", "on samples the variance keeps to its bound", "Appendix A, 'Bounding gradient variance'"),
        Part(
            key="oracle",
            name="under the oracle of the proof the loss stays above its bound, whatever the step size",
            role="paper",
            source="Theorem 2, equation (5)",
            primary=True,
            quantity="share of seeds whose loss over all secrets is above 2 - 1/Pr(Q) - 2 E|E_p p(x)| at every step "
            "size and epsilon, least over models",
            estimate=partial(share_told, of="loss"),
            direction="above",
            threshold=HIGH_PROBABILITY,
            why=WHY_ALL,
            unit="seeds",
            note=_loss_note,
        ),
    ]
    return [
        *primary,
        _correlation_part(),
        _revealed_part(),
        _decay_part(),
        _tight_part(),
        _whole_part(preset),
    ]


def _bound(key: str, name: str, source: str) -> Part:
    return Part(
        key=key,
        name=f"{name}, for every model and size",
        role="paper",
        source=source,
        primary=True,
        quantity="share of seeds whose gradient's variance over secrets is within the bound at every k and time, "
        "least over models and sizes",
        estimate=partial(share_held, of=key),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why=WHY_ALL,
        unit="seeds",
        note=partial(_ratio_note, of=key),
    )


def _correlation_part() -> Part:
    return Part(
        key="correlation",
        name="no two secrets correlate more than sqrt(4 d / n) on the samples",
        role="paper",
        source="Appendix A, the union bound over Hoeffding's inequality",
        quantity="share of seeds whose largest correlation of two secrets is within the bound, least over sizes",
        estimate=partial(share_held, of="correlation"),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why="the stated probability of an exception is at most (2/e)^(2d), 0.025 at d = 6 and less beyond",
        unit="seeds",
        note=_correlation_note,
    )


def _revealed_part() -> Part:
    return Part(
        key="revealed",
        name="the oracle reveals no more secrets than the union bound says",
        role="paper",
        source="Appendix A, 'Constructing the oracle'",
        quantity="share of seeds in which at most T V / epsilon^2 of the secrets are revealed, least over models",
        estimate=partial(share_told, of="revealed"),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why=WHY_ALL,
        unit="seeds",
    )


def _decay_part() -> Part:
    return Part(
        key="decay",
        name="the variance falls at least as fast as the number of secrets grows",
        role="paper",
        source="section 3.1: the variance is exponentially small; Proposition 3: 1 / |H|",
        quantity="exponent p of variance / E|grad f|^2 ~ |P|^p at k = d/2 and random weights, mean over models and "
        "seeds",
        estimate=decay,
        direction="below",
        threshold=-1.0,
        why="Proposition 3's own exponent: a variance that falls more slowly would cross the bound",
        unit="runs",
        note=_decay_note,
    )


def _tight_part() -> Part:
    return Part(
        key="tight",
        name="a model that is a parity reaches the bound over all inputs",
        role="control",
        quantity="share of seeds of the model with one parity whose variance is above 0.9 of the bound at k = d/2",
        estimate=share_tight,
        direction="above",
        threshold=MOST,
        why="its ratio is 1 - 1/|P| by construction: the measurement must be able to show a bound that is reached",
        unit="seeds",
    )


def _whole_part(preset: "Thm2") -> Part:
    return Part(
        key="whole",
        name="at k = d the same oracle hides nothing and the parity is learned",
        role="ours",
        quantity=f"share of seeds with a squared error below {SOLVED:g} at k = d = {preset.whole_d} for some step "
        f"size, after {preset.whole_updates} queries to the oracle",
        estimate=share_whole,
        direction="above",
        threshold=MOST,
        why="Theorem 2 says 1 - e^(-Omega(d)) for k = Theta(d), which k = d is; most seeds below half of that refute "
        "the statement there",
        unit="seeds",
    )


def share_held(summary: Summary, level: float, *, of: str) -> Interval | NotMeasurable:
    """The share of seeds in which a bound holds everywhere, at the model and size where it is smallest."""
    held = summary.held
    return least_share(held[of].astype(bool), _cells(held), level)


def share_told(summary: Summary, level: float, *, of: str) -> Interval | NotMeasurable:
    """The same under the oracle."""
    return least_share(summary.told[of].astype(bool), _cells(summary.told), level)


def _cells(found: pd.DataFrame) -> pd.Series:
    """A number for each model and size."""
    return found.groupby(["condition", "d"]).ngroup()


def decay(summary: Summary, level: float) -> Interval | NotMeasurable:
    """The mean exponent over models and seeds."""
    return mean_over(summary.slopes, level)


def share_tight(summary: Summary, level: float) -> Interval | NotMeasurable:
    """The share of seeds of the model with one parity that come near the bound."""
    of = summary.ratios
    of = of[(of["condition"] == "one_parity") & (of["n"] == 0) & (of["update"] == 0) & (of["k"] == of["d"] // 2)]
    return share_of(of["ratio"] > 0.9, level)


def share_whole(summary: Summary, level: float) -> Interval | NotMeasurable:
    """The share of seeds that learn where there is one secret."""
    return share_of(summary.whole < SOLVED, level)


def _ratio_note(summary: Summary, of: str) -> str:
    found = summary.ratios[(summary.ratios["n"] == 0) == (of == "population")]
    found = found[found["condition"] != "one_parity"]
    by_model = found.groupby("condition")["ratio"].agg(["max", "median"])
    return "variance over bound: " + ", ".join(
        f"{model} at most {row['max']:.2g}, typically {row['median']:.1g}" for model, row in by_model.iterrows()
    )


def _correlation_note(summary: Summary) -> str:
    found = summary.ratios[summary.ratios["n"] > 0]
    return f"largest correlation over its bound: at most {found['correlation'].max():.2f}"


def _loss_note(summary: Summary) -> str:
    return f"least loss over all secrets, models and step sizes {summary.least_loss:.3f}; 1 for the answer 0"


def _decay_note(summary: Summary) -> str:
    by_model = summary.slopes.groupby(level=0).agg(["mean", "size"])
    return ", ".join(f"{model} {row['mean']:.2f} ({row['size']:.0f} seeds)" for model, row in by_model.iterrows())
