"""What do the li2024 claims share? Trained theory models, and their errors on unseen tasks as rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from interp.core.claim import Item, Preset
from probes import rows

if TYPE_CHECKING:
    import torch

    from toy_models.incontext.errors import Errors
    from toy_models.incontext.exam import Scores
    from toy_models.incontext.space import Space
    from toy_models.incontext.training import Setup, Weights

NOISE = 0.2
"""Length of the noise on the examples of testing prompts (appendix E)."""
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
    lines: Sequence[Line], lengths: Sequence[int], n_queries: int, seeds: range, iterations: int, **more: str
) -> list[Item]:
    """One line of settings each, of all seeds; `more` has its `scope` and `condition`."""
    return [
        Item(
            f"{more['scope']},{factor}",
            {
                "line": factor, "spread": spread, "settings": [list(setting) for setting in settings],
                "lengths": list(lengths), "n_queries": n_queries, "seeds": list(seeds),
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


def seeds_of(preset: Preset) -> range:
    """The seeds of a preset."""
    return range(preset.first_unit, preset.first_unit + preset.seeds)


def errors_of(table: pd.DataFrame, metric: str, scope: str) -> pd.DataFrame:
    """One of the METRICS by setting, number of examples and seed."""
    return rows.with_settings(table[(table["metric"] == metric) & (table["scope"] == scope)])
