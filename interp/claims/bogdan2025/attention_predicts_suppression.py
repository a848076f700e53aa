"""bogdan2025, attention suppression: does hiding the sentences that receiver heads look at change what follows?

Two measures of a sentence's importance, one by looking and one by intervening, over the sentences of a trace. Early
sentences and long ones are read more and matter more whatever they say; so the correlation is partial on both, and
beside hiding a sentence stands hiding a random span of its length next to it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.bogdan2025._suppression import SHOWN, parts, read_by_parts, summary
from interp.claims.bogdan2025._worlds_suppression import WORLDS
from interp.core.claim import Claim, Item, Scale, register
from interp.core.problem_runs import TINY
from interp.core.trace_runs import CLUSTERED, LOOPS, Traces, items, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "bogdan2025/attention-predicts-suppression"
MEASURES = ("attention", "suppression")
PRESETS = {
    "smoke": Traces(
        TINY + "builtin", "builtin", 40, 40, MEASURES, least=6, gap=1, rotations=0, permutations=0, controls=1
    ),
    "cpu": Traces("builtin", "builtin", 48, 16, MEASURES, written=True, least=9, rotations=0, permutations=0),
    "paper": Traces(
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "HuggingFaceH4/MATH-500", 100, 4, MEASURES, written=True,
        max_new_tokens=8192, least=9, rotations=0, permutations=0,
    ),
}  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """What every sentence receives in every head, and what hiding it does, of each trace of a shard."""
    return read_by_parts(measured(item))


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """All correlations, and the partial one by trace."""
    from interp.claims.bogdan2025._figures import by_trace, correlations

    found = summary(rows)
    return {
        "correlations": correlations(found, SHOWN),
        "traces": by_trace(found, "partial", "partial rank correlation within a trace"),
    }


register(
    Claim(
        id=ID,
        sentence=(
            "The sentences that receiver heads look at from afar are those whose suppression changes later ones: the "
            "two measures of a sentence's importance agree, beyond its place and its length."
        ),
        method=(
            "For every sentence of a trace: its vertical score, the attention it receives from sentences four or "
            "more later, in the receiver heads by kurtosis that the other templates chose; and its suppression, the "
            "log of the KL divergence of every later token's distribution when the sentence's keys are hidden from "
            "all later queries in all heads, averaged by sentence, minus the mean effect of all hidden sentences "
            "there. Spearman's correlation of both within the trace, partial on the sentence's number and tokens; "
            "mean over traces. Controls: the same with the effect of hiding a random span of equal length next to "
            "the sentence taken away; plain; attention of all heads in place of receiver heads; and over pairs of "
            f"sentences. {CLUSTERED}"
        ),
        scale={
            "smoke": Scale("another model", "a test of the code: a tiny model with fresh weights, a few solutions"),
            "cpu": Scale(
                "another model",
                "SmolLM2-135M-Instruct, which is not a reasoning model, on texts of a few hundred tokens that it "
                "wrote itself, for DeepSeek-R1-Distill-Qwen-14B and its long traces",
            ),
            "paper": Scale("the paper's own numbers", "its model, on MATH problems; not the same traces"),
        },
        finding=(
            "On this model, the rank correlation within a trace of what a sentence receives in receiver heads with "
            "what hiding it changes is {plain} as it is and {partial} given place and length; {beyond_control} with "
            "the effect of a random span next to it taken away, and {all_heads} for all heads."
        ),
        deviations=(
            "The paper studies a reasoning model's long traces of MATH problems. cpu: SmolLM2-135M-Instruct is no "
            "reasoning model; asked in a chat to reason step by step about built-in GSM-symbolic problems, it writes "
            "texts of a few hundred tokens, whose answers are mostly wrong; texts with fewer than nine sentences "
            "are left out. What is found says nothing about reasoning models. smoke: worked solutions, sentences "
            "next to each other count, and a tiny model with fresh weights, which tests the code, not the claim."
        ),
        clarity=(
            "The paper has each measure beside resampling; that the two agree with each other within a trace, given "
            "place and length, is our reading of their being views of the same anchors. A trace of ten sentences has "
            "six with a vertical score, so that its own correlation says little; the mean over traces is judged."
        ),
        history=(
            "Before the presets were settled, the model wrote texts of up to 320 tokens for problems 0 to 15: 14 "
            "stated a wrong answer, 2 were cut off, 7 had nine sentences or more. Nothing was measured on them."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        figures=figures,
    )
)
