"""wen2024, Figure 3b: does step i attend to the i-th secret bit?

The paper says that the i-th output token "predominantly" attends to S[i]: more than half of its attention, and its
largest weight. One-hot attention is what Theorem 3 proves for the simplified block (see wen2024/thm3); since the
figure is said to validate it, it is tested as well, but does not decide the claim. Every model is trained well
beyond its first perfect validation, so that attention is judged after convergence, on test inputs, averaged over
steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import LOOPS, ParityRun, drawn_rows, measure_with_maps, with_maps
from interp.claims.wen2024._worlds import simulated_measures
from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.judging import MEDIANS, typical_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig3b"
PREDOMINANT = 0.5
"""The attention mass on S[i] above which all other tokens together have less."""
POINTS = 0.95
"""The share of steps whose largest weight must be on S[i]."""
ONE_HOT = 0.9
"""The attention mass on S[i] above which a row counts as one-hot."""
SOLVED = 0.99
"""Test accuracy at which a model has learned the task; the attention of one that has not is not judged."""
MEASURES = ("top1_hit", "dependency_mass", "test_accuracy")


@dataclass(frozen=True)
class Width:
    """A model width with the problem it is trained on."""

    d_model: int
    d_mlp: int
    n: int
    k: int
    lr: float
    budget: int


@dataclass(frozen=True)
class Fig3b:
    """One run for each width and seed, trained to the end of its budget."""

    widths: tuple[Width, ...]
    eval_every: int
    n_held_out: int
    seeds: int
    first_unit: int = 0


PRESETS = {
    "smoke": Fig3b((Width(32, 128, n=8, k=2, lr=3e-3, budget=16_384),), eval_every=1024, n_held_out=32, seeds=2),
    "cpu": Fig3b(
        (
            Width(720, 3072, n=20, k=10, lr=6e-5, budget=100_000),
            Width(128, 512, n=40, k=20, lr=1e-4, budget=300_000),
        ),
        eval_every=2048,
        n_held_out=2048,
        seeds=8,
    ),
    "paper": Fig3b(
        (Width(720, 3072, n=40, k=20, lr=6e-5, budget=1_000_000),), eval_every=2048, n_held_out=2048, seeds=5
    ),
}


def items(preset: Fig3b) -> list[Item]:
    """One run for each width and seed."""
    return with_maps([run.item for run in _runs(preset)], preset.first_unit)


def _runs(preset: Fig3b) -> list[ParityRun]:
    return [
        ParityRun(
            cot=True, n=width.n, k=width.k, seed=seed, d_model=width.d_model, d_mlp=width.d_mlp, lr=width.lr,
            budget=width.budget, eval_every=preset.eval_every, n_held_out=preset.n_held_out,
            stop_when_perfect=False,
        )
        for width in preset.widths
        for seed in range(preset.first_unit, preset.first_unit + preset.seeds)
    ]  # fmt: skip


def parts(preset: Fig3b) -> list[Part]:
    """By width: the share of steps whose largest weight is on S[i], and the attention mass there."""
    found = []
    for place, width in enumerate(preset.widths):
        suffix = "" if place == 0 else f"_d{width.d_model}"
        found += _parts_of(width, suffix)
    return found


def _parts_of(width: Width, suffix: str) -> list[Part]:
    where = f"d_model={width.d_model}, n={width.n}, k={width.k}"
    declared = {
        "mass": (
            f"predominantly on S[i] ({where})",
            "dependency_mass",
            PREDOMINANT,
            "Figure 3: the i-th output token of CoT predominantly attends to secret index S[i]",
            "predominantly: more than all other tokens together",
        ),
        "points": (
            f"points at S[i] ({where})",
            "top1_hit",
            POINTS,
            "4.1: the i-th output token primarily focuses on the i-th secret variable",
            "said of every output token: at most one step in twenty may have its largest weight elsewhere",
        ),
        "one_hot": (
            f"one-hot on S[i] ({where})",
            "dependency_mass",
            ONE_HOT,
            "4.1: with minimal attention given to other tokens; after Theorem 3: validated in our experiments",
            "less than a tenth for all other tokens; the theorem itself has n^-8, for a simplified block",
        ),
    }
    quantities = {
        "dependency_mass": "attention mass on S[i], mean over steps",
        "top1_hit": "share of steps whose largest attention weight is on S[i]",
    }
    return [
        Part(
            key=f"{key}{suffix}",
            name=name,
            role="paper",
            source=source,
            primary=key != "one_hot",
            quantity=quantities[metric],
            estimate=partial(attention, metric=metric, d_model=width.d_model),
            direction="above",
            threshold=threshold,
            why=why,
            unit="seeds",
            note=partial(_learned, d_model=width.d_model),
        )
        for key, (name, metric, threshold, source, why) in declared.items()
    ]


def by_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy and the attention of the steps, by width and seed."""
    found = with_settings(rows[rows["metric"].isin(MEASURES)])
    return found.groupby(["d_model", "unit", "metric"])["value"].mean().unstack("metric").reset_index()


