"""wen2024, Figure 11: without CoT, does every head become sparse, one after the other, before accuracy jumps?

In every solved run the entropy of each head is read at the first evaluation after the change point of validation
accuracy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wen2024._runs import ParityRun, ParityRuns, measure_run, outcomes
from interp.core.claim import Claim, register
from interp.core.verdict import Verdict, judged
from interp.statistics import cautious_mean, change_point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig11"
SPARSE = 0.5
"""Normalised entropy below which a head counts as sparse."""
ALL = 0.9
"""The share of heads that counts as all of them."""

_SMOKE = ParityRun(
    cot=False, n=8, k=2, heads=2, d_model=32, d_mlp=128, lr=3e-3, dataset_size=128, budget=16_384, eval_every=1024,
    n_held_out=32, stop_when_perfect=False,
)  # fmt: skip
_CPU = ParityRun(
    cot=False,
    n=16,
    k=4,
    heads=4,
    lr=3e-4,
    dataset_size=2_000,
    budget=800_000,
    n_held_out=1024,
    stop_when_perfect=False,
)
_PAPER = replace(
    _CPU, n=20, k=6, d_model=720, d_mlp=3072, lr=1e-4, dataset_size=50_000, budget=10_000_000, eval_every=20_480,
    n_held_out=2048,
)  # fmt: skip
PRESETS = {
    "smoke": ParityRuns((_SMOKE,), seeds=2),
    "cpu": ParityRuns((_CPU,), seeds=5),
    "paper": ParityRuns(
        tuple(replace(_PAPER, layers=layers, heads=heads) for layers, heads in ((1, 2), (2, 3), (4, 4))), seeds=5
    ),
}


def heads_at_the_jump(rows: pd.DataFrame) -> pd.DataFrame:
    """Entropy of every head at the first evaluation after the change point of accuracy; solved runs only."""
    runs = outcomes(rows)
    solved = runs[~runs["censored"]]
    found = []
    for run in solved.itertuples():
        of = rows[rows["run"] == run.run]
        accuracy = of[of["metric"] == "accuracy"].sort_values("samples")
        jump = change_point(accuracy["samples"].to_numpy(), accuracy["value"].to_numpy())
        entropy = of[(of["metric"] == "entropy_min") & (of["samples"] > jump)]
        found.append(entropy[entropy["samples"] == entropy["samples"].min()])
    return pd.concat([rows.iloc[:0], *found]).merge(solved[["run", "layers", "heads"]], on="run")


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """By architecture: the share of heads that are sparse when accuracy jumps."""
    runs, heads = outcomes(rows), heads_at_the_jump(rows)
    verdicts = []
    for (n_layers, n_heads), of in runs.groupby(["layers", "heads"]):
        at_jump = heads[(heads["layers"] == n_layers) & (heads["heads"] == n_heads)]
        shares = (at_jump["value"] < SPARSE).groupby(at_jump["unit"]).mean()
        verdicts.append(
            judged(
                cautious_mean(shares.to_numpy(float), rng=0, bounds=(0, 1)),
                claim=ID,
                part=f"all heads are sparse when accuracy jumps ({n_layers}L{n_heads}H)",
                quantity=f"share of heads with normalised entropy below {SPARSE:g} at the jump",
                threshold=ALL,
                direction="above",
                unit="seeds",
                note=f"{(~of['censored']).sum()} of {len(of)} runs solve the task; only these are judged",
            )
        )
    return verdicts


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """For the first seed of each architecture: accuracy, loss and the entropy of every head."""
    from interp.figures.style import training_curves

    drawn = {}
    for (layers, heads), group in outcomes(rows).groupby(["layers", "heads"]):
        run = group.sort_values("unit").iloc[0]
        title = f"Parity without CoT, n={run['n']}, k={run['k']}, {layers}L{heads}H, seed {run['unit']}"
        drawn[f"heads_{layers}L{heads}H"] = training_curves(rows[rows["run"] == run["run"]], title)
    return drawn


register(
    Claim(
        id=ID,
        sentence=(
            "Without CoT the entropy of the attention heads decreases while the loss is on its plateau; when all "
            "heads have become sparse, the loss drops to zero and accuracy jumps to 1."
        ),
        test=(
            "Solved runs; at the first evaluation after the change point of validation accuracy (best least-squares "
            f"step), the share of heads whose normalised entropy is below {SPARSE:g} exceeds {ALL:g}. 95% interval "
            "over seeds."
        ),
        deviations=(
            "cpu: (n, k) = (16, 4) instead of (20, 6), 2,000 repeated samples instead of 50,000, one layer with four "
            "heads of d_model 128 instead of up to 4L4H of 720, learning rate 3e-4 instead of 1e-4; five seeds "
            "instead of one. These are the runs without CoT of wen2024/fig1b. paper: three of the paper's "
            "architectures at its sizes, five seeds. The sentence is about the heads of one model at the moment of "
            "its own transition, so it should hold at any size. The smoke preset is far smaller still: it tests the "
            "code, not the claim."
        ),
        presets=PRESETS,
        items=lambda preset: preset.items,
        measure=measure_run,
        judge=judge,
        figures=figures,
    )
)
