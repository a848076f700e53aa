"""What do the li2024 claims share? Trained theory models, their errors on unseen tasks, and how errors are judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from interp.core.claim import Item
from interp.core.judging import growth_exponent
from interp.core.verdict import Verdict, judged
from interp.statistics import Interval, binomial_interval, cautious_mean, paired_difference
from probes import rows

if TYPE_CHECKING:
    import torch

    from toy_models.incontext.errors import Errors
    from toy_models.incontext.exam import Scores
    from toy_models.incontext.space import Space
    from toy_models.incontext.training import Setup, Weights

NOISE = 0.2
"""Length of the noise on the examples of testing prompts (appendix E)."""
ENOUGH = 0.05
"""The error at which the number of examples counts as sufficient."""
CHUNK = 200
"""Queries of a seed examined at once: with 5 seeds and 320 examples their noise takes 90 MB."""

METRICS = {"cot": ("cot_error", "cot_label_error"), "icl": ("icl_error",)}
"""The errors of CoT over all steps (equation 7) and at the last step alone, and of ICL (equation 9)."""

Line = tuple[str, str, tuple[tuple[float, float, float], ...]]
"""What varies along a line of settings, where the errors are (`Spread`), and (alpha', tau, rho) of each setting."""
LONG = (5, 7, 10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320)
"""Numbers of examples in factors of about sqrt(2)."""
ALPHAS, TAUS, RHOS = (0.2, 0.3, 0.4, 0.6, 0.8), (0.2, 0.3, 0.4, 0.5, 0.6), (0.3, 0.4, 0.5, 0.6, 0.8)
"""Values, around alpha' = 0.8, tau = 0.5, rho = 0.5, at which the required number of examples is measured."""

_STREAMS = ("space", "train", "exam")


@dataclass(frozen=True)
class Trained:
    """Trained theory models, one for each seed."""

    setup: "Setup"
    space: "Space"
    weights: "Weights"
    seeds: Sequence[int]

    @property
    def scores(self) -> "Scores":
        from toy_models.incontext.exam import Scores

        return Scores.of(self.setup, self.space, self.weights)


def generators(seeds: Sequence[int], stream: str) -> "list[torch.Generator]":
    """One generator for each seed; the streams of a seed are independent, whatever the batch of seeds."""
    import torch

    offset = 104_729 + _STREAMS.index(stream)
    return [torch.Generator().manual_seed(len(_STREAMS) * seed + offset) for seed in seeds]


def trained(seeds: Sequence[int], iterations: int) -> Trained:
    """Models after `iterations` updates of SGD, with the defaults of `Setup`."""
    from toy_models.incontext.training import Setup, sgd

    setup = Setup(iterations=iterations)
    space = setup.spaces(generators(seeds, "space"))
    streams = generators(seeds, "train")
    *_, (_, weights, _) = sgd(setup, space, setup.initial(streams), streams)
    return Trained(setup, space, weights, seeds)


def exam_rows(
    models: Trained,
    errors: "Errors",
    alpha: float,
    lengths: Sequence[int],
    n_queries: int,
    conditions: Sequence[str] = ("cot", "icl"),
    *,
    run: str,
    scope: str,
    **places: float | str,
) -> pd.DataFrame:
    """The METRICS of the conditions, by seed and number of examples.

    Every setting is examined on prompts of the same random numbers, so that seeds are paired between settings.
    """
    from toy_models.incontext.exam import Exam, cot_answers, icl_answers

    streams, scores = generators(models.seeds, "exam"), models.scores
    wrong: dict[str, Any] = {metric: 0 for condition in conditions for metric in METRICS[condition]}
    for start in range(0, n_queries, CHUNK):
        n = min(CHUNK, n_queries - start)
        exam = Exam.draw(n, max(lengths), alpha, errors, NOISE, models.space, streams)
        truth = exam.prompts.query
        if "cot" in conditions:
            steps = (cot_answers(scores, exam, lengths) != truth[..., 1:]).double()
            wrong["cot_error"] += steps.mean(-1).sum(-1)
            wrong["cot_label_error"] += steps[..., -1].sum(-1)
        if "icl" in conditions:
            wrong["icl_error"] += (icl_answers(scores, exam, lengths) != truth[..., -1]).double().sum(-1)
    units = [str(seed) for seed in models.seeds]
    law = {name: round(getattr(errors, name), 6) for name in ("tau", "rho", "tau_o", "rho_o")}
    return rows.concat(
        rows.table(
            run=run, condition=metric.split("_")[0], unit=units, scope=scope, metric=metric,
            value=(of_length / n_queries).tolist(), n_tokens=n_queries,
            setting=rows.setting(alpha=alpha, l=length, condition_1=int(errors.condition_1), **law, **places),
        )
        for metric, by_length in wrong.items()
        for length, of_length in zip(lengths, by_length)
    )  # fmt: skip


def lines_around_base(tau: str, rho: str) -> tuple[Line, ...]:
    """One factor at a time is varied, all errors being in the first step; `tau` and `rho` name two of the lines."""
    return (
        ("alpha", "first", tuple((alpha, 0.5, 0.5) for alpha in ALPHAS)),
        (tau, "first", tuple((0.8, tau_value, 0.5) for tau_value in TAUS)),
        (rho, "first", tuple((0.8, 0.5, rho_value) for rho_value in RHOS)),
    )


def some(lines: Sequence[Line], at: Sequence[int]) -> tuple[Line, ...]:
    """The lines, reduced to the settings at the given indices."""
    return tuple((factor, spread, tuple(settings[i] for i in at)) for factor, spread, settings in lines)


def line_items(
    lines: Sequence[Line], lengths: Sequence[int], n_queries: int, seeds: int, iterations: int, **more: str
) -> list[Item]:
    """One line of settings each, of all seeds; `more` has its `scope` and `condition`."""
    return [
        Item(
            f"{more['scope']},{factor}",
            {
                "line": factor, "spread": spread, "settings": [list(setting) for setting in settings],
                "lengths": list(lengths), "n_queries": n_queries, "seeds": list(range(seeds)),
                "iterations": iterations, **more,
            },
        )
        for factor, spread, settings in lines
    ]  # fmt: skip


def measure_line(item: Item) -> pd.DataFrame:
    """The errors at every setting and number of examples of a line."""
    from toy_models.incontext.errors import Errors

    p = item.parameters
    models = trained(p["seeds"], p["iterations"])
    sizes = models.setup.n_steps, models.setup.n_testing
    labels = {"run": item.name, "scope": p["scope"], "line": p["line"]}
    return rows.concat(
        exam_rows(
            models, Errors.of(tau, rho, *sizes, p["spread"]), alpha, p["lengths"], p["n_queries"], [p["condition"]],
            **labels,
        )
        for alpha, tau, rho in p["settings"]
    )  # fmt: skip


def errors_of(table: pd.DataFrame, metric: str, scope: str) -> pd.DataFrame:
    """One of the METRICS by setting, number of examples and seed."""
    return rows.with_settings(table[(table["metric"] == metric) & (table["scope"] == scope)])


def over_seeds(found: pd.DataFrame) -> Interval:
    """The mean error over seeds, at one setting.

    The interval is the union of that of the mean over seeds and the exact binomial one of all queries pooled: where
    no seed makes an error, the interval over seeds alone has no width.
    """
    mean = cautious_mean(found.sort_values("unit")["value"].to_numpy(float), rng=0, bounds=(0, 1))
    n_queries = int(found["n_tokens"].sum())
    exact = binomial_interval(round(mean.value * n_queries), n_queries)
    return replace(mean, low=min(mean.low, exact.low), high=max(mean.high, exact.high))


def difference(first: pd.DataFrame, second: pd.DataFrame) -> Interval:
    """The mean of first - second over seeds."""
    pairs = (
        first.set_index("unit")["value"].to_frame("first").join(second.set_index("unit")["value"].rename("second"))
    )
    pairs = pairs.sort_index()
    return paired_difference(pairs["first"].to_numpy(float), pairs["second"].to_numpy(float), rng=0)


def falls(found: pd.DataFrame, low: int, high: int) -> Interval:
    """How much the error falls from `low` to `high` examples, averaged over the settings of a panel."""
    mean = found.groupby(["l", "unit"], as_index=False)["value"].mean()
    return difference(mean[mean["l"] == low], mean[mean["l"] == high])


def weakest_order(found: pd.DataFrame, factor: str, length: int) -> tuple[Interval, str]:
    """The pair of neighbouring values of `factor` whose errors are least clearly in order, lower value first.

    All pairs are in order if this one is: an intersection-union test needs no correction.
    """
    at = found[found["l"] == length]
    values = sorted(at[factor].unique())
    pairs = {
        f"{a:g} against {b:g}": difference(at[at[factor] == a], at[at[factor] == b]) for a, b in pairwise(values)
    }
    name = min(pairs, key=lambda pair: pairs[pair].low)
    return pairs[name], name


def required(found: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """For each setting and seed the number of examples beyond which the error stays below ENOUGH.

    The error is interpolated linearly in log l; `censored` where it never stays below.
    """
    results = []
    for keys, curve in found.groupby([*by, "unit"]):
        curve = curve.sort_values("l")
        lengths, errors = curve["l"].to_numpy(float), curve["value"].to_numpy(float)
        above = np.flatnonzero(errors > ENOUGH)
        last = int(above[-1]) if len(above) else -1
        censored = last == len(lengths) - 1
        needed = lengths[-1] if censored else lengths[0]
        if not censored and last >= 0:
            share = (errors[last] - ENOUGH) / (errors[last] - errors[last + 1])
            needed = lengths[last] * (lengths[last + 1] / lengths[last]) ** share
        results.append({**dict(zip([*by, "unit"], keys)), "needed": needed, "censored": censored})
    return pd.DataFrame(results)


def exponent(needed: pd.DataFrame, size: pd.Series, ratio: float) -> Interval:
    """p of needed ~ size^p."""
    return growth_exponent(size, needed["needed"], needed["censored"], ratio)


def panel_verdicts(
    claim: str, found: pd.DataFrame, factor: str, name: str, lengths: tuple[int, int], length: int, fall: float
) -> list[Verdict]:
    """A panel of Figures 2 and 3: the error falls with the number of examples and rises as the factor falls."""
    weakest, pair = weakest_order(found, factor, length)
    low, high = lengths
    means = found[found["l"] == length].groupby(factor)["value"].mean()
    return [
        judged(
            falls(found, low, high), claim=claim, part=f"{name}: error falls with examples",
            quantity=f"mean error at {low} examples minus at {high}, over the values of {name}",
            threshold=fall, direction="above", unit="seeds",
        ),
        judged(
            weakest, claim=claim, part=f"{name}: error rises as it falls",
            quantity=f"error at {length} examples, lower minus next higher {name}: least clear pair ({pair})",
            threshold=0.0, direction="above", unit="seeds",
            note="mean error by value: " + ", ".join(f"{value:g}: {mean:.4f}" for value, mean in means.items()),
        ),
    ]  # fmt: skip


def requirement_verdicts(claim: str, found: pd.DataFrame, factors: Mapping[str, str]) -> list[Verdict]:
    """How the required number of examples grows as the factors fall: their product, then each alone.

    `factors` maps columns to names. The bound says (product)^-2, so the exponent of each 1/factor should be 2.
    """
    needed = required(found, ["line", *factors])
    lengths = np.sort(found["l"].unique())
    ratio = float(np.median(lengths[1:] / lengths[:-1]))
    product = needed[list(factors)].prod(axis=1)
    once = ~needed.duplicated([*factors, "unit"])  # the base setting is in every line
    names = " ".join(factors.values())
    verdicts = [
        judged(
            exponent(needed[once], product[once] ** -2, ratio), claim=claim,
            part="required examples grow no faster than the bound",
            quantity=f"exponent p of l ~ ({names})^(-2p) at an error of {ENOUGH:g}",
            threshold=1.0, direction="below", unit="runs", note=f"{int(needed['censored'].sum())} runs are censored",
        )
    ]  # fmt: skip
    for column, name in factors.items():
        line = needed[needed["line"] == column]
        medians = line.groupby(column)["needed"].median()
        verdicts.append(
            judged(
                exponent(line, 1 / line[column], ratio), claim=claim,
                part=f"required examples grow as the square of 1/{name}",
                quantity=f"exponent p of l ~ {name}^(-p) at an error of {ENOUGH:g}",
                threshold=1.5, direction="above", unit="runs",
                note="median l by value: " + ", ".join(f"{value:g}: {l:.0f}" for value, l in medians.items()),
            )
        )  # fmt: skip
    return verdicts
