"""wen2024, section 3.3 and Figure 3b: does the model use the sparse attention that CoT gives it?

The paper shows attention and does not intervene; this is its mechanism (Theorem 3: attention retrieves S[i] at step
i) put to a causal test, and the claim is ours. Attention is knocked out in every head of every layer: its weights on
the keys are set to zero and the row is renormalised. Answers are teacher-forced, so a wrong step does not spoil those
after it. In one layer a key hidden from one step cannot matter to another step; that no other step uses it is
therefore tested with the key hidden from every position.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from interp.claims.wen2024._runs import ParityRun, ParityRuns, outcomes, train_parity
from interp.core.claim import Claim, Item, register
from interp.core.verdict import Verdict, judged
from interp.statistics import cautious_mean
from probes.rows import concat, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/mechanism-knockout"
SOLVED = 0.99
"""Test accuracy at which a model has learned the task."""
DESTROYED = 0.6
"""Accuracy below which a step is destroyed; chance level is 0.5."""
INTACT = 0.95
"""Accuracy above which a step is intact."""
N_INPUTS = 256
EDITS = {
    "at_step": "S[i] hidden from step i",
    "everywhere": "S[i] hidden from every position",
    "random": "a random other key hidden from step i",
}
PARTS: tuple[tuple[str, str, bool, float, Literal["above", "below"]], ...] = (
    ("the step is destroyed", "at_step", True, DESTROYED, "below"),
    ("no other step is", "everywhere", False, INTACT, "above"),
    ("a random key does nothing", "random", True, INTACT, "above"),
)

_SMOKE = ParityRun(
    cot=True, n=8, k=2, d_model=32, d_mlp=128, lr=3e-3, budget=8_192, eval_every=1024, n_held_out=32,
    stop_when_perfect=False,
)  # fmt: skip
_CPU = ParityRun(cot=True, n=20, k=6, lr=3e-4, budget=100_000, stop_when_perfect=False)
_PAPER = replace(_CPU, d_model=720, d_mlp=3072, lr=6e-5, budget=1_000_000)
PRESETS = {
    "smoke": ParityRuns((_SMOKE,), seeds=2),
    "cpu": ParityRuns((_CPU, replace(_CPU, layers=2, heads=2)), seeds=5),
    "paper": ParityRuns((_PAPER, replace(_PAPER, layers=2, heads=2)), seeds=10),
}


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one model and measures the accuracy of every step under every knockout."""
    import torch

    from interp.core.probe_rows import knockout_rows
    from toy_models.engine.probing import step_knockouts
    from toy_models.engine.run_rows import outcome_rows

    run = ParityRun(**item.parameters)
    task, result = train_parity(run, work)
    found = step_knockouts(result.model, task, result.test[:N_INPUTS], torch.Generator().manual_seed(run.seed))
    return concat([outcome_rows(result, **run.labels), knockout_rows(found, run.labels)])


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """For every size of model: the step that loses its key, the other steps, and the steps that lose another key."""
    verdicts = []
    for (layers, heads), runs in outcomes(rows).groupby(["layers", "heads"]):
        solved = runs.loc[runs["test_accuracy"] >= SOLVED, "run"]
        found = with_settings(rows[(rows["metric"] == "step_accuracy") & rows["run"].isin(solved)])
        size = f"{layers} layer{'s' * (layers > 1)}, {heads} head{'s' * (heads > 1)}"
        note = f"{len(solved)} of {len(runs)} models reach {SOLVED:.0%} test accuracy; only these are judged"
        if len(found):
            worst = found[(found["scope"] == "everywhere") & (found["hidden"] != found["step"])]["value"].min()
            note += f"; the lowest accuracy of any other step is {worst:.2f}"
        for part, scope, own, threshold, direction in PARTS:
            verdicts.append(
                judged(
                    cautious_mean(_by_seed(found, scope, own), rng=0, bounds=(0, 1)),
                    claim=ID,
                    part=f"{size}: {part}",
                    quantity=f"accuracy of {'step i' if own else 'the other steps'}, {EDITS[scope]}",
                    threshold=threshold,
                    direction=direction,
                    unit="seeds",
                    note=note,
                )
            )
    return verdicts


def _by_seed(found: pd.DataFrame, scope: str, own: bool):
    """The mean accuracy over steps of each seed: of the steps whose key is hidden, or of all others."""
    if found.empty:
        return found["value"].to_numpy(float)
    of = found[(found["scope"] == scope) & ((found["hidden"] == found["step"]) == own)]
    return of.groupby("unit")["value"].mean().to_numpy(float)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The accuracy of every step under every knockout, mean over seeds."""
    from interp.figures.style import new_figure, styled

    found = with_settings(rows[rows["metric"] == "step_accuracy"])
    sizes = list(found.groupby(["layers", "heads"]))
    with styled(grid=False):
        figure = new_figure(3.3 * len(EDITS) + 1, 3.2 * len(sizes))
        all_axes = figure.subplots(len(sizes), len(EDITS), squeeze=False)
        for line, ((layers, heads), of_size) in zip(all_axes, sizes):
            for axes, (scope, title) in zip(line, EDITS.items()):
                of = of_size[of_size["scope"] == scope]
                grid = of.groupby(["hidden", "step"])["value"].mean().unstack("step")
                image = axes.imshow(grid, cmap="cividis", vmin=0.5, vmax=1)
                for (row, column), value in ((place, grid.to_numpy()[place]) for place in _places(grid.shape)):
                    axes.text(
                        column, row, f"{value:.2f}", ha="center", va="center", fontsize=7,
                        color="white" if value < 0.75 else "black",
                    )  # fmt: skip
                axes.set(xlabel="accuracy of step", ylabel=f"{layers}L{heads}H: key hidden of step")
                axes.set_xticks(range(grid.shape[1]), [str(at + 1) for at in range(grid.shape[1])])
                axes.set_yticks(range(grid.shape[0]), [str(at + 1) for at in range(grid.shape[0])])
                axes.set_title(title, fontsize=9)
        figure.colorbar(image, ax=all_axes.ravel().tolist(), label="accuracy (chance 0.5)", shrink=0.7)
        return {"knockout": figure}


def _places(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(row, column) for row in range(shape[0]) for column in range(shape[1])]


register(
    Claim(
        id=ID,
        sentence=(
            "Beyond the paper: with CoT each step attends to its own secret bit: knocking out the attention to S[i] "
            "destroys step i of the chain and no other step."
        ),
        test=(
            f"Models with a test accuracy of at least {SOLVED:g}, by size. Mean over steps, interval over seeds: the "
            f"accuracy of step i with S[i] hidden from it is below {DESTROYED:g}; that of the other steps with S[i] "
            f"hidden from every position is above {INTACT:g}; that of step i with as many random other visible keys "
            f"hidden from it is above {INTACT:g}. 95% intervals."
        ),
        deviations=(
            "The paper has no such experiment. cpu: n=20, k=6, width 128 and learning rate 3e-4, as in wen2024/fig8; "
            "one layer and one head, and two of each; five seeds. paper: the same with the paper's width of 720 and "
            "learning rate 6e-5, ten seeds. If a trained model computes step i from S[i], the knockout must show it "
            "at any width. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=lambda preset: preset.items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
