"""What do the rows of kim2024/thm2 say? Variances over secrets beside their bounds, and losses under the oracle."""

import math
from dataclasses import dataclass

import pandas as pd

from interp.claims.kim2024._parts import least_share, seed_exponents
from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable
from interp.statistics import Interval
from probes.rows import with_settings

REVEALED = 0.1
"""The share of secrets that the oracle may reveal, where epsilon is set by it."""
ORACLES = ("tenth", "third", "sure")
"""Epsilon such that a tenth of the secrets is revealed; the cube root of the variance, as the proof has it; and such
that the union bound lets at most a tenth be revealed. The variance is the largest one met."""
ROUNDING = 1 + 1e-9
"""A bound that is reached exactly may be exceeded by rounding."""
SOLVED = 0.5
"""A squared error below this is far from the theorem's 1."""


@dataclass(frozen=True)
class Summary:
    """What the parts read."""

    held: pd.DataFrame
    """By model, d and seed of the judged sizes: whether `population`, `sample` and `correlation` hold everywhere."""
    ratios: pd.DataFrame
    """`spreads` of the judged sizes."""
    slopes: pd.Series
    """By model and seed: the exponent of variance / E|grad f|^2 in the number of secrets, at k = d/2."""
    asked: pd.DataFrame
    """By model, size, step size, epsilon and seed under the oracle: losses and bounds; `judged` if epsilon is smaller
    than the gradient and leaves a bound; whether the bounds held (`revealed_held`, `loss_held`), epsilon is `small`,
    and exact gradients have `learned`."""
    whole: pd.Series
    """By seed: the least loss over step sizes at k = d."""


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
    says = (judged["n"] > 0) & (judged["of_largest"] < 1)  # above sup|grad f|^2 the bound could not fail
    holds = judged.assign(
        population=(judged["n"] > 0) | (judged["ratio"] <= ROUNDING),
        sample=~says | (judged["ratio"] <= ROUNDING),
        correlation=(judged["n"] == 0) | (judged["correlation"] <= ROUNDING),
    )
    held = holds.groupby(["condition", "d", "unit"])[["population", "sample", "correlation"]].min().reset_index()
    asked = with_settings(rows[rows["scope"].isin(["oracle", "whole"])])
    index = ["scope", "condition", "d", "k", "rate", "oracle", "unit"]
    asked = asked.pivot(index=index, columns="metric", values="value").reset_index()
    under = asked[asked["scope"] == "oracle"]
    under = under.assign(
        judged=(under["loss_bound"] > 0) & (under["error_of_gradient"] < 1),
        revealed_held=under["revealed"] <= under["revealed_bound"] * ROUNDING,
        loss_held=under["loss"] * ROUNDING >= under["loss_bound"],
        small=under["error_of_gradient"] < 1,
        learned=under["exact"] < under["loss_bound"],
    )
    whole = asked[asked["scope"] == "whole"].groupby("unit")["loss"].min()
    return Summary(held, judged, _slopes(found), under, whole)


