"""huang2025, Figure 2: after training, does answer l attend to itself and to predicate l + 1, and to nothing else?

Attention is averaged over both heads and over the test sentences of a seed, as in the paper, for a standard block and
for a theory-like one. In the standard block the residual stream carries the answer's own clause as well, so attention
to it is not needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.huang2025._attention import attention_rows, target_rows
from interp.claims.huang2025._runs import STANDARD, THEORY, LegoRun, LegoRuns, by_group, trained
from interp.core.claim import Claim, Item, register
from interp.core.judging import seed_verdict
from interp.core.verdict import Verdict
from probes.rows import concat, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "huang2025/fig2"
CONCENTRATED = 0.8
"""The attention on both target clauses together."""
BAND = 0.2
"""The attention on the lesser of the two above which there are two bands."""


RUNS = (STANDARD, THEORY)
SMOKE = {"d_token": 8, "d_mlp": 32, "n_variables": 12, "first": 3, "steps": 4, "n_test": 8}
PAPER = {"d_token": 64, "d_mlp": 1024, "first": 2000, "steps": 20_000, "n_test": 100}
PRESETS = {
    "smoke": LegoRuns(tuple(replace(run, **SMOKE) for run in RUNS), seeds=2),
    "cpu": LegoRuns(RUNS, seeds=5),
    "paper": LegoRuns(tuple(replace(run, **PAPER) for run in RUNS), seeds=10),
}


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The whole map, and the attention on the two targets."""
    run = LegoRun(**item.parameters)
    model = trained(run)
    return concat([target_rows(run, model, run.length), attention_rows(run, model)])


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """For each model and group: the mass on both targets, and on the lesser one."""
    targets = with_settings(rows[rows["metric"].isin(["predicate", "answer"])])
    by_target = targets.pivot_table(index=["condition", "group", "unit"], columns="metric", values="value")
    verdicts = []
    for keys, of_run in by_target.groupby(["condition", "group"]):
        condition, group = keys  # pyright: ignore[reportGeneralTypeIssues]
        by_unit = of_run.droplevel(["condition", "group"]).sort_index()
        note = f"on predicate l+1 {by_unit['predicate'].mean():.2f}, on answer l {by_unit['answer'].mean():.2f}"
        verdicts += [
            seed_verdict(
                ID, f"{condition} model, {group}: attention is on the two targets",
                by_unit.sum(axis=1).clip(upper=1.0),
                "attention of answer l on itself and on predicate l+1, mean over l", CONCENTRATED, "above", note,
                (0.0, 1.0),
            ),
            seed_verdict(
                ID, f"{condition} model, {group}: there are two bands", by_unit.min(axis=1),
                "attention of answer l on the lesser of the two, mean over l", BAND, "above", note, (0.0, 1.0),
            ),
        ]  # fmt: skip
    return verdicts


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The paper's maps, for both models and groups."""
    from interp.claims.huang2025._figures import draw_maps

    return {"maps": draw_maps(with_settings(rows[rows["metric"] == "clause_attention"]), "condition")}


register(
    Claim(
        id=ID,
        sentence=(
            "At convergence attention has two clear diagonals: answer l attends to the answer clause l and to the "
            "predicate clause l + 1, for C6 and for S5."
        ),
        test=(
            f"By seed, at the training length, mean over heads, sentences and answers: the attention on both targets "
            f"together exceeds {CONCENTRATED:g}, and that on the lesser of the two {BAND:g}, for both models and "
            "groups. 95% intervals over seeds."
        ),
        deviations=(
            "The paper shows one model for each group and gives no numbers: what counts as two bands is ours. Sizes "
            "and training as in huang2025/fig1a (170 variables, tokens of width 32, an MLP of 512, our own learning "
            "rates; the group is learned first, at length 1, where the paper seems to train at length 5 from the "
            "start). cpu: 600 steps at length 5, five seeds. paper: wider and longer, ten seeds. The statement is "
            "about attention at convergence, which these runs approach and need not reach. The smoke preset is far "
            "smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=by_group,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
