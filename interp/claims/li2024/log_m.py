"""li2024, the factor log M of Theorems 2 and 3: does the required number of examples grow with that of patterns?

The proofs take a union over patterns: every query has to be right with probability 1 - M^-C. So two numbers of
examples are measured as M grows, all else being equal: that for an average error of 0.05, which an ideal vote gets
from about as many examples whatever M is, and that for all M queries of a task to be right at once with probability
0.95.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.li2024._factors import ENOUGH, Growth, exponents, needed_examples
from interp.claims.li2024._runs import Trained, errors_of, exam_rows, generators, seeds_of
from interp.claims.li2024._worlds import cells
from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "li2024/log-m"
TAU = RHO = 0.5
QUARTER, TENTH = 0.25, 0.1


@dataclass(frozen=True)
class LogM:
    """One model for each seed and number of patterns, as many in testing as in training."""

    patterns: tuple[int, ...]
    lengths: tuple[int, ...]
    n_queries: int
    """Of each seed."""
    seeds: int
    first_unit: int = 0
    alpha: float = 0.8
    updates: int = 20
    """Of size 10, for each pattern."""


LENGTHS = (5, 10, 20, 28, 40, 57, 80, 113, 160, 226)
PRESETS = {
    "smoke": LogM((10, 20), (5, 20, 80), n_queries=40, seeds=2, updates=6),
    "cpu": LogM((10, 20, 40, 60), LENGTHS, n_queries=4000, seeds=6),
    "paper": LogM((10, 20, 40, 80, 160), (*LENGTHS, 320), n_queries=40_000, seeds=20, updates=40),
}


def all_right(m: int) -> float:
    """The error of one query at which all m of a task are right with probability 0.95."""
    return 1 - (1 - ENOUGH) ** (1 / m)


def items(preset: LogM) -> list[Item]:
    """One number of patterns each, of all seeds."""
    return [
        Item(
            f"patterns={m}",
            {
                "m": m, "lengths": list(preset.lengths), "n_queries": preset.n_queries, "alpha": preset.alpha,
                "iterations": preset.updates * m, "seeds": list(seeds_of(preset)),
            },
        )
        for m in preset.patterns
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The errors of CoT and of votes at every number of examples."""
    from toy_models.incontext.errors import Errors
    from toy_models.incontext.training import Setup, sgd

    p = item.parameters
    m = p["m"]
    setup = Setup(d_x=m + 10, n_training=m, n_testing=m, rows=m, iterations=p["iterations"])
    space, streams = setup.spaces(generators(p["seeds"], "space")), generators(p["seeds"], "train")
    *_, (_, weights, _) = sgd(setup, space, setup.initial(streams), streams)
    models = Trained(setup, space, weights, p["seeds"])
    errors = Errors.of(TAU, RHO, setup.n_steps, m, "first")
    return exam_rows(
        models,
        errors,
        p["alpha"],
        p["lengths"],
        p["n_queries"],
        ["cot"],
        run=item.name,
        scope="test",
        votes=True,
        m=m,
    )


@dataclass(frozen=True)
class Needs:
    """The required numbers by number of patterns, along 1 / log M: for the average, and for all queries at once."""

    average: Growth
    every: Growth
    patterns: Float[np.ndarray, "value"]


def summary(rows: pd.DataFrame) -> Needs:
    """The required numbers of examples of the network."""
    found = errors_of(rows, "cot_error", "test").pivot(index=["m", "l"], columns="unit", values="value")
    patterns = np.sort(found.index.get_level_values("m").unique().to_numpy())[::-1]
    growths = {}
    for name, enough in (("average", lambda m: ENOUGH), ("every", all_right)):
        parts = [
            needed_examples(found.loc[m].index.to_numpy(float), found.loc[m].to_numpy(float)[None], enough(int(m)))
            for m in patterns
        ]
        growths[name] = Growth(1 / np.log(patterns), *(np.concatenate(part) for part in zip(*parts)))
    return Needs(growths["average"], growths["every"], patterns.astype(float))


def exponent(found: Needs, level: float, *, of: str) -> Interval | NotMeasurable:
    """p of needed ~ (log M)^p, the mean over seeds."""
    result = exponents(getattr(found, of), level)
    if isinstance(result, NotMeasurable):
        return result
    ends = float(result.value[0]), float(result.low[0]), float(result.high[0])
    return Interval(*ends, level, result.n, "mean of the seeds' slopes, t")


def _note(found: Needs, of: str) -> str:
    growth: Growth = getattr(found, of)
    pairs = zip(found.patterns, np.median(growth.needed, axis=1))
    return "median l by M: " + ", ".join(f"{m:.0f}: {median:.0f}" for m, median in pairs)


