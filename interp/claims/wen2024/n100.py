"""wen2024, section 4.1: among a hundred bits, does training without CoT fail where CoT succeeds?

A failure is claimed, so the share of seeds whose run without CoT ends at its budget is estimated; that budget is a
multiple of what the same seed takes with CoT, or it says nothing. A model that learned nothing at all among a
hundred bits would fail as well: the same training must find a single secret bit.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import LOOPS, ParityRuns, RecipeRun, measure_run, outcomes
from interp.claims.wen2024._worlds import simulated_outcomes
from interp.claims.wen2024.fig9 import figures
from interp.core.claim import Claim, Scale, World, register
from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

ID = "wen2024/n100"
MOST = 0.5
"""The share of seeds that must succeed, or fail."""
SAVES = 2.0
"""The factor in samples by which CoT must at least be ahead for a budget that ended first to say anything."""
EASY = 1
"""Secret bits that the same training learns without CoT."""

_SMOKE = RecipeRun(
    cot=False, n=16, k=4, d_model=32, d_mlp=128, lr=3e-3, budget=16_384, eval_every=1024, n_held_out=32
)
_CPU = RecipeRun(
    cot=False, n=100, k=4, d_model=720, d_mlp=3072,
    budget=400_000, eval_every=8192, n_held_out=1024, decay_over=10_000_000,
)  # fmt: skip
_PAPER = replace(_CPU, budget=10_000_000, eval_every=2048, n_held_out=2048)


def _runs(of: RecipeRun) -> ParityRuns:
    """Four bits without CoT and with it, and one without."""
    often = replace(of, eval_every=min(of.eval_every, 2048))
    return ParityRuns((of, replace(often, cot=True), replace(often, k=EASY)), seeds=8)


_HARDER = tuple(replace(_PAPER, k=k) for k in (6, 8, 10))
PRESETS = {
    "smoke": replace(_runs(_SMOKE), seeds=2),
    "cpu": _runs(_CPU),
    "paper": replace(_runs(_PAPER), runs=(*_runs(_PAPER).runs, *_HARDER)),
}


def parts(preset: ParityRuns) -> list[Part]:
    """Without CoT it fails, with CoT it succeeds and is far ahead, and without CoT one bit is found."""
    source = "4.1: without CoT, training exceeds the sample budget when k >= 4 (n = 100)"
    budget = max(run.budget for run in preset.runs)
    return [
        Part(
            key="fails",
            name="without CoT it fails",
            role="paper",
            source=source,
            primary=True,
            quantity=f"share of seeds at which no run without CoT of k >= 4 is perfect within {budget:,} samples",
            estimate=share_failing,
            direction="above",
            threshold=MOST,
            why="a failure is claimed of every run, so more than half of the seeds is the least that it can mean",
            unit="seeds",
            needs=("saves", "easier"),
            note=_accuracies,
        ),
        Part(
            key="succeeds",
            name="with CoT it succeeds",
            role="paper",
            source="4.1: however, with CoT, we can successfully train for any k",
            primary=True,
            quantity="share of seeds that reach perfect validation accuracy with CoT, k=4",
            estimate=partial(share_solved, cot=True),
            direction="above",
            threshold=MOST,
            why="more runs succeed than fail: the least that 'we can train' can mean",
            unit="seeds",
        ),
        Part(
            key="saves",
            name="CoT is far ahead",
            role="precondition",
            quantity="log10 of samples without / with CoT at k=4, paired by seed",
            estimate=saving,
            direction="above",
            threshold=float(np.log10(SAVES)),
            why=f"a run cut at less than {SAVES:g} times what CoT takes would be no failure",
            unit="seeds",
            note=_samples,
        ),
        Part(
            key="easier",
            name="without CoT the same training finds one secret bit",
            role="precondition",
            quantity=f"share of seeds that reach perfect validation accuracy without CoT, k={EASY}",
            estimate=partial(share_solved, cot=False),
            direction="above",
            threshold=MOST,
            why="a failure says something of the problem only if the same model, data and budget can succeed at all",
            unit="seeds",
        ),
    ]


def _without(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[(runs["condition"] == "no_cot") & (runs["k"] > EASY)]


def share_failing(runs: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """The share of seeds at which every run without CoT ends at its budget."""
    without = _without(runs)
    return share_of(without["censored"].groupby(without["unit"]).all(), level)


def share_solved(runs: pd.DataFrame, level: float, *, cot: bool) -> Interval | NotMeasurable:
    """The share of seeds that solve the task with CoT, or the easy one without."""
    chosen = runs["condition"] == "cot" if cot else (runs["condition"] == "no_cot") & (runs["k"] == EASY)
    return share_of(~runs.loc[chosen, "censored"], level)


def saving(runs: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """By seed: how many times (on a log10 scale) longer training takes without CoT; a budget is a lower bound."""
    cot = runs[runs["condition"] == "cot"].set_index("unit")
    without = _without(runs)
    without = without[without["k"] == cot["k"].min()].set_index("unit")
    logs = np.log10(without["samples"] / cot["samples"])
    return mean_over(logs, level, open_above=bool(without["censored"].any()), open_below=bool(cot["censored"].any()))


def _accuracies(runs: pd.DataFrame) -> str:
    accuracy = _without(runs)["test_accuracy"]
    return f"test accuracy between {accuracy.min():.2f} and {accuracy.max():.2f}"


def _samples(runs: pd.DataFrame) -> str:
    samples = runs[runs["condition"] == "cot"].sort_values("unit")["samples"]
    return f"samples with CoT: {', '.join(f'{value:,.0f}' for value in samples)}"


def _world(failing: float, solving: float, saves: float) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which seeds fail without CoT and succeed elsewhere with these probabilities, and CoT saves a factor."""
    runs, seeds = PRESETS["cpu"].runs, PRESETS["cpu"].seeds
    hard = np.array([[not run.cot and run.k > EASY] for run in runs])
    easy = np.array([[not run.cot and run.k == EASY] for run in runs])

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        shape = (len(runs), seeds)
        learns = generator.random(shape) >= np.where(hard, failing, 1 - solving)
        takes = _CPU.budget / saves * np.exp(generator.normal(0, 0.2, shape))
        samples = np.where(hard, 0.9 * _CPU.budget, np.where(easy, 50_000, takes))
        return simulated_outcomes(runs, np.where(learns, samples, np.inf), np.where(learns, 1.0, 0.5))

    return rows


