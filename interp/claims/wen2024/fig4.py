"""wen2024, Figure 4: does repeated data teach parity without CoT, and do heads help more than layers?

Runs without CoT repeat a small dataset for the paper's number of epochs. Three comparisons: the share of one-layer
configurations that learn the task; m layers of one head against one layer of m heads, seed by seed; and the best
configuration without CoT against CoT. That this training can learn without CoT at all is shown by two secret bits.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import BatchRun, ParityRuns, measure_run, outcomes
from interp.claims.wen2024._worlds_repeated import repeated_data
from interp.claims.wen2024.fig5_size import SOLVED
from interp.core.claim import Claim, Scale, World, register
from interp.core.judging import SHARE, UNBOUNDED, mean_over, share_of, typical_of
from interp.core.loops import Loop, evaluations
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig4"
MOST = 0.5
"""More than this share of the configurations must solve the task without CoT."""
COT_SAVES = 10.0
"""The factor by which CoT must need fewer epochs than the best configuration without."""
EPOCHS = 1_000
"""Epochs that the paper trains for."""
EASY = 2
"""Secret bits that the same training must learn without CoT."""
LOOPS = (
    Loop("steps", lambda p: p["budget"] / p["batch"], lambda p, n: {"budget": n * p["batch"]}),
    evaluations("eval_every", of="budget", inputs="n_held_out"),
)
"""What a run repeats."""

_SMOKE = BatchRun(
    cot=False, n=8, k=3, heads=2, d_model=32, d_mlp=128, lr=3e-3, dataset_size=128, budget=16_384, eval_every=1024,
    n_held_out=32, batch=64,
)  # fmt: skip
_CPU = BatchRun(
    cot=False, n=16, k=4, d_model=120, d_mlp=512, dataset_size=2_000, budget=2_000_000, eval_every=8_000,
    n_held_out=1024, decay_over=2_000_000, batch=128,
)  # fmt: skip
_PAPER = BatchRun(
    cot=False, n=20, k=6, d_model=720, d_mlp=3072, dataset_size=10_000, budget=10_000_000, eval_every=10_000
)
PRESETS = {
    "smoke": ParityRuns(
        (
            _SMOKE,
            replace(_SMOKE, heads=1, layers=2),
            replace(_SMOKE, heads=1, k=EASY),
            replace(_SMOKE, cot=True, heads=1),
        ),
        seeds=2,
    ),
    "cpu": ParityRuns(
        (
            replace(_CPU, layers=2, budget=800_000),
            *(replace(_CPU, heads=heads) for heads in range(1, 5)),
            replace(_CPU, k=EASY),
            replace(_CPU, cot=True, eval_every=2_000, budget=400_000),
        ),
        seeds=12,
    ),
    "paper": ParityRuns(
        (
            *(replace(_PAPER, layers=layers, heads=heads) for layers in range(1, 5) for heads in range(1, 5)),
            replace(_PAPER, k=EASY),
            replace(_PAPER, cot=True, lr=1e-5),
        ),
        seeds=12,
    ),
}


def parts(preset: ParityRuns) -> list[Part]:
    """How many configurations learn, what a head and what a layer buys, what CoT saves, and an easier problem."""
    hard = [run for run in preset.runs if not run.cot and run.k > EASY]
    longest = max(run.budget for run in hard)
    counted = tuple((run.layers, run.heads) for run in hard if run.budget == longest)
    sufficient = longest / hard[0].dataset_size >= EPOCHS
    learns = Part(
        key="learns",
        name="repeated data teaches parity without CoT",
        role="paper",
        source="4.2: most of the transformer architectures achieve perfect accuracy given sufficient epochs",
        primary=True,
        quantity=f"share of {len(counted)} configurations that end at a test accuracy of {SOLVED:g} or more, by seed",
        estimate=partial(share_learning, counted=counted, sufficient=sufficient),
        direction="above",
        threshold=MOST,
        why="the text's 'most' (the caption has 'almost all')",
        unit="seeds",
        note=_by_configuration,
    )
    heads = Part(
        key="heads",
        name="adding heads helps more than adding layers",
        role="paper",
        source="Figure 4: adding more heads is more effective than adding layers",
        primary=True,
        quantity=f"share of seeds at which (1 layer, m heads) is at {SOLVED:.0%} before (m layers, 1 head), of those "
        "at which either is",
        estimate=partial(heads_first, within=min(run.budget for run in hard)),
        direction="above",
        threshold=0.5,
        why="more effective: sooner at more seeds than not",
        unit="seeds",
        note=_by_configuration,
    )
    cot = Part(
        key="cot",
        name="CoT is by far the faster",
        role="paper",
        source="4.2: CoT is by far the most effective accelerator",
        primary=True,
        quantity=f"log10 of samples to {SOLVED:.0%} without CoT (best configuration) / with, median over seeds",
        estimate=saving,
        direction="above",
        threshold=float(np.log10(COT_SAVES)),
        why="'by far': an order of magnitude",
        unit="seeds",
        note=_epochs,
    )
    easier = Part(
        key="easier",
        name=f"without CoT the same training learns {EASY} secret bits",
        role="control",
        quantity=f"share of seeds that end at a test accuracy of {SOLVED:g} or more at k={EASY}, 1L1H",
        estimate=share_of_easy,
        direction="above",
        threshold=MOST,
        why="a failure says something of the problem only if the same data, epochs and rate can succeed at all",
        unit="seeds",
    )
    return [learns, heads, cot, easier]


def summarised(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each run: `outcomes`, whether it `solved` the task, and the samples at which it was `near` to it.

    A run that never came near counts with its budget and is marked `never`.
    """
    runs = outcomes(rows)
    accuracy = rows[rows["metric"] == "accuracy"]
    first = runs["run"].map(accuracy[accuracy["value"] >= SOLVED].groupby("run")["samples"].min())
    return runs.assign(solved=runs["test_accuracy"] >= SOLVED, near=first.fillna(runs["samples"]), never=first.isna())