def _slopes(found: pd.DataFrame) -> pd.Series:
    """Least squares of log variance (over E|grad f|^2) on log |P|, by model and seed with three sizes or more."""
    half = found[(found["n"] == 0) & (found["update"] == 0) & (found["k"] == found["d"] // 2)]
    half = half[half["condition"] != "one_parity"]
    over = half["ratio"] / half["secrets"]  # variance over E|grad f|^2
    return seed_exponents(half["secrets"], over, half["condition"], half["unit"], least=3)


def share_held(summary: Summary, level: float, *, of: str) -> Interval | NotMeasurable:
    """The share of seeds in which a bound holds everywhere, at the model and size where it is smallest."""
    held = summary.held
    return least_share(held[of].astype(bool), _cells(held), level)


def share_told(summary: Summary, level: float, *, of: str, judged: str) -> Interval | NotMeasurable:
    """The same under the oracle, of the runs `judged`, with a bound on what is revealed, or of one epsilon."""
    asked = summary.asked
    of_oracle = asked["oracle"] == judged
    which = {"judged": asked["judged"], "revealed_bound": asked["revealed_bound"] < 1}.get(judged, of_oracle)
    by_seed = asked[which].groupby(["condition", "d", "unit"], as_index=False)[of].min()
    return least_share(by_seed[of].astype(bool), _cells(by_seed), level)


def _cells(found: pd.DataFrame) -> pd.Series:
    """A number for each model and size."""
    return found.groupby(["condition", "d"]).ngroup()


def decay(summary: Summary, level: float) -> Interval | NotMeasurable:
    """The mean exponent of the model where it is largest; it is below a value if every model's is."""
    by_model = [of for _, of in summary.slopes.groupby(level=0)]
    found = [mean_over(of, level) for of in by_model]
    corrected = [mean_over(of, 1 - (1 - level) / len(by_model)) for of in by_model]
    known = [one for one in found if isinstance(one, Interval)]
    lows = [one.low for one in corrected if isinstance(one, Interval)]
    if not known or len(known) < len(found):
        return NotMeasurable("a model has fewer than two seeds with three sizes or more")
    return Interval(
        max(one.value for one in known),
        max(lows),
        max(one.high for one in known),
        level,
        min(one.n for one in known),
        f"{known[0].method}, largest of {len(known)}",
    )


def share_tight(summary: Summary, level: float) -> Interval | NotMeasurable:
    """The share of seeds of the model with one parity that come near the bound."""
    of = summary.ratios
    of = of[(of["condition"] == "one_parity") & (of["n"] == 0) & (of["update"] == 0) & (of["k"] == of["d"] // 2)]
    return share_of(of["ratio"] > 0.9, level)


def share_whole(summary: Summary, level: float) -> Interval | NotMeasurable:
    """The share of seeds that learn where there is one secret."""
    return share_of(summary.whole < SOLVED, level)


def ratio_note(summary: Summary, of: str) -> str:
    """How near the variance comes to its bound."""
    if of == "sample":
        return f"{_ratios(summary, of)}; {_room(summary)}"
    return _ratios(summary, of)


def _room(summary: Summary) -> str:
    """How much less than the trivial bound, sup|grad f|^2, the bound on samples says."""
    of = summary.ratios.loc[summary.ratios["n"] > 0, "of_largest"]
    return (
        f"bound over sup|grad f|^2: {of.min():.2g} to {of.max():.2g}; {(of >= 1).sum()} of {len(of)} cells not "
        "judged (1 or more)"
    )


def _ratios(summary: Summary, of: str) -> str:
    found = summary.ratios[(summary.ratios["n"] == 0) == (of == "population")]
    found = found[found["condition"] != "one_parity"]
    by_model = found.groupby("condition")["ratio"].agg(["max", "median"])
    return "variance over bound: " + ", ".join(
        f"{model} at most {row['max']:.2g}, typically {row['median']:.1g}" for model, row in by_model.iterrows()
    )


def correlation_note(summary: Summary) -> str:
    """How near correlations come to their bound."""
    found = summary.ratios[summary.ratios["n"] > 0]
    return f"largest correlation over its bound: at most {found['correlation'].max():.2f}"


def loss_note(summary: Summary) -> str:
    """Losses beside their bounds, and what was not judged."""
    asked = summary.asked
    of = asked[asked["judged"]]
    return (
        f"least loss over all secrets {of['loss'].min():.3f} (1 for the answer 0), bounds "
        f"{of['loss_bound'].min():.2f} to {of['loss_bound'].max():.2f}; {(~asked['judged']).sum()} of {len(asked)} "
        "runs not judged (epsilon above the gradient, or no bound left)"
    )


def small_note(summary: Summary) -> str:
    """How large epsilon is beside the gradient."""
    of = summary.asked.groupby(["condition", "oracle"])["error_of_gradient"]
    return "epsilon over gradient: " + ", ".join(
        f"{model} ({oracle}) {values.median():.2g}, at most {values.max():.2g}" for (model, oracle), values in of
    )


def exact_note(summary: Summary) -> str:
    """What exact gradients reach."""
    of = summary.asked.groupby(["condition", "d", "k", "rate"])["exact"]
    return "squared error with exact gradients: " + ", ".join(
        f"{model} at d={d}, k={k}, step {rate:g}: median {values.median():.2g}, at most {values.max():.2g}"
        for (model, d, k, rate), values in of
    )


def decay_note(summary: Summary) -> str:
    """The exponent of each model."""
    by_model = summary.slopes.groupby(level=0).agg(["mean", "size"])
    return ", ".join(f"{model} {row['mean']:.2f} ({row['size']:.0f} seeds)" for model, row in by_model.iterrows())