WORLDS = (
    World(
        "a coin decides whether a seed fails without CoT, and whether it succeeds elsewhere",
        {"fails": False, "succeeds": False, "easier": False},
        _world(failing=MOST, solving=MOST, saves=4.0),
    ),
    World(
        "without CoT every seed succeeds, in nine tenths of twice as long",
        {"fails": False, "succeeds": True, "saves": False},
        _world(failing=0.0, solving=1.0, saves=SAVES),
    ),
    World(
        "as published",
        {"fails": True, "succeeds": True, "saves": True, "easier": True},
        _world(failing=1.0, solving=1.0, saves=4.0),
    ),
)


register(
    Claim(
        id=ID,
        sentence=(
            "At n=100 training without CoT exceeds the sample budget when k >= 4; with CoT it succeeds for any k."
        ),
        method=(
            "One layer with one head is trained on fresh samples of the parity of 4 secret bits out of 100, without "
            "and with CoT, and of one bit without, until the first perfect validation or the end of the budget."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n=16, d_model 32"),
            "cpu": Scale("smaller", "the paper's model; k=4 alone, the first 400,000 of 10^7 samples"),
            "paper": Scale("the paper's own numbers"),
        },
        finding=(
            "Without CoT {fails.estimate:.0%} of {fails.n} seeds fail at k=4 within the budget, with CoT "
            "{succeeds.estimate:.0%} succeed; log10 of the factor that CoT saves: {saves}. {easier.estimate:.0%} "
            "find one bit without CoT."
        ),
        falls_short=(
            "The failure is one within 400,000 of the paper's 10^7 samples; a run that learns later would count as "
            "one, and only k=4 is run. With CoT the paper has k = 20 to 100: k = 4 is below it, and at n=20 small k "
            "is where runs linger (wen2024/fig3a). One learning rate, where the paper takes the best of three."
        ),
        deviations=(
            "Problem and model are the paper's (n=100, k=4, d_model 720); the learning rate is 1e-4, the largest of "
            "three of which section 4.1 takes the best, so the failure is one at one rate. cpu: the first "
            "400,000 of 10^7 samples, over which the learning rate falls to 0, so that a run is the beginning of the "
            "paper's: a failure within them is what is judged, and a larger budget could overturn it. k=4 is the "
            "easiest that the sentence speaks of; larger k are in the paper preset. With CoT the paper has k=20 to "
            "100 (wen2024/fig3a). Eight seeds. The preconditions are ours. The smoke preset is far smaller still: it "
            "tests the code, not the claim."
        ),
        history=(
            "Declared and run before at d_model 128 on eight seeds (3100 on; 1e-4 without CoT, 3e-4 with it): all "
            "eight failed without CoT, but with CoT four of eight ended at the budget as well, their accuracy to and "
            "fro between 0.3 and 0.5; at 1e-4 one seed did the same. So the width is the paper's now. At 720 three "
            "pilots with CoT were perfect after 65,536, 49,152 and 49,152 samples (seeds 10 to 12), two of one bit "
            "without CoT after 16,384. That CoT is ahead and that one bit is found were parts of their own, and are "
            "preconditions now."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=lambda preset: preset.items,
        measure=measure_run,
        summary=outcomes,
        parts=parts,
        worlds=WORLDS,
        published=lambda rows: rows[
            rows["metric"].isin(["sample_complexity", "censored_at", "test_accuracy", "accuracy"])
        ],
        figures=figures,
    )
)
