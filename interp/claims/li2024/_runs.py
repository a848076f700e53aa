"""What do the li2024 claims share? Trained theory models, and their errors on unseen tasks as rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from interp.core.claim import Item, Preset
from interp.core.loops import loop, nested
from interp.statistics.interval import Number
from probes import rows

if TYPE_CHECKING:
    import torch

    from toy_models.incontext.errors import Errors
    from toy_models.incontext.exam import Exam, Scores
    from toy_models.incontext.prompts import Prompts
    from toy_models.incontext.space import Space
    from toy_models.incontext.training import Setup, Weights

NOISE = 0.2
"""Length of the noise on the examples of testing prompts (appendix E)."""
CHUNK = 200
"""Queries of a seed examined at once: with 5 seeds and 320 examples their noise takes 90 MB."""
MEASURED = (loop("iterations", "iterations", least=16), loop("points", "measurements", least=3, alone=False))
"""What a run repeats that is measured at points evenly in log time; so few of them that no two are one update."""
ITERATIONS = loop("iterations", "iterations")
LOOPS = (ITERATIONS, loop("n_queries", "queries of each exam", least=CHUNK))
LINE = (ITERATIONS, nested("settings", "n_queries", "queries of all exams", least=CHUNK))
"""What the exams of a line of settings repeat."""

METRICS = {"cot": ("cot_error", "cot_label_error"), "icl": ("icl_error",)}
"""The errors of CoT over all steps (equation 7) and at the last step alone, and of ICL (equation 9)."""
VOTES = {"cot_error": "cot_vote_error", "icl_error": "icl_vote_error"}
"""Those of an ideal vote on the same prompts (`toy_models.incontext.votes`)."""

Line = tuple[str, str, tuple[tuple[float, float, float], ...], tuple[int, ...]]
"""What varies along a line of settings, where the errors are (`Spread`), (alpha', tau, rho) of each setting, and the
numbers of examples."""
LONG = (5, 10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320)
LONGER = (5, 20, 28, 40, 57, 80, 113, 160, 226, 320, 453)
"""Numbers of examples in factors of about sqrt(2), beyond a first one; small primacies need longer prompts."""
ALPHAS, TAUS, RHOS = (0.2, 0.3, 0.4, 0.6, 0.8), (0.3, 0.35, 0.4, 0.5, 0.6), (0.2, 0.25, 0.3, 0.4, 0.5)
"""Values, around alpha' = 0.8, tau = 0.5, rho = 0.5, at which the required number of examples is measured. At tau =
0.2 and rho = 0.5 the rival has 0.1 and each of the eight other patterns 0.0875: nine rivals in place of one, so that
the number would measure their count too; from 0.3 on the rival has at least twice what another has."""

_STREAMS = {"space": (3, 104_729), "train": (3, 104_730), "exam": (3, 104_731), "labels": (2, 15_485_864),
            "votes": (2, 15_485_863)}  # fmt: skip
"""Seed number s of a stream is its factor times s plus its offset: no two streams meet below five million seeds."""


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

    factor, offset = _STREAMS[stream]
    return [torch.Generator().manual_seed(factor * seed + offset) for seed in seeds]


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
    stream: str = "exam",
    votes: bool = False,
    **places: Number | str,
) -> pd.DataFrame:
    """The METRICS of the conditions, by seed and number of examples; with `votes` those of ideal votes too.

    Every setting is examined on prompts of the same random numbers, so that seeds are paired between settings.
    """
    from toy_models.incontext.exam import Exam

    streams, ties, scores = generators(models.seeds, stream), generators(models.seeds, "votes"), models.scores
    wrong: dict[str, Any] = {}
    for start in range(0, n_queries, CHUNK):
        n = min(CHUNK, n_queries - start)
        exam = Exam.draw(n, max(lengths), alpha, errors, NOISE, models.space, streams)
        found = _mistakes(scores, exam, lengths, conditions)
        found |= _vote_mistakes(exam.prompts, errors.n_patterns, lengths, conditions, ties) if votes else {}
        wrong = {metric: wrong.get(metric, 0) + count for metric, count in found.items()}
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


def _mistakes(
    scores: "Scores", exam: "Exam", lengths: Sequence[int], conditions: Sequence[str]
) -> dict[str, "torch.Tensor"]:
    """How many answers are wrong, by metric: [length seed]."""
    from toy_models.incontext.exam import cot_answers, icl_answers

    truth, found = exam.prompts.query, {}
    if "cot" in conditions:
        steps = (cot_answers(scores, exam, lengths) != truth[..., 1:]).double()
        found |= {"cot_error": steps.mean(-1).sum(-1), "cot_label_error": steps[..., -1].sum(-1)}
    if "icl" in conditions:
        found["icl_error"] = (icl_answers(scores, exam, lengths) != truth[..., -1]).double().sum(-1)
    return found


def _vote_mistakes(
    prompts: "Prompts",
    n_patterns: int,
    lengths: Sequence[int],
    conditions: Sequence[str],
    ties: "Sequence[torch.Generator]",
) -> dict[str, "torch.Tensor"]:
    """How many answers of ideal votes are wrong, by metric: [length seed]; each seed breaks its own ties."""
    import torch

    from toy_models.incontext.prompts import Prompts
    from toy_models.incontext.votes import cot_votes, icl_votes

    found: dict[str, list[torch.Tensor]] = {}
    for examples, query, generator in zip(prompts.examples, prompts.query, ties):
        of_seed = Prompts(examples, query)
        if "cot" in conditions:
            steps = cot_votes(of_seed, n_patterns, lengths, generator) != query[:, 1:]
            found.setdefault("cot_vote_error", []).append(steps.double().mean(-1).sum(-1))
        if "icl" in conditions:
            labels = icl_votes(of_seed, n_patterns, lengths, generator) != query[:, -1]
            found.setdefault("icl_vote_error", []).append(labels.double().sum(-1))
    return {metric: torch.stack(of_seeds, dim=-1) for metric, of_seeds in found.items()}


def lines_around_base(tau: str, rho: str) -> tuple[Line, ...]:
    """One factor at a time is varied, all errors being in the first step; `tau` and `rho` name two of the lines."""
    return (
        ("alpha", "first", tuple((alpha, 0.5, 0.5) for alpha in ALPHAS), LONG),
        (tau, "first", tuple((0.8, tau_value, 0.5) for tau_value in TAUS), LONG),
        (rho, "first", tuple((0.8, 0.5, rho_value) for rho_value in RHOS), LONGER),
    )


def some(lines: Sequence[Line], at: Sequence[int], lengths: tuple[int, ...]) -> tuple[Line, ...]:
    """The lines, reduced to the settings at the given indices and to a few numbers of examples."""
    return tuple((factor, spread, tuple(settings[i] for i in at), lengths) for factor, spread, settings, _ in lines)


def longer(lines: Sequence[Line], lengths: tuple[int, ...]) -> tuple[Line, ...]:
    """The lines with more numbers of examples."""
    return tuple((*line[:3], (*line[3], *(n for n in lengths if n > max(line[3])))) for line in lines)


def longest(lines: Sequence[Line]) -> int:
    """The largest number of examples of any line."""
    return max(max(lengths) for *_, lengths in lines)


def line_items(lines: Sequence[Line], n_queries: int, seeds: range, iterations: int, **more: str) -> list[Item]:
    """One line of settings each, of all seeds; `more` has its `scope`, `condition` and `stream`."""
    return [
        Item(
            f"{more['scope']},{factor}",
            {
                "line": factor, "spread": spread, "settings": [list(setting) for setting in settings],
                "lengths": list(lengths), "n_queries": n_queries, "seeds": list(seeds),
                "iterations": iterations, **more,
            },
        )
        for factor, spread, settings, lengths in lines
    ]  # fmt: skip


def measure_line(item: Item) -> pd.DataFrame:
    """The errors of the model and of ideal votes at every setting and number of examples of a line."""
    from toy_models.incontext.errors import Errors

    p = item.parameters
    models = trained(p["seeds"], p["iterations"])
    sizes = models.setup.n_steps, models.setup.n_testing
    labels = {"run": item.name, "scope": p["scope"], "line": p["line"], "stream": p["stream"]}
    return rows.concat(
        exam_rows(
            models, Errors.of(tau, rho, *sizes, p["spread"]), alpha, p["lengths"], p["n_queries"], [p["condition"]],
            votes=True, **labels,
        )
        for alpha, tau, rho in p["settings"]
    )  # fmt: skip


def seeds_of(preset: Preset) -> range:
    """The seeds of a preset."""
    return range(preset.first_unit, preset.first_unit + preset.seeds)


def errors_of(table: pd.DataFrame, metric: str, scope: str) -> pd.DataFrame:
    """One of the METRICS by setting, number of examples and seed."""
    return rows.with_settings(table[(table["metric"] == metric) & (table["scope"] == scope)])
