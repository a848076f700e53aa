"""huang2025, Figure 1b: does recursive self-training 5 -> 10 -> 20 -> 40 bring S5 to length 160?

Each stage trains at twice the length on the greedy answers of the model as it was when the stage began, without
access to the truth; how many of these self-labels are right is recorded. A second arm, which the paper does not have,
takes as many steps at length 5 with true answers: is self-training more than more training?
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from interp.claims.huang2025._runs import REACHED, THEORY, LegoRun, accuracy_rows, by_seed, reach, trained
from interp.core.claim import Claim, Item, register
from interp.core.judging import seed_verdict
from interp.core.verdict import Verdict
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from toy_models.lego.training import Stage

ID = "huang2025/fig1b"
SOLVES, FAILS = 0.9, 0.5
"""Accuracy at the longest length: above the first after the last stage, below the second before the first stage."""
GROWS = 0.0
"""log2 of the smallest factor by which every stage must extend the length reached, unless that is the longest."""
RIGHT = 0.9
"""The share of self-labelled sentences with every label right."""
ARMS = {
    "self": "self-labelled, doubled lengths",
    "same": "true labels, length 5",
}
Arm = Literal["self", "same"]
SMALLEST = 16
"""Smallest batch size at the longer lengths; batches shrink as sentences grow, down to this."""


@dataclass(frozen=True)
class Fig1b:
    """The run at the first length, and the stages after it for every arm and seed."""

    run: LegoRun
    doublings: int
    """Stages after the first length."""
    steps: int
    """Steps of each of these."""
    seeds: int


BASE = replace(THEORY, group="S5", steps=300)
PRESETS = {
    "smoke": Fig1b(
        replace(BASE, d_token=8, d_mlp=32, n_variables=24, first=3, steps=4, lengths=(5, 10, 20), n_test=8),
        doublings=2, steps=3, seeds=2,
    ),
    "cpu": Fig1b(BASE, doublings=3, steps=300, seeds=5),
    "paper": Fig1b(
        replace(BASE, d_token=64, d_mlp=1024, first=2000, steps=2000, n_test=1000), doublings=3, steps=2000, seeds=10
    ),
}  # fmt: skip


def items(preset: Fig1b) -> list[Item]:
    """One item for each arm and seed; the arms of a seed share its first stage's data and weights."""
    more = {"doublings": preset.doublings, "stage_steps": preset.steps}
    return [
        Item(f"{arm},{item.name}", {**item.parameters, **more, "arm": arm})
        for arm in ARMS
        for item in by_seed([replace(preset.run, change=ARMS[arm])], preset.seeds)
    ]


