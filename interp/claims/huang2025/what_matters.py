"""huang2025, beyond the paper: is it simple transitivity, solvability or size that decides how far a group goes?

The paper compares C6 with S5, which differ in everything: 36 against 600 facts g(y) to learn, simply transitive or
not, solvable or not, six or five points. Here are pairs that differ in one thing: the same group acting on itself and
on fewer points (S3, A4); tables of the same size, one simply transitive and one not (C24 and S5); of the same size
and neither simply transitive, one solvable and one not (D12 and A5, D17 and S5).

The paper's own reason is distractors: other predicates that happen to give the right answer, so that training need
not avoid them. Their rate among random predicates is 1 over the number of points in every transitive action, whatever
the stabiliser; so the number of points is one of the sizes that are compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from interp.claims.huang2025._attention import target_rows
from interp.claims.huang2025._runs import (
    REACHED,
    THEORY,
    LegoRun,
    accuracy_rows,
    by_seed,
    evaluation_steps,
    reach,
    trained,
)
from interp.core.claim import Claim, Item, register
from interp.core.judging import seed_verdict
from interp.core.verdict import Verdict
from probes.rows import concat, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "huang2025/what-matters"
MATTERS = 0.5
"""log2 of the smallest ratio of lengths that counts: a factor of 1.4."""
PAIRS = {
    "the same group is better off simply transitive": (("S3-regular", "S3"), ("A4-regular", "A4")),
    "at as many facts, simply transitive is better": (("C24", "S5"),),
    "at as many facts, solvable is better": (("D12", "A5"), ("D17", "S5")),
}
"""Part of the verdict: pairs of groups, the one that should go farther first."""
SIZES: tuple[tuple[str, str, Literal["above", "below"]], ...] = (
    ("facts", "more facts shorten the length", "below"),
    ("points", "more points, hence fewer distractors, lengthen it", "above"),
)


@dataclass(frozen=True)
class WhatMatters:
    """One run for each group and seed."""

    run: LegoRun
    groups: tuple[str, ...]
    seeds: int


BASE = replace(THEORY, first=600, evaluations=3)
LADDER = ("S3", "S3-regular", "C6", "A4", "A4-regular", "D12", "A5", "C24", "D17", "S5")
PRESETS = {
    "smoke": WhatMatters(
        replace(
            BASE, d_token=8, d_mlp=32, n_variables=12, first=2, steps=2, evaluations=2, lengths=(5, 10), n_test=8
        ),
        LADDER, seeds=2,
    ),
    "cpu": WhatMatters(BASE, LADDER, seeds=5),
    "paper": WhatMatters(
        replace(BASE, d_token=64, d_mlp=1024, first=4000, steps=20_000, evaluations=20, n_test=1000),
        (*LADDER, "C5", "D5", "C12", "S4", "C2xC3", "C5xC4", "D5-regular", "S4-regular", "A5-regular"), seeds=10,
    ),
}  # fmt: skip


def items(preset: WhatMatters) -> list[Item]:
    """One item for each group and seed."""
    return by_seed([replace(preset.run, group=group) for group in preset.groups], preset.seeds)


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Tests one model at every evaluation, and measures its attention at the end."""
    run = LegoRun(**item.parameters)
    tables: list[pd.DataFrame] = []
    model = trained(
        run, evaluation_steps(run), lambda point, model: tables.append(accuracy_rows(run, model, point.update))
    )
    return concat([*tables[1:], target_rows(run, model, run.length)])


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """By group and seed: mean log2 of the length reached over the evaluations, the last loss, attention on targets.

    With the group's properties: facts |G||Y|, points |Y|, simply transitive, solvable.
    """
    from toy_models.lego.groups import group_action

    far = reach(with_settings(rows[rows["metric"] == "accuracy"])).groupby(["group", "unit"])["value"].mean()
    losses = with_settings(rows[rows["metric"] == "loss"]).sort_values("update")
    loss = losses.groupby(["group", "unit"])["value"].last()
    targets = with_settings(rows[rows["metric"].isin(["predicate", "answer"])])
    mass = targets.groupby(["group", "unit", "metric"])["value"].mean().groupby(["group", "unit"]).sum()
    found = pd.DataFrame({"reach": far, "loss": loss, "mass": mass}).reset_index()
    actions = {group: group_action(group) for group in found["group"].unique()}
    return found.assign(
        facts=[actions[group].n_elements * actions[group].n_points for group in found["group"]],
        points=[actions[group].n_points for group in found["group"]],
        simple=[actions[group].is_simply_transitive for group in found["group"]],
        solvable=[actions[group].is_solvable for group in found["group"]],
    )


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The pairs, by seed; then how the length changes with facts and points over all groups."""
    found = summary(rows)
    far = found.pivot_table(index="unit", columns="group", values="reach").sort_index()
    note = "median length on the way: " + ", ".join(f"{group} {2 ** far[group].median():.0f}" for group in far)
    verdicts = []
    for part, pairs in PAIRS.items():
        gaps = {f"{one} - {other}": far[one] - far[other] for one, other in pairs}
        each = "; ".join(f"{pair}: {gap.mean():.2f}" for pair, gap in gaps.items())
        quantity = f"log2 of the ratio of lengths with {REACHED:g} solved, mean over evaluations and pairs"
        mean = pd.DataFrame(gaps).mean(axis=1)
        verdicts.append(seed_verdict(ID, part, mean, quantity, MATTERS, "above", f"{each}; {note}"))
    slopes = found.groupby("unit").apply(_slopes, include_groups=False).sort_index()
    for column, part, direction in SIZES:
        verdicts.append(
            seed_verdict(
                ID, part, slopes[column],
                f"log2 of the length per doubling of the {column}, over all groups (least squares on both)",
                0.0, direction, note,
            )
        )  # fmt: skip
    return verdicts


def _slopes(of_seed: pd.DataFrame) -> pd.Series:
    """What doubling the facts or the points adds to log2 of the length, with the other held fixed."""
    design = np.column_stack([np.log2(of_seed["facts"]), np.log2(of_seed["points"]), np.ones(len(of_seed))])
    solution = np.linalg.lstsq(design, of_seed["reach"].to_numpy(float), rcond=None)[0]
    return pd.Series({"facts": solution[0], "points": solution[1]})


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The length reached by every group against facts, and against the attention on the targets."""
    from interp.claims.huang2025._figures import draw_ladder

    return {"ladder": draw_ladder(summary(rows))}


register(
    Claim(
        id=ID,
        sentence=(
            "The algebraic structure of the group action decides how far reasoning generalises: simply transitive "
            "actions go farther than others because these have distractors."
        ),
        test=(
            f"By seed, log2 of the length with {REACHED:g} solved, mean over the evaluations, exceeds that of the "
            f"other group of the pair by more than {MATTERS:g}: for S3 and A4 acting on themselves against their "
            "actions on 3 and 4 points; for C24 against S5; for solvable D12 and D17 against A5 and S5. Over all "
            "groups, by least squares on log facts and log points: the length falls with facts and rises with "
            "points. 95% intervals over seeds."
        ),
        deviations=(
            "The paper has no such experiment. Sizes and training as in huang2025/fig1a, theory-like model, the same "
            "steps for every group. cpu: ten groups, five seeds. paper: more groups, larger models, longer training, "
            "ten seeds. Groups are compared under equal training, so that what differs between them is the action "
            "alone. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
