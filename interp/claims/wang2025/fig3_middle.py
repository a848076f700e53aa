"""wang2025, Figure 3 middle: does training on all hops at once teach the theory model one layer per step?

Algorithm 2 of appendix D (Theorem 8) is run on the mixture of all hops; the attention of layer t on the key of
Theorem 4's construction is measured just before and just after step t, the losses around the step of the readouts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wang2025._runs import SOLVED, TheoryRun, snapshot_rows, train_theory
from interp.core.claim import Claim, Item, register
from interp.core.judging import seed_verdict
from interp.core.verdict import Verdict
from probes.rows import with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wang2025/fig3-middle"
LEARNED = 0.9
"""The attention on the construction's key above which a layer counts as learned."""
UNTRAINED = 0.1
"""The attention below which a layer counts as untrained; uniform attention has 1/(kN), 0.025 for k=8, N=5."""
NO_LOSS = 0.1
"""The loss, in nats, below which it counts as zero."""
SOME_LOSS = 0.5
"""The loss, in nats, above which the readouts are not yet learned; one-hot logits of size 1 have 0.905."""


@dataclass(frozen=True)
class Fig3Middle:
    """One run of Algorithm 2 for every seed."""

    run: TheoryRun
    seeds: int


PRESETS = {
    "smoke": Fig3Middle(TheoryRun("mixture", 4, 3, 300, n_test=20), seeds=2),
    "cpu": Fig3Middle(TheoryRun("mixture", 8, 5, 800), seeds=5),
    "paper": Fig3Middle(TheoryRun("mixture", 8, 5, 60_000, one_query=True), seeds=5),
}


def items(preset: Fig3Middle) -> list[Item]:
    """One run for each seed."""
    return [replace(preset.run, seed=seed).item for seed in range(preset.seeds)]


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one model."""
    run = TheoryRun(**item.parameters)
    return snapshot_rows(run, train_theory(run))


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """Attention of layer t just after and just before step t; losses around the readouts' step; final errors."""
    found = with_settings(rows)
    mass = found[found["metric"] == "mass"]
    at_own, before_own = mass[mass["update"] == mass["layer"] + 1], mass[mass["update"] == mass["layer"]]
    last = int(found["update"].max())

    def worst(metric: str, step: int) -> pd.Series:
        return found[(found["metric"] == metric) & (found["update"] == step)].groupby("unit")["value"].max()

    waiting = found[(found["metric"] == "loss") & (found["update"] == last - 1)].groupby("unit")["value"].min()
    return [
        seed_verdict(
            ID, "layer t is learned at step t", at_own.groupby("unit")["value"].min(),
            "attention of layer t on the construction's key after step t, smallest over t", LEARNED, "above",
        ),
        seed_verdict(
            ID, "and not before", before_own.groupby("unit")["value"].max(),
            "attention of layer t on the construction's key before step t, largest over t", UNTRAINED, "below",
        ),
        seed_verdict(
            ID, "the loss waits for the readouts", waiting,
            "loss before the readouts' step (nats), smallest over hops", SOME_LOSS, "above",
        ),
        seed_verdict(
            ID, "then every loss goes to 0", worst("loss", last),
            "loss after the readouts' step (nats), largest over hops", NO_LOSS, "below",
        ),
        seed_verdict(
            ID, "and every hop is learned", worst("error", last),
            "share of wrong predictions at the end, largest over hops", SOLVED, "below",
        ),
    ]  # fmt: skip


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Loss, error and attention against the gradient steps."""
    from interp.claims.wang2025._figures import draw_steps

    found = with_settings(rows)
    size = found.iloc[0]
    title = f"Mixture of all hops, k={size['k']}, N={size['n']}, M={size['sequences']}"
    return {"steps": draw_steps(found[found["metric"] != "mass"], title, found[found["metric"] == "mass"])}


register(
    Claim(
        id=ID,
        sentence=(
            "Trained by Algorithm 2 on a mixture of all 2^l-hops with k=8, N=5, layer t is learned in the t-th "
            "gradient step, as under a curriculum, and once the readouts are trained 8-fold composition is learned."
        ),
        test=(
            "By seed, on test sequences: after step t the mean attention of layer t on the key of Theorem 4 exceeds "
            f"{LEARNED:g}, before it it is below {UNTRAINED:g}; before the readouts' step every loss exceeds "
            f"{SOME_LOSS:g} nats; after it every loss is below {NO_LOSS:g} and every error below {SOLVED:g}. 95% "
            "intervals over seeds."
        ),
        deviations=(
            "The paper does not state its number of sequences M or its constants; here beta_0 = 1 and the learning "
            "rate is 30 (kN)^2. cpu: the paper's k=8, N=5, with all kN queries of a sequence labelled instead of "
            "one, which is the same gradient with less noise; five seeds. paper: one query per sequence, five seeds. "
            "The claim is about the order in which layers are learned, which less noise does not change. The smoke "
            "preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