def attention(models: pd.DataFrame, level: float, *, metric: str, d_model: int) -> Interval | NotMeasurable:
    """`metric` in the median of the models of a width that have learned the task."""
    of = models[models["d_model"] == d_model]
    solved = of[of["test_accuracy"] >= SOLVED]
    if len(solved) < 2:
        return NotMeasurable(f"{len(solved)} of {len(of)} models reach {SOLVED:.0%} test accuracy")
    return typical_of(solved[metric], level)


def _learned(models: pd.DataFrame, d_model: int) -> str:
    accuracy = models.loc[models["d_model"] == d_model, "test_accuracy"]
    return f"{(accuracy >= SOLVED).sum()} of {len(accuracy)} models reach {SOLVED:.0%} test accuracy; these count"


def _world(mass: float, hit: float) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which models have this attention mass and this share of hits on average."""
    preset = PRESETS["cpu"]
    runs = [run for run in _runs(preset) if run.seed == preset.first_unit]
    shape = (len(runs), preset.seeds)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        measures = {
            "top1_hit": generator.beta(30 * hit, 30 * (1 - hit), shape),
            "dependency_mass": generator.beta(60 * mass, 60 * (1 - mass), shape),
            "test_accuracy": np.ones(shape),
        }
        return simulated_measures(runs, measures)

    return rows


def _of_both(**truth: bool) -> dict[str, bool]:
    return {f"{key}{suffix}": value for key, value in truth.items() for suffix in ("", "_d128")}


WORLDS = (
    World(
        "as much attention elsewhere, and one step in twenty points elsewhere",
        _of_both(mass=False, points=False, one_hot=False),
        _world(mass=PREDOMINANT, hit=POINTS),
    ),
    World(
        "predominant, but a tenth of the attention elsewhere",
        _of_both(mass=True, points=True, one_hot=False),
        _world(mass=ONE_HOT, hit=0.995),
    ),
    World("one-hot", _of_both(mass=True, points=True, one_hot=True), _world(mass=0.98, hit=0.995)),
)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """For each width, the attention map and the training curves of the seed whose maps were kept."""
    from interp.figures.style import attention_map, training_curves

    drawn = {}
    kept = rows.loc[rows["metric"] == "attention", "run"].unique()
    for _, of_run in rows[rows["run"].isin(kept)].groupby("run", sort=False):
        settings = with_settings(of_run[of_run["metric"] == "test_accuracy"]).iloc[0]
        d_model = f"d_model={settings['d_model']}"
        title = f"Parity with CoT, n={settings['n']}, k={settings['k']}, {d_model}, seed {settings['unit']}"
        drawn[f"attention_{d_model}"] = attention_map(of_run, title)
        drawn[f"training_{d_model}"] = training_curves(of_run, title)
    return drawn


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """What the parts read of every model, and what the figures draw of the one whose maps were kept."""
    return pd.concat([rows[rows["metric"].isin(MEASURES)], drawn_rows(rows)]).sort_index()


register(
    Claim(
        id=ID,
        sentence=(
            "Trained with CoT, the i-th output token predominantly attends to the i-th secret variable, with "
            "minimal attention given to other tokens (Figure 3b, section 4.1); by Theorem 3, the attention of a "
            "simplified block is one-hot there."
        ),
        method=(
            f"Models with a test accuracy of at least {SOLVED:g}, trained to the end of their budget; on test "
            "inputs, averaged over steps, by seed: the attention mass on S[i], and the share of steps whose largest "
            "attention weight is there."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n=8, k=2, d_model 32"),
            "cpu": Scale("smaller", "d_model 720 on (n, k) = (20, 10) for (40, 20); d_model 128 for 720 on (40, 20)"),
            "paper": Scale("the paper's own numbers"),
        },
        finding=(
            "Attention mass on S[i], mean over steps, at the first width: {mass}; share of steps with their largest "
            "weight there: {points}."
        ),
        deviations=(
            "The paper shows one model of width 720 on (n, k) = (40, 20). cpu: width 128 at the paper's n and k, "
            "and the paper's width (720, MLP 3072) on the smaller problem (20, 10); eight seeds each. paper: the "
            "paper's width and problem, five seeds. The statement is about every row of a trained model's "
            "attention, so it should hold at either width. No preset has the dropout of the paper's published code. "
            "The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        clarity=(
            "'Predominantly' and 'minimal attention given to other tokens' have no number, and the figure is one "
            "query of one model. The theorem that the figure is said to validate is about a simplified block: there "
            "attention is one-hot to within n^-8."
        ),
        history=(
            "The first judge asked for one-hot attention (0.9) and for the largest weight; that the mass be "
            "predominant (0.5), which is the paper's word, was added after those were judged at cpu, so it is "
            "exploratory until fresh seeds. Training longer did not change the attention mass: 0.40 after 600,000 "
            "samples at width 128, 0.59 after 150,000 at width 720 (one seed each). Not tried: the dropout of the "
            "paper's published code. "
            f"{MEDIANS}"
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=items,
        measure=measure_with_maps,
        summary=by_seed,
        parts=parts,
        worlds=WORLDS,
        published=published,
        figures=figures,
    )
)