def _without(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[(runs["condition"] == "no_cot") & (runs["k"] > EASY)]


def share_learning(
    runs: pd.DataFrame, level: float, *, counted: tuple[tuple[int, int], ...], sufficient: bool
) -> Interval | NotMeasurable:
    """The share of configurations that learn; open above unless the budget is the paper's `sufficient` epochs."""
    without = _without(runs)
    without = without[[model in counted for model in zip(without["layers"], without["heads"])]]
    learned = without["solved"].groupby(without["unit"]).mean()
    return mean_over(learned, level, SHARE, open_above=not (sufficient or without["solved"].all()))


def heads_first(runs: pd.DataFrame, level: float, *, within: int) -> Interval | NotMeasurable:
    """By seed: whether m heads come near the solution before m layers do, at more m than the other way round."""
    table = _without(runs).assign(near=lambda of: of["near"].where(~of["never"] & (of["near"] <= within), np.inf))
    near = table.set_index(["layers", "heads", "unit"])["near"].sort_index()
    sizes = sorted((set(table["layers"]) & set(table["heads"])) - {1})
    deep, wide = (
        np.array([near.loc[at].to_numpy() for at in ats]) for ats in zip(*(((m, 1), (1, m)) for m in sizes))
    )
    ahead = (wide < deep).sum(0) - (wide > deep).sum(0)
    if not ahead.any():
        return NotMeasurable("at no seed was one of the two ahead")
    return share_of(list(ahead[ahead != 0] > 0), level)


def saving(runs: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """By seed: how many times (on a log10 scale) longer the best configuration without CoT takes than CoT."""
    cot = runs[runs["condition"] == "cot"].set_index("unit")
    best = _without(runs).sort_values(["near", "never"]).groupby("unit").first()
    logs = np.log10(best["near"] / cot["near"])
    found = typical_of(logs, level, UNBOUNDED)
    if isinstance(found, NotMeasurable):
        return found
    # An end that is the value of a seed with a budget in it may lie any farther out.
    above, below = logs[best["never"] & (logs <= found.high)], logs[cot["never"] & (logs >= found.low)]
    return found.opened(up=len(above) > 0, down=len(below) > 0)


def share_of_easy(runs: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """The share of seeds that learn the easy problem without CoT."""
    return share_of(runs.loc[(runs["condition"] == "no_cot") & (runs["k"] == EASY), "solved"], level)


def _by_configuration(runs: pd.DataFrame) -> str:
    groups = _without(runs).groupby(["layers", "heads"])
    said = [
        f"{layers}L{heads}H {of['solved'].sum()}/{len(of)} (median {of['near'].median():,.0f} samples)"
        for (layers, heads), of in groups
    ]
    return f"solved: {', '.join(said)}"


def _epochs(runs: pd.DataFrame) -> str:
    with_cot = runs[runs["condition"] == "cot"].sort_values("unit")
    return f"epochs with CoT: {', '.join(f'{e:.0f}' for e in with_cot['near'] / with_cot['dataset_size'])}"


def _world(learns: float, layers_cost: float, cot_saves: float, easier: float = 0.95) -> partial:
    return partial(
        repeated_data, runs=PRESETS["cpu"].runs, seeds=PRESETS["cpu"].seeds, easy=EASY, learns=learns,
        layers_cost=layers_cost, cot_saves=cot_saves, easier=easier,
    )  # fmt: skip


WORLDS = (
    World("a coin decides whether a run learns", {"learns": False, "easier": False}, _world(MOST, 1.0, 50.0, MOST)),
    World(
        "a layer is worth a head, and CoT saves a factor of ten",
        {"heads": False, "cot": False},
        _world(1.0, 1.0, COT_SAVES),
    ),
    World("one run in five learns", {"learns": False}, _world(0.2, 1.0, 50.0)),
    World(
        "layers help more, and CoT saves a factor of three",
        {"learns": True, "heads": False, "cot": False},
        _world(0.95, 0.4, 3.0),
    ),
    World(
        "as published", {"learns": True, "heads": True, "cot": True, "easier": True}, _world(0.95, 2.5, 50.0, 0.98)
    ),
)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Validation accuracy against epochs for each configuration, and what each seed took."""
    from interp.claims.wen2024._repeated_figures import draw_configurations

    return {"configurations": draw_configurations(rows, summarised(rows), SOLVED)}


register(
    Claim(
        id=ID,
        sentence=(
            "Without CoT, training repeatedly on a small dataset reaches perfect accuracy for almost all numbers of "
            "layers and heads; adding heads is more effective than adding layers; CoT needs only about 5 epochs."
        ),
        method=(
            "Runs without CoT repeat a small dataset until perfect validation or the end of the budget. The share "
            "of configurations that solve the task (test accuracy of at least 99%), by seed; whether one layer of m "
            "heads has 99% of the validation inputs right before m layers of one head, seed by seed, within the "
            "smaller of their budgets; samples to 99% of the best configuration without CoT over those with CoT, "
            "median over seeds. A run that ends at its budget counts with it and opens the interval on its side. "
            "Control: the same training on two secret bits."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n=8, k=3, d_model 32"),
            "cpu": Scale(
                "smaller",
                "(n, k) = (16, 4) for (20, 6), 2,000 samples for 10,000, d_model 120 for 720, 5 of 16 models",
            ),
            "paper": Scale("the paper's own numbers"),
        },
        finding=(
            "Share of one-layer configurations that solve the task without CoT within 1,000 epochs: {learns}; of "
            "seeds at which either reaches 99% within 400 epochs, two heads do so before two layers at {heads}; "
            "log10 of the factor that CoT saves over each seed's fastest configuration: {cot}."
        ),
        falls_short=(
            "That the configurations of two layers and more solve the task is not tested: of these only two layers "
            "of one head were trained, for at most 400 epochs. Heads and layers are compared at two of each alone, "
            "by which is sooner within 400 epochs; three and four are not. What CoT saves is over each seed's "
            "fastest run, which is less than over any one configuration."
        ),
        deviations=(
            "cpu: (n, k) = (16, 4) instead of (20, 6), 2,000 samples instead of 10,000 (3% and 1% of all inputs), "
            "d_model 120 and d_mlp 512, a sixth of the paper's; batches of 128 instead of 512, so that an epoch has "
            "16 updates (the paper's: 20). The paper's learning rate, 1e-4, falling to 0 over its 1,000 epochs; with "
            "CoT 1e-4 too, instead of 1e-5. The four one-layer configurations, and two layers of one head, for at "
            "most 400 epochs, to compare layers with heads at two of each; twelve seeds. paper: the paper's sixteen "
            "configurations and budget. The control is ours, and so is 99% for 'perfect': when the last validation "
            "input comes out right is a matter of chance (wen2024/fig3a). The smoke preset is far smaller still: it "
            "tests the code, not the claim."
        ),
        clarity=(
            "One curve for each configuration, without seeds. 'About 5 epochs' belongs to the paper's problem and "
            "dataset; on another it is the ratio to training without CoT that can be compared. 'More effective' is "
            "not defined: here it is sooner. Heads share d_model, as in GPT-2, so that a head adds no weights."
        ),
        history=(
            "A first preset, with d_model 64, learning rate 1e-3 and 250 epochs, solved 2 of 20 runs without CoT. A "
            "second, with d_model 128, batches of 512, learning rate 3e-4 and 300 epochs, five seeds, left all parts "
            "open: 1L1H 1/5, 1L2H 2/5, 1L4H 4/5, 2L1H 1/5 solved, log10 of what CoT saves 0.82; its means over seeds "
            "of censored samples could not be decided, hence counts and a median. Pilots of this one, single runs on "
            "seeds 0 to 3: of one-layer runs at 1e-4 on 2,000 samples 1L4H, 1L1H and 1L2H were at 99% after 0.8, 0.5 "
            "and about 1 million samples, k=3 with one head not within 2 million; on 655 samples at 1e-4 1L4H ended "
            "at 90%, at 3e-4 it was perfect after 0.23 million, k=3 ended at 61%, 1L1H (2e-4) at chance; 1L4H on "
            "2,000 samples at 3e-4 with batches of 256 at chance. Two layers of one head were at 88% after 128,000 "
            "samples; with CoT perfect after 25,000, as was k=2 without. Run with these parts on seeds 4000 to 4011: "
            "0.77 of one-layer configurations, two heads before two layers at 2 of 11 seeds, log10 of what CoT saves "
            "1.01 [0.78, 1.69]."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=lambda preset: preset.items,
        measure=measure_run,
        summary=summarised,
        parts=parts,
        worlds=WORLDS,
        published=lambda rows: rows[
            rows["metric"].isin(["sample_complexity", "censored_at", "test_accuracy", "accuracy"])
        ],
        figures=figures,
    )
)