def parts(preset: LogM) -> list[Part]:
    """All queries at once, from above and below; and the average."""
    every = "exponent p of l ~ (log M)^p for all queries of a task to be right with probability 0.95, mean over seeds"
    source = "Theorem 2, (23) and (64): a union over patterns"
    common = {"role": "paper", "primary": True, "source": source, "quantity": every, "unit": "seeds"}
    return [
        Part(
            key="within", name="for all patterns at once no more than log M times as many examples are needed",
            estimate=partial(exponent, of="every"), direction="below", threshold=1 + QUARTER,
            why="the bound has log M; a quarter of a power is what bounded factors may add over a finite range",
            note=partial(_note, of="every"), **common,
        ),
        Part(
            key="grows", name="for all patterns at once more examples are needed when there are more",
            estimate=partial(exponent, of="every"), direction="above", threshold=TENTH,
            why="if not, log M would not be needed; the paper states no size, and crossings of rare errors come late "
            "by chance, the more so the rarer: a tenth of a power is not taken for growth", **common,
        ),
        Part(
            key="average",
            name="for a given average error the number of examples does not depend on M",
            role="ours",
            quantity=f"exponent p of l ~ (log M)^p for an average error of {ENOUGH:g}, mean over seeds",
            estimate=partial(exponent, of="average"),
            direction="within",
            threshold=0.0,
            margin=QUARTER,
            why="the CoT error (7) is an average over queries, and the votes of a query hardly change with M",
            unit="seeds",
            note=partial(_note, of="average"),
        ),
    ]  # fmt: skip


def _world(average: Callable[[int], float]) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which errors are 0.5 exp(-l / s), s being given by M."""
    cpu = PRESETS["cpu"]
    labels = {"run": "r", "condition": "cot", "scope": "test", "metric": "cot_error"}
    places = [
        (labels, {"m": m, "l": length}, 0.5 * float(np.exp(-length / average(m))), cpu.n_queries)
        for m in cpu.patterns
        for length in cpu.lengths
    ]
    simulated = cells(places)
    return lambda generator: simulated.rows(generator, cpu.seeds)


def _scale(needed: float, power: float) -> Callable[[int], float]:
    """s such that all queries are right from `needed` (log M / log 10)^power examples on."""
    return lambda m: needed * (np.log(m) / np.log(10)) ** power / float(np.log(0.5 / all_right(m)))


WORLDS = (
    World("a union over patterns", {"within": True, "grows": True, "average": True}, _world(lambda m: 9.0)),
    World("a quarter of a power too much", {"within": False, "grows": True}, _world(_scale(45.0, 1 + QUARTER))),
    World("M does not matter for all at once", {"within": True, "grows": False}, _world(_scale(60.0, 0.0))),
    World(
        "the average needs more too",
        {"average": False},
        _world(lambda m: 9.0 * float(np.log(m) / np.log(10)) ** QUARTER),
    ),
)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The required numbers of examples against M."""
    from interp.claims.li2024._training_figures import against_patterns

    found = summary(rows)
    return {"required": against_patterns(found.patterns, {"average": found.average, "every": found.every})}


register(
    Claim(
        id=ID,
        sentence="The number of testing examples that CoT needs is of the order of (alpha' tau rho)^-2 log M.",
        method=(
            "Theory models are trained and examined on tasks over M patterns, M from 10 to 60, all errors being in "
            f"the first step with alpha' = 0.8, tau = {TAU:g}, rho = {RHO:g}. The required number of examples is "
            f"that beyond which the error of a query stays below {ENOUGH:g}, and that beyond which it stays below "
            "what lets all M queries of a task be right with probability 0.95; growth is the slope over log log M, "
            "by seed."
        ),
        deviations=(
            "The paper does not vary M in testing. As many patterns in testing as in training, d = M + 10. The "
            "rival has the same probability at every M and the rest is spread over the other patterns, so that "
            "there are not more rivals but weaker ones. Updates grow with M, as li2024/thm1 finds they must. Steps "
            "are of size 10. cpu: 6 seeds of 4000 queries. paper: 20 seeds of 40,000. The smoke preset is far "
            "smaller still: it tests the code, not the claim."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: two numbers of patterns, 2 seeds of 40 queries"),
            "cpu": Scale("the paper's own numbers", "its M = 20 and three others; 6 seeds of 4000 queries"),
            "paper": Scale("the paper's own numbers", "its M = 20 and four others; 20 seeds of 40,000 queries"),
        },
        presets=PRESETS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        finding=(
            "The number of examples with which all M queries of a task are right grows as the power {within} of log "
            "M; that for a given average error as the power {average}."
        ),
        worlds=WORLDS,
        published=lambda rows: rows[rows["metric"].isin(["cot_error", "cot_vote_error"])],
        clarity=(
            "At given tau and rho only so many patterns can rival the right one, (1 - tau) / (tau (1 - rho)), so "
            "log M can enter through the union over queries alone; the error (7) that the theorem is about is an "
            "average over them, which is zero only if all are right."
        ),
        history=(
            "A first run of this size had M = 5, 10, 20 and 40. With M = 5 the share alpha = 0.4 of training is "
            "close to the chance 1/M, at which attention hardly leaves the other steps (li2024/thm1), and the model "
            "needed 67 examples on average where the others needed 38 to 41; it was left out, and M = 60 taken in. "
            "Growth then had to exceed 0, and now a tenth: in simulated worlds where M does not matter, rare errors "
            "made the slope positive too often."
        ),
        figures=figures,
    )
)
