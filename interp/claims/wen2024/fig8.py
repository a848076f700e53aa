"""wen2024, Figure 8: with two layers and two heads, does the first layer do the retrieval?

Heads of the first layer are compared with the dependency mask, the second layer's entropy with that of uniform
attention. The paper's entropy (eq. 1) is a minimum over all positions, including the rows of the inputs, on which no
answer depends; the mean over the steps of the chain, which is what the figure shows, is therefore judged beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun, ParityRuns, measure_run, outcomes
from interp.core.claim import Claim, Item, register
from interp.core.verdict import Verdict, judged
from interp.statistics import binomial_interval, cautious_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig8"
SOLVED = 0.99
"""Test accuracy at which a model has learned the task."""
HIT = 0.5
"""A head attends to a secret index if its largest weight is there on more than this share of the inputs."""
COVERS = 0.95
"""The share of secret indices that some head of the first layer must attend to."""
MOST = 0.5
"""The share of seeds at which the first layer must do so."""
UNIFORM = 0.8
"""Normalised entropy above which attention is nearly uniform."""
SNAPSHOTS = 8
NONE = np.array([])

_SMOKE = ParityRun(
    cot=True, n=8, k=2, layers=2, heads=2, d_model=32, d_mlp=128, lr=3e-3, budget=6_144, eval_every=1024,
    n_held_out=32, stop_when_perfect=False,
)  # fmt: skip
_CPU = ParityRun(cot=True, n=20, k=6, layers=2, heads=2, lr=3e-4, budget=120_000, stop_when_perfect=False)
PRESETS = {
    "smoke": ParityRuns((_SMOKE,), seeds=2),
    "cpu": ParityRuns((_CPU,), seeds=6),
    "paper": ParityRuns((replace(_CPU, d_model=720, d_mlp=3072, lr=6e-5, budget=1_000_000),), seeds=5),
}


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one model to the end of its budget and compares its attention with the dependency mask."""
    return measure_run(item, work, SNAPSHOTS if item.parameters["seed"] == 0 else 0)


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The secret indices each layer covers, and how uniform the second layer is."""
    runs = outcomes(rows)
    solved = set(runs.loc[runs["test_accuracy"] >= SOLVED, "run"])
    note = f"{len(solved)} of {len(runs)} models reach {SOLVED:.0%} test accuracy; only these are judged"
    of = rows[rows["run"].isin(solved)]
    covered = _covered(of)
    entropy = _by_layer(of, "row_entropy")
    minimum = _by_layer(of[of["samples"] == of["samples"].max()], "entropy_min")
    others = "; ".join(
        f"layer {layer + 1}: covers {covered[layer].mean():.2f}, entropy {entropy[layer].mean():.2f}, "
        f"minimum {minimum[layer].mean():.2f}"
        for layer in entropy.columns
    )
    complete = covered[0] > COVERS if 0 in covered else pd.Series(dtype=bool)
    note = f"{note}; {others}"
    uniform = {
        "the second layer is nearly uniform": (minimum, "minimum over all positions (eq. 1)"),
        "the second layer is nearly uniform where it answers": (entropy, "mean over the steps of the chain"),
    }
    return [
        judged(
            binomial_interval(int(complete.sum()), len(complete)) if len(complete) else cautious_mean(NONE, rng=0),
            claim=ID,
            part="the first layer covers every secret index",
            quantity=f"share of seeds at which heads of the first layer attend to S[i] at {COVERS:.0%} of the steps",
            threshold=MOST,
            direction="above",
            unit="seeds",
            note=note,
        ),
        *(
            judged(
                cautious_mean(values[1].to_numpy(float) if 1 in values else NONE, rng=0, bounds=(0, 1)),
                claim=ID,
                part=part,
                quantity=f"normalised entropy of the second layer, mean over heads, {reduction}",
                threshold=UNIFORM,
                direction="above",
                unit="seeds",
                note=note,
            )
            for part, (values, reduction) in uniform.items()
        ),
    ]


def _covered(rows: pd.DataFrame) -> pd.DataFrame:
    """By seed and layer: the share of steps at which some head's largest weight is on S[i]."""
    hits = rows[rows["metric"] == "top1_hit"]
    if hits.empty:
        return pd.DataFrame(dtype=float)
    best = hits.groupby(["unit", "layer", "query"])["value"].max() > HIT
    return best.groupby(["unit", "layer"]).mean().unstack("layer")


def _by_layer(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """By seed and layer: the mean of `metric` over heads, queries and keys."""
    return rows[rows["metric"] == metric].groupby(["unit", "layer"])["value"].mean().unstack("layer")


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """For the first seed: the attention map of every head, and the training curves."""
    from interp.figures.style import attention_map, training_curves

    run = outcomes(rows).sort_values("unit").iloc[0]
    of_run = rows[rows["run"] == run["run"]]
    title = f"Parity with CoT, n={run['n']}, k={run['k']}, 2L2H, seed {run['unit']}"
    return {"attention": attention_map(of_run, title), "training": training_curves(of_run, title)}


register(
    Claim(
        id=ID,
        sentence=(
            "In a two-layer two-head transformer trained with CoT the first layer is sparse, every secret variable "
            "being attended to by at least one head, while the second layer is almost uniform."
        ),
        test=(
            f"Models with a test accuracy of at least {SOLVED:g}. A head attends to S[i] if its largest weight is "
            f"there on more than {HIT:.0%} of the test inputs: in more than {MOST:.0%} of the seeds (exact interval) "
            f"some head of the first layer does so for more than {COVERS:.0%} of the steps. The second layer's "
            f"normalised entropy, mean over heads, exceeds {UNIFORM:g} (interval over seeds): as the paper's "
            "minimum over all positions, and as the mean over the steps of the chain, which was added after the "
            "first run, because the minimum also looks at the inputs' own rows. 95% intervals."
        ),
        deviations=(
            "The caption says n=20, k=6, the text (C.2) the problem of Figure 3b; every preset but smoke has the "
            "caption's. cpu: d_model 128 instead of 720, learning rate 3e-4 instead of 6e-5, six seeds instead of "
            "one picture. paper: the paper's width and learning rate, five seeds. The layers are compared within one "
            "model, so the width should not matter. The paper applies no entropy to this figure: the threshold for "
            "'almost uniform' is ours. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=lambda preset: preset.items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
