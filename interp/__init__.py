"""Is the claim true? Claims, statistics, figures, run store and command line.

    from pathlib import Path
    from interp import find_claims, run_claim

    (claim,) = find_claims(["wen2024/fig2"])
    verdicts = run_claim(claim, "smoke", Path("runs/fig2"))

Claim, Item, register_claim         a sentence, an experiment in items, a declared test; how yours becomes known
find_claims, run_claim              the claims by id; run one where it stopped, judge and draw it
Verdict, judged                     an outcome with its interval; the one that an interval implies
Interval, bootstrap_mean, paired_difference    intervals over seeds or problems; many more in `interp.statistics`
contrast, Side                      two conditions, head by head, paired by problem
load_run                            a finished `cotlens train`: model, task, test inputs
attention_map, training_curves      figures of a toy model's rows
write_report                        one HTML page from run directories

Names are imported when they are first used; what reads rows imports no torch.
"""

from typing import TYPE_CHECKING

from probes.base.lazy import lazy_names

if TYPE_CHECKING:
    from interp.core.claim import Claim, Item, find_claims
    from interp.core.claim import register as register_claim
    from interp.core.contrast import Side, contrast
    from interp.core.sweep import run_claim
    from interp.core.training_runs import load_run
    from interp.core.verdict import Verdict, judged
    from interp.figures.style import attention_map, training_curves
    from interp.report.page import write_report
    from interp.statistics.interval import Interval
    from interp.statistics.means import bootstrap_mean, paired_difference

__all__ = [
    "Claim",
    "Interval",
    "Item",
    "Side",
    "Verdict",
    "attention_map",
    "bootstrap_mean",
    "contrast",
    "find_claims",
    "judged",
    "load_run",
    "paired_difference",
    "register_claim",
    "run_claim",
    "training_curves",
    "write_report",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    __file__,
    moved={
        "interp.claim": "interp.core.claim",
        "interp.contrast": "interp.core.contrast",
        "interp.sweep": "interp.core.sweep",
        "interp.verdict": "interp.core.verdict",
        **{
            f"interp.figures.{name}": f"interp.figures.style.{name}"
            for name in ("attention_map", "new_figure", "save_figures", "styled", "training_curves")
        },
    },
)