def later_stages(run: LegoRun, arm: Arm, doublings: int, steps: int) -> "list[Stage]":
    """The stages after the first length, with the learning rates of that length."""
    from toy_models.lego.training import Stage

    first = run.stages[-1]
    stages: list[Stage] = []
    for doubling in range(1, doublings + 1):
        factor = 1 if arm == "same" else 2**doubling
        size = max(first.batch_size // factor, SMALLEST)
        stages.append(
            replace(first, length=factor * run.length, batch_size=size, updates=steps, self_labelled=arm == "self")
        )
    return stages


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Tests the model at every length after every stage."""
    p = dict(item.parameters)
    arm, doublings, steps = p.pop("arm"), p.pop("doublings"), p.pop("stage_steps")
    run = LegoRun(**p)
    tables: list[pd.DataFrame] = []

    def test(point, model) -> None:
        if point.stage == 0:
            return
        stage = point.stage - 1
        place = {**run.labels, "update": point.update, "setting": setting(**run.settings, stage=stage)}
        tables.append(accuracy_rows(run, model, point.update, stage=stage))
        tables.append(table(metric="label_accuracy", value=point.label_accuracy, **place))

    trained(run, (), test, later_stages(run, arm, doublings, steps))
    return concat(tables)


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The longest length before and after, every stage's growth, the labels, and the other arm."""
    accuracy = with_settings(rows[rows["metric"] == "accuracy"])
    longest = accuracy[accuracy["length"] == accuracy["length"].max()]
    at = longest.pivot_table(index="unit", columns=["condition", "stage"], values="value")
    last, length = int(accuracy["stage"].max()), int(accuracy["length"].max())
    arms = {arm: f"theory, {name}" for arm, name in ARMS.items()}
    own, same = at[arms["self"]], at[arms["same"]]
    by_stage = ", ".join(f"{own[stage].mean():.2f}" for stage in own.columns)
    share = f"share of sentences of length {length} with all steps right"
    labels = with_settings(rows[(rows["metric"] == "label_accuracy") & (rows["condition"] == arms["self"])])
    labels = labels[labels["stage"] > 0].pivot_table(index="unit", columns="stage", values="value")
    growth = _growth(accuracy[accuracy["condition"] == arms["self"]])
    return [
        seed_verdict(
            ID, "before self-training the longest length is out of reach", own[0], share, FAILS, "below",
            f"mean by stage: {by_stage}", (0.0, 1.0),
        ),
        seed_verdict(
            ID, "after self-training it is solved", own[last], share, SOLVES, "above", f"mean by stage: {by_stage}",
            (0.0, 1.0),
        ),
        seed_verdict(
            ID, "every stage extends the length reached", growth.min(axis=1).dropna(),
            f"log2 of the factor by which a stage extends the length with {REACHED:g} solved, least of the stages "
            "that do not start at the longest", GROWS, "above",
            "median length by stage: " + _medians(accuracy[accuracy["condition"] == arms["self"]]),
        ),
        seed_verdict(
            ID, "the labels of its own are right", labels.min(axis=1),
            "share of self-labelled sentences with every label right, least of the stages", RIGHT, "above",
            "mean by stage: " + ", ".join(f"{labels[stage].mean():.3f}" for stage in labels.columns),
            (0.0, 1.0),
        ),
        seed_verdict(
            ID, "it is more than further training", own[last] - same[last],
            f"{share}: after self-training minus after as many steps at length 5", 0.0, "above",
            f"mean after as many steps at length 5: {same[last].mean():.2f}",
        ),
    ]  # fmt: skip


def _reached(accuracy: pd.DataFrame) -> pd.DataFrame:
    """log2 of the length reached, by seed (rows) and stage (columns)."""
    far = reach(accuracy).merge(accuracy[["unit", "update", "stage"]].drop_duplicates(), on=["unit", "update"])
    return far.pivot_table(index="unit", columns="stage", values="value")


def _growth(accuracy: pd.DataFrame) -> pd.DataFrame:
    """By seed and stage: what it adds to log2 of the length reached; missing if it starts at the longest."""
    far = _reached(accuracy)
    start = far.shift(1, axis=1)
    return (far - start).where(start < np.log2(accuracy["length"].max())).iloc[:, 1:]


def _medians(accuracy: pd.DataFrame) -> str:
    return ", ".join(f"{2**value:.0f}" for value in _reached(accuracy).median())


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The paper's figure, for each arm."""
    from interp.claims.huang2025._figures import draw_stages

    return {"self_training": draw_stages(with_settings(rows[rows["metric"] == "accuracy"]))}


register(
    Claim(
        id=ID,
        sentence=(
            "For the symmetric group, recursive self-training on the model's own greedy answers at lengths 10, 20 "
            "and 40 extends the solvable length at every stage, until it is near perfect at 160."
        ),
        test=(
            "By seed, free-running generation, all steps right: the accuracy at the longest length is below "
            f"{FAILS:g} before the first stage and above {SOLVES:g} after the last; every stage extends the length "
            f"with {REACHED:g} solved by a factor above {2**GROWS:g}; more than {RIGHT:g} of the self-labelled "
            "sentences are right at every stage. Beyond the paper: the accuracy at the longest length is higher "
            "than after as many steps at length 5. 95% intervals over seeds."
        ),
        deviations=(
            "As in huang2025/fig1a: 170 variables, tokens of width 32, an MLP of 512, fresh data, our own learning "
            "rates, the theory-like model; the group is learned at length 1 first. Training at length 5 stops early, "
            "while length 160 is out of reach; the paper trains until convergence and finds 160 out of reach then. "
            "cpu: 300 steps a stage, five seeds. paper: wider, 2000 steps a stage, ten seeds. The claim is about "
            "what each stage adds to the length reached before it, which does not need convergence at length 5. The "
            "smoke preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
