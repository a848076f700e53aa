"""huang2025, Figures 6 and 7: how does attention on the targets dilute with length and position, beyond training?

The paper draws its conclusions from one model for each group by eye; here every statement is a difference with an
interval over seeds. Its text contradicts itself: attention on both targets decreases from length 10 to 20, yet on the
predicate it remains "fairly uniform across lengths and positions" for the cyclic group, and on the answer stable for
the symmetric one. The first statement names no group, so it is judged on the mean over the two.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.huang2025._attention import target_rows
from interp.claims.huang2025._fig6_7 import QUARTER, WORLDS, parts, summary
from interp.claims.huang2025._loops import LOOPS
from interp.claims.huang2025._parts import BEFORE, BLOCKS, DEVIATIONS, REGIME, SETTLED_SCALE, SMALLER_RATE, TOO_SMALL
from interp.claims.huang2025._runs import (
    SETTLED_SEEDS,
    SETTLED_STANDARD,
    SETTLED_THEORY,
    SOLVES,
    SettledRun,
    by_group,
    presets,
    solved_rows,
    to_draw,
)
from interp.core.claim import Claim, Item, register
from interp.core.judging import MEDIANS
from probes.rows import concat

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "huang2025/fig6-7"
TESTED = (10, 20)
"""The lengths of the paper's figures."""
PRESETS = presets(SETTLED_STANDARD, SETTLED_THEORY, seeds=SETTLED_SEEDS)


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The attention on both targets by answer, at every test length; and the accuracy at the training length."""
    from interp.claims.huang2025._training import taught

    run = SettledRun(**item.parameters)
    found = taught(run)
    model = found.model()
    return concat([solved_rows(run, found), *(target_rows(run, model, length) for length in TESTED)])


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The paper's two figures for both models."""
    from interp.claims.huang2025._figures import draw_dilution

    return {"dilution": draw_dilution(to_draw(rows, "predicate", "answer"))}


register(
    Claim(
        id=ID,
        sentence=(
            "Beyond the training length attention on both targets dilutes with length; on the predicate it decays "
            "with position for S5 and not for C6, on the answer it is stable for S5 and sensitive for C6."
        ),
        method=(
            f"Models that solve at least {SOLVES:g} of the sentences of length 5, where they were trained; their "
            "attention at lengths 10 and 20, mean over heads and sentences. What a group loses with length is its "
            "attention on the target at 10 minus that at 20, mean over the answers; what it loses with place is the "
            f"attention of the first 1/{QUARTER} of the answers minus that of the last, at 20. Means over seeds; "
            "groups are paired by seed."
        ),
        scale=SETTLED_SCALE,
        finding=(
            "Attention lost, theory-like block: from length 10 to 20, by the target that "
            "loses less, {theory_dilution}; from early to late answers, by the predicate, {theory_s5_place} for S5 "
            "and {theory_c6_place} for C6; by the answer, more for C6 than for S5 by {theory_answer_place}."
        ),
        deviations=(
            f"{DEVIATIONS}"
            "The models of huang2025/fig1a at their end, the paper's at convergence; test lengths as in the paper. "
            "How much counts as visible is ours. Attention beyond the training length is compared within one "
            f"model, between lengths and positions. {TOO_SMALL}"
        ),
        falls_short=(
            "That attention of S5 on the answer is stable is judged only beside that of C6; the standard block "
            "is judged beside it and does not count."
        ),
        clarity=(
            f"{REGIME}"
            f"{BLOCKS}"
            "The paper says that attention on both targets decreases from length 10 to 20, and also that on the "
            "predicate it is fairly uniform across lengths for C6 and on the answer stable for S5; it gives no "
            "numbers. What counts as visible, 0.02 of attention, is ours: where it is refuted, a smaller drop, in "
            "the paper's direction too, is neither shown nor excluded. Where a target has little attention to begin "
            "with, as the answer has in the standard block (Figure 2), it can hardly lose as much, so "
            "`standard_dilution` tells nothing. By its own account the decay of attention on the answer costs C6 "
            "nothing."
        ),
        history=(
            f"{BEFORE}{SMALLER_RATE}"
            "Until the parts were declared, a fall of C6's attention on the predicate with length counted as the "
            "paper's statement, which says fairly uniform; that it is flat with place, and that both targets "
            "decrease, was not judged; both models counted alike. In that run attention diluted on the answer, not "
            "on the predicate, and more for S5 than for C6. Looked at in three models, one head prefers the "
            "predicate and the other the answer (0.75 to 1 of its attention), and it is the latter that dilutes. "
            f"{MEDIANS} "
            "On seeds 3000 to 3007 the target that loses less lost 0.004 [-0.005, 0.015] from length 10 to 20, and "
            "the predicate 0.006 [-0.008, 0.020] with place for S5: both refuted, at ten times the paper's rate."
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
