"""huang2025, Figures 6 and 7: how does attention on the targets dilute with length and position, beyond training?

The paper draws its conclusions from one model for each group by eye; here every statement is a difference with an
interval over seeds. Its text contradicts itself: attention on both targets decreases from length 10 to 20, yet on the
predicate it remains "fairly uniform across lengths and positions" for the cyclic group, and on the answer stable for
the symmetric one. The first statement names no group, so it is judged on the mean over the two.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.huang2025._attention import target_rows
from interp.claims.huang2025._fig6_7 import QUARTER, WORLDS, parts, summary
from interp.claims.huang2025._parts import BLOCKS, DEVIATIONS, OURS, REGIME, TOO_SMALL
from interp.claims.huang2025._runs import LOOPS, STANDARD, THEORY, LegoRun, LegoRuns, by_group, trained
from interp.core.claim import Claim, Item, Scale, register
from interp.core.judging import MEDIANS
from probes.rows import concat, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "huang2025/fig6-7"
RUNS = tuple(replace(run, lengths=(10, 20)) for run in (STANDARD, THEORY))
SMOKE = {"d_token": 8, "d_mlp": 32, "n_variables": 24, "first": 3, "steps": 4, "n_test": 8}
PAPER = {"d_token": 64, "d_mlp": 1024, "first": 2000, "steps": 20_000, "n_test": 100}
PRESETS = {
    "smoke": LegoRuns(tuple(replace(run, **SMOKE) for run in RUNS), seeds=2),
    "cpu": LegoRuns(RUNS, seeds=8),
    "paper": LegoRuns(tuple(replace(run, **PAPER) for run in RUNS), seeds=10),
}


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The attention on both targets by answer, at every test length."""
    run = LegoRun(**item.parameters)
    model = trained(run)
    return concat(target_rows(run, model, length) for length in run.lengths)


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
        method=(
            "Trained at length 5, tested at 10 and 20, mean over heads and sentences. What a group loses with length "
            "is its attention on the target at 10 minus that at 20, mean over the answers; what it loses with place "
            f"is the attention of the first 1/{QUARTER} of the answers minus that of the last, at 20. Means over "
            "seeds; groups are paired by seed."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: 4 steps at length 5, tokens of width 8"),
            "cpu": Scale("smaller", f"600 steps at length 5, 170 variables, tokens of width 32; {OURS}"),
            "paper": Scale("smaller", f"20,000 steps at length 5, tokens of width 64; {OURS}"),
        },
        finding=(
            "Attention lost in our training regime, theory-like block: from length 10 to 20, by the target that "
            "loses less, {theory_dilution}; from early to late answers, by the predicate, {theory_s5_place} for S5 "
            "and {theory_c6_place} for C6; by the answer, more for C6 than for S5 by {theory_answer_place}."
        ),
        deviations=(
            f"{DEVIATIONS}"
            "The standard block and the theory-like one; test lengths 10 and 20 as in the paper. How much counts as "
            "visible is ours. That a model has learned length 5 cannot be told from these rows, which hold attention "
            "alone: the precondition is that its attention is on the targets at length 10. The same models are "
            "trained in huang2025/mechanism, where their accuracy at length 5 is measured. cpu: 600 steps at length "
            "5, eight seeds. paper: wider and longer, ten seeds. Attention beyond the training length is compared "
            f"within one model, between lengths and positions. {TOO_SMALL}"
        ),
        clarity=(
            f"{REGIME}"
            f"{BLOCKS}"
            "The paper says that attention on both targets decreases from length 10 to 20, and also that on the "
            "predicate it is fairly uniform across lengths for C6 and on the answer stable for S5; it gives no "
            "numbers. By its own account the decay of attention on the answer costs C6 nothing."
        ),
        history=(
            "Until the parts were declared, a fall of C6's attention on the predicate with length counted as the "
            "paper's statement, which says fairly uniform; that it is flat with place, and that both targets "
            "decrease, was not judged; both models counted alike. In that run attention diluted on the answer, not "
            "on the predicate, and more for S5 than for C6. Looked at in three models, one head prefers the "
            "predicate and the other the answer (0.75 to 1 of its attention), and it is the latter that dilutes. "
            f"{MEDIANS}"
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=by_group,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        figures=figures,
    )
)
