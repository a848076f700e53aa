"""Is the claim true? Claims, statistics, figures, run store and command line.

    from pathlib import Path
    from interp import find_claims, run_claim

    (claim,) = find_claims(["wen2024/fig2"])
    record = run_claim(claim, "smoke", Path("runs/fig2"))
    print(record.judgement.conclusion, record.judgement.finding)

Claim, Item, Scale, World           a sentence, an experiment in items, its size, simulated rows that test its judge
Part, mean_over, share_of           a statement declared with its threshold; estimates for it, over seeds or problems
register_claim, find_claims         how your claim becomes known; the claims by id
run_claim, Verdict                  run a claim where it stopped, judge and draw it; what was found of a part
Interval, bootstrap_mean            an estimate with its interval; many more in `interp.statistics`
contrast, Side, effects             two conditions, head by head, paired by problem; every pair in a measurement
load_run                            a finished `cotlens train`: model, task, test inputs
attention_map, training_curves      figures of a toy model's rows
write_report                        one HTML page from run directories

Names are imported when they are first used; what reads rows imports no torch.
"""

from typing import TYPE_CHECKING

from probes.base.lazy import lazy_names

if TYPE_CHECKING:
    from interp.core.claim import Claim, Item, Scale, World, find_claims
    from interp.core.claim import register as register_claim
    from interp.core.contrast import Side, contrast
    from interp.core.effects import effects
    from interp.core.judging import mean_over, share_of
    from interp.core.parts import Part
    from interp.core.sweep import run_claim
    from interp.core.training_runs import load_run
    from interp.core.verdict import Verdict
    from interp.figures.style import attention_map, training_curves
    from interp.report.page import write_report
    from interp.statistics.interval import Interval
    from interp.statistics.means import bootstrap_mean

__all__ = [
    "Claim",
    "Interval",
    "Item",
    "Part",
    "Scale",
    "Side",
    "Verdict",
    "World",
    "attention_map",
    "bootstrap_mean",
    "contrast",
    "effects",
    "find_claims",
    "load_run",
    "mean_over",
    "register_claim",
    "run_claim",
    "share_of",
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
