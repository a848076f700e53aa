"""huang2025, Figures 6 and 7: how does attention on the targets dilute with length and position, beyond training?

The paper draws its conclusions from one model for each group by eye; here every statement is a difference with an
interval over seeds. Its text contradicts itself on C6: attention on both targets decreases from length 10 to 20, yet
on the predicate it remains "fairly uniform across lengths and positions" for the cyclic group. The first statement is
the one judged for C6.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.huang2025._attention import target_rows
from interp.claims.huang2025._runs import STANDARD, THEORY, LegoRun, LegoRuns, by_group, trained
from interp.core.claim import Claim, Item, register
from interp.core.judging import seed_verdict
from interp.core.verdict import Verdict
from probes.rows import concat, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "huang2025/fig6-7"
VISIBLE = 0.02
"""The smallest change of attention that counts."""
QUARTER = 4
"""Early and late answers are the first and the last quarter of the sentence."""


RUNS = tuple(replace(run, lengths=(10, 20)) for run in (STANDARD, THEORY))
SMOKE = {"d_token": 8, "d_mlp": 32, "n_variables": 24, "first": 3, "steps": 4, "n_test": 8}
PAPER = {"d_token": 64, "d_mlp": 1024, "first": 2000, "steps": 20_000, "n_test": 100}
PRESETS = {
    "smoke": LegoRuns(tuple(replace(run, **SMOKE) for run in RUNS), seeds=2),
    "cpu": LegoRuns(RUNS, seeds=5),
    "paper": LegoRuns(tuple(replace(run, **PAPER) for run in RUNS), seeds=10),
}


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The attention on both targets by answer, at every test length."""
    run = LegoRun(**item.parameters)
    model = trained(run)
    return concat(target_rows(run, model, length) for length in run.lengths)


def changes(rows: pd.DataFrame) -> pd.DataFrame:
    """By condition, group, target and seed: attention lost from the shorter to the longer length (`length`), and from
    early to late answers at the longer (`place`)."""
    targets = with_settings(rows[rows["metric"].isin(["predicate", "answer"])])
    keys = ["condition", "group", "metric", "unit"]
    means = targets.pivot_table(index=keys, columns="length", values="value")
    short, long = means.columns.min(), means.columns.max()
    at_long = targets[targets["length"] == long]
    part = (at_long["answer"] * QUARTER // at_long["length"]).astype(int)
    quarters = at_long.assign(part=part).pivot_table(index=keys, columns="part", values="value")
    lost = pd.DataFrame(
        {"length": means[short] - means[long], "place": quarters[0] - quarters[QUARTER - 1], "at": means[long]}
    )
    return lost.reset_index()


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """For each model: dilution with length, then with place: S5 loses predicates, C6 answers."""
    lost = changes(rows)
    verdicts = []
    for condition, of_condition in lost.groupby("condition"):
        wide = of_condition.pivot_table(index="unit", columns=["metric", "group"], values=["length", "place", "at"])
        note = "; ".join(
            f"{group} {metric}: {wide['at', metric, group].mean():.3f} at the longer length, lost by length "
            f"{wide['length', metric, group].mean():.3f}, by place {wide['place', metric, group].mean():.3f}"
            for group in ("C6", "S5")
            for metric in ("predicate", "answer")
        )
        length, place = wide["length"], wide["place"]
        tests = {
            "S5: attention on the predicate falls with length": (length["predicate", "S5"], VISIBLE),
            "C6: attention on the predicate falls with length": (length["predicate", "C6"], VISIBLE),
            "S5: attention on the predicate falls with place": (place["predicate", "S5"], VISIBLE),
            "it does so more for S5 than for C6": (place["predicate", "S5"] - place["predicate", "C6"], 0.0),
            "attention on the answer falls more with length for C6 than for S5": (
                length["answer", "C6"] - length["answer", "S5"], 0.0,
            ),
            "attention on the answer falls more with place for C6 than for S5": (
                place["answer", "C6"] - place["answer", "S5"], 0.0,
            ),
        }  # fmt: skip
        quantities = {"length": "shorter minus longer test length", "place": "first minus last quarter, longer one"}
        for part, (values, threshold) in tests.items():
            kind = "length" if "length" in part else "place"
            verdicts.append(
                seed_verdict(
                    ID, f"{condition} model, {part}", values, f"attention on the target lost: {quantities[kind]}",
                    threshold, "above", note,
                )
            )  # fmt: skip
    return verdicts


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The paper's two figures for both models."""
    from interp.claims.huang2025._figures import draw_dilution

    return {"dilution": draw_dilution(with_settings(rows[rows["metric"].isin(["predicate", "answer"])]))}


register(
    Claim(
        id=ID,
        sentence=(
            "Beyond the training length attention on both targets dilutes with length; on the predicate it decays "
            "with position for S5 and not for C6, on the answer it is stable for S5 and sensitive for C6."
        ),
        test=(
            f"By seed, mean over answers and sentences: attention on the target predicate falls by more than "
            f"{VISIBLE:g} from length 10 to 20 (both groups), and for S5 from the first to the last quarter of the "
            "answers at 20; this fall is larger for S5 than for C6; on the answer both falls are larger for C6 than "
            "for S5. Both models. 95% intervals over seeds."
        ),
        deviations=(
            "Sizes and training as in huang2025/fig1a, for the standard block and for the theory-like one; test "
            "lengths 10 and 20 as in the paper. How much counts as visible is ours. cpu: 600 steps at length 5, five "
            "seeds. paper: wider and longer, ten seeds. Attention beyond the training length is compared within one "
            "model, between lengths and positions. The smoke preset is far smaller still: it tests the code, not the "
            "claim."
        ),
        presets=PRESETS,
        items=by_group,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
