"""huang2025, section 4 and Theorem 4.1: are the predicate and the previous answer both necessary for the next answer?

By Theorem 4.1 (equation 8) attention concentrates on the two clauses from which the next state is computed; the paper
does not intervene, so necessity is our claim. Attention is knocked out in every head: the weight on a clause is set
to zero and the row is renormalised. Answer l loses predicate l + 1, or itself (it names the state y_l), or as many
random clauses that it does not need. In the theory-like block nothing bypasses attention, so both clauses must come
through it. In the standard block the residual stream carries the answer's own clause anyway; the same test there asks
whether attention to it matters all the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from interp.claims.huang2025._runs import STANDARD, THEORY, LegoRun, LegoRuns, by_group, trained
from interp.core.claim import Claim, Item, register
from interp.core.judging import seed_verdict
from interp.core.verdict import Verdict
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "huang2025/mechanism"
SOLVED = 0.95
"""Accuracy of the answers without a knockout at which a model is judged."""
DESTROYED = 0.4
"""Accuracy below which the answers are destroyed; chance level is 1/6 for C6 and 1/5 for S5."""
INTACT = 0.9
"""Accuracy above which they are intact."""
KNOCKOUTS = {
    "clean": "nothing hidden",
    "predicate": "predicate l+1 hidden",
    "answer": "answer l hidden",
    "random": "a random other clause hidden",
}
PARTS: tuple[tuple[str, str, float, Literal["above", "below"]], ...] = (
    ("the predicate is necessary", "predicate", DESTROYED, "below"),
    ("the previous answer is necessary", "answer", DESTROYED, "below"),
    ("a random clause is not", "random", INTACT, "above"),
)


SMOKE = {"d_token": 8, "d_mlp": 32, "n_variables": 12, "first": 20, "steps": 20, "n_test": 8}
PAPER = {"d_token": 64, "d_mlp": 1024, "first": 2000, "steps": 20_000, "n_test": 100}
PRESETS = {
    "smoke": LegoRuns((replace(THEORY, **SMOKE), replace(STANDARD, **SMOKE)), seeds=2),
    "cpu": LegoRuns((THEORY, STANDARD), seeds=5),
    "paper": LegoRuns((replace(THEORY, **PAPER), replace(STANDARD, **PAPER)), seeds=10),
}


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one decoder and measures the accuracy of every answer's state under every knockout."""
    import torch

    from probes.attention.dependence import without_self
    from probes.hooked.causal import answer_margin, knock_out, random_keys
    from toy_models.lego.task import STATE

    run = LegoRun(**item.parameters)
    model, task = trained(run), run.task
    batch = task.sample(run.n_test, run.generator(3))
    steps = batch.supervised
    answers = batch.answers - task.first_state + 1  # the state head's first logit is the blank's

    def read(output: torch.Tensor) -> torch.Tensor:
        return answer_margin(model.by_slot(output)[STATE][:, steps], answers)

    needed = task.dependencies(batch)
    predicate = without_self(needed)
    visible = torch.ones(task.n_ctx, task.n_ctx, dtype=torch.bool).tril()
    other = random_keys(predicate, visible & ~needed, run.generator(4))
    hidden = torch.stack([torch.zeros_like(needed), predicate, needed & ~predicate, other])
    right = (knock_out(model, batch.inputs, read, hidden) > 0).double().mean((1, 2)).tolist()
    return concat(
        table(
            metric=f"accuracy_{name}", value=value, setting=setting(**run.settings), n_tokens=answers.numel(),
            **run.labels,
        )
        for name, value in zip(KNOCKOUTS, right, strict=True)
    )  # fmt: skip


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """For each model and group: what is left without the predicate, without the answer, without another clause."""
    wide = with_settings(rows).pivot_table(index=["condition", "group", "unit"], columns="metric", values="value")
    verdicts = []
    for keys, of_run in wide.groupby(["condition", "group"]):
        condition, group = keys  # pyright: ignore[reportGeneralTypeIssues]
        by_unit = of_run.droplevel(["condition", "group"]).sort_index()
        solved = by_unit[by_unit["accuracy_clean"] >= SOLVED]
        note = f"{len(solved)} of {len(by_unit)} models answer at least {SOLVED:.0%} rightly; only these are judged"
        for part, name, threshold, direction in PARTS:
            verdicts.append(
                seed_verdict(
                    ID, f"{condition} model, {group}: {part}", solved[f"accuracy_{name}"],
                    f"accuracy of the answers' states, {KNOCKOUTS[name]}", threshold, direction, note,
                    (0.0, 1.0),
                )
            )  # fmt: skip
    return verdicts


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The accuracy of every seed under every knockout."""
    from interp.figures.style import SERIES, new_figure, styled

    found = with_settings(rows)
    panels = list(found.groupby(["condition", "group"]))
    with styled():
        figure = new_figure(2.7 * len(panels) + 0.6, 3.8)
        all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, ((condition, group), of) in zip(all_axes, panels):
            for place, (name, style) in enumerate(zip(KNOCKOUTS, SERIES)):
                values = of[of["metric"] == f"accuracy_{name}"].sort_values("unit")["value"]
                spread = [place + 0.08 * (i - (len(values) - 1) / 2) for i in range(len(values))]
                axes.plot(spread, values, linestyle="none", marker=style["marker"], color=style["color"])
            axes.axhline(1 / 6 if group == "C6" else 1 / 5, color="0.5", linestyle=":", linewidth=1)
            axes.set_xticks(range(len(KNOCKOUTS)), list(KNOCKOUTS.values()), rotation=35, ha="right", fontsize=8)
            axes.set(title=f"{condition} model, {group}", ylim=(-0.03, 1.03))
        all_axes[0].set_ylabel("accuracy of the answers' states\n(each mark a seed; dotted: guessing)")
        return {"mechanism": figure}


register(
    Claim(
        id=ID,
        sentence=(
            "Beyond the paper: the predicate clause l + 1 and the answer clause l, on which attention concentrates "
            "at answer l, are both necessary for the next answer, and no other clause is."
        ),
        test=(
            f"Models that answer at least {SOLVED:g} rightly; accuracy of the answers' states on fresh sentences, by "
            f"model and group, interval over seeds. Without predicate l + 1, and without answer l: below "
            f"{DESTROYED:g} each. Without a random other visible clause: above {INTACT:g}. 95% intervals."
        ),
        deviations=(
            "The paper has no such experiment. Sizes and training as in huang2025/fig2, at the training length 5. "
            "cpu: five seeds. paper: wider and longer, ten seeds. The query is the answer's own clause, so its state "
            "can still shape how the query weighs the other clauses when attention to itself is removed: the test "
            "bounds what attention to the answer contributes, in any model. The smoke preset is far smaller still: "
            "it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=by_group,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
