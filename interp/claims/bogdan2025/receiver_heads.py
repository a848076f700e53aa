"""bogdan2025, receiver heads: are there receiver heads, beyond what places, lengths and chance make of any text?

A head's attention between the sentences of a trace is averaged, and each sentence gets a score: what it receives from
those at least four later. Heads whose scores have a high kurtosis over the sentences are receiver heads. Any text cut
into pieces gives some kurtosis, and the highest of hundreds of heads is high by choice: so heads are chosen on other
templates, and the same is computed at rotated boundaries and on the trace with its sentences permuted.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.bogdan2025._heads import NULLS, TRACE, VERSIONS, parts, summary
from interp.claims.bogdan2025._worlds_heads import WORLDS
from interp.core.claim import Claim, Item, Scale, register
from interp.core.problem_runs import TINY
from interp.core.trace_runs import CLUSTERED, LOOPS, Traces, items, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "bogdan2025/receiver-heads"
MEASURES = ("attention",)
PRESETS = {
    "smoke": Traces(TINY + "builtin", "builtin", 40, 40, MEASURES, least=5, gap=1, rotations=2),
    "cpu": Traces("builtin", "builtin", 96, 16, MEASURES, written=True, least=9),
    "paper": Traces(
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "HuggingFaceH4/MATH-500", 100, 4, MEASURES, written=True,
        max_new_tokens=8192, least=9,
    ),
}  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The kurtoses of every head, on each trace of a shard and under the nulls."""
    rows = measured(item)
    return rows[rows["metric"].isin(VERSIONS)].reset_index(drop=True)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Every head's kurtosis against its nulls, and each version of the excess."""
    from interp.claims.bogdan2025._figures import heads_beyond_nulls, versions

    found = summary(rows)
    return {"heads": heads_beyond_nulls(found["kurtosis"], TRACE, NULLS), "versions": versions(found)}


register(
    Claim(
        id=ID,
        sentence=(
            "Some attention heads, receiver heads, narrow the attention of later sentences toward particular earlier "
            "sentences of a reasoning trace, and the same heads do so in other traces."
        ),
        method=(
            "Attention is averaged between the sentences of a trace, in every head, exactly and without a stored "
            "pattern. A sentence's score is what it receives from those at least four later; a head's score on a "
            "trace is the kurtosis of these. The receiver heads, the 16 of the highest mean kurtosis, are chosen on "
            "the other templates, and their kurtosis on the trace is compared with that of all heads; with their own "
            "on the same attention cut at rotated boundaries (as many pieces, as long, out of step with the "
            "sentences); and with their own on the trace with its sentences in random order. Reliability: the rank "
            "correlation over heads of one trace's kurtoses with the mean of the half of the templates it is not in. "
            "Controls: kurtosis of ranks within each reading sentence, without what length explains, and without the "
            f"first token. {CLUSTERED}"
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
            "On this model, the kurtosis of the receiver heads chosen on other templates is {exists} above that of "
            "all heads, {beyond_rotated} above their own at rotated boundaries and {beyond_permuted} above their own "
            "with the sentences permuted; one trace ranks the heads as the other half of the templates does with a "
            "rank correlation of {reliable}."
        ),
        deviations=(
            "The paper studies a reasoning model's long traces of MATH problems. cpu: SmolLM2-135M-Instruct is no "
            "reasoning model; asked in a chat to reason step by step about built-in GSM-symbolic problems, it writes "
            "texts of a few hundred tokens, whose answers are mostly wrong. Worked solutions of these problems have "
            "too few sentences for a kurtosis. Texts with fewer than nine sentences are left out. What is found says "
            "nothing about reasoning models. smoke: worked solutions, sentences next to each other count, and a tiny "
            "model with fresh weights, which tests the code, not the claim."
        ),
        clarity=(
            "The paper compares heads with one another. It does not say how spiky a head must be to be called a "
            "receiver head, nor what a text without an argument would give; that receiver heads are about these "
            "sentences in this order is our reading, and the thresholds are ours. The kurtosis of n scores is at "
            "most (n^2 - 3n + 3) / (n - 1) - 3, which is 3.1 for eight: short traces cannot show very spiky heads."
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
