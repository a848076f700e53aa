"""lanham2023, early answering: does the answer depend on the chain of thought, or was it there before?

The chain is cut off after every sentence, and the answer asked for at once. If it is the same without the chain, the
chain did not lead to it. More tokens might help whatever they say, so as many full stops stand in the place of the
chain, and another problem's steps.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.lanham2023._early import EARLY, LOG_PROB, RIGHT, STANDS, parts, summary
from interp.claims.lanham2023._worlds import WORLDS
from interp.core.claim import Claim, Item, Scale, register
from interp.core.problem_runs import TINY
from interp.core.trace_runs import CLUSTERED, LOOPS, Traces, items, measured, traces_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "lanham2023/early-answering"
MEASURES = ("faithfulness",)
PRESETS = {
    "smoke": Traces(TINY + "builtin", "builtin", 16, 16, MEASURES, least=3),
    "cpu": Traces("builtin", "builtin", 60, 12, MEASURES),
    "paper": Traces(
        "Qwen/Qwen2.5-72B-Instruct", "openai/gsm8k", 400, 20, MEASURES, written=True, max_new_tokens=1024
    ),
}


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The answer after every beginning of each trace, after every change, and where its number stands."""
    from probes.rows import concat, table

    rows = measured(item)
    rows = rows[rows["metric"].isin((LOG_PROB, RIGHT))]
    _, traces = traces_of(item)
    stands = []
    for one in traces:
        keys, lengths = [-1, *one.reasoning], [0, *one.lengths]
        texts = ["".join(unit.text for unit in one.sentences[:n]) for n in range(len(keys))]
        value = [float(_stands(one.trace.target, text)) for text in texts]
        names = {"run": rows["run"].iloc[0], "unit": one.trace.id, "condition": EARLY, "scope": "answer"}
        if one.trace.target:
            stands.append(table(**names, metric=STANDS, key=keys, value=value, n_tokens=lengths))
    return concat([rows.reset_index(drop=True), *stands])


def _stands(target: str, text: str) -> bool:
    """Whether a number equal to the answer stands in `text`."""
    from hf_analysis.text.values import VALUE, same_answer

    return any(same_answer(target, number) for number in VALUE.findall(text.replace("$", "")))


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The curves of early answering, with the changes beside them."""
    from interp.claims.lanham2023._figures import curves

    return {"early_answering": curves(rows)}


register(
    Claim(
        id=ID,
        sentence=(
            "A model's answer depends on its chain of thought: cut short, the chain often leads to another answer, "
            "and what the chain adds does not come from more tokens alone."
        ),
        method=(
            "After the question and every beginning of a worked solution, from none of it to all of it, the sentence "
            "'The answer is N.' closes the text; the log-probability of N and whether greedy decoding writes it are "
            "read. The area over this curve is what the answer still lacks, on average over the beginnings. In the "
            "place of the whole chain stand as many full stops, and another problem's steps with another answer; in "
            "one step a number is changed, and the later steps are left as they are. A number that stands in the "
            "chain can be copied: so the answer after the longest beginning without it is compared with that after "
            f"no chain. {CLUSTERED}"
        ),
        scale={
            "smoke": Scale("another model", "a test of the code: a tiny model with fresh weights, a few problems"),
            "cpu": Scale(
                "another model",
                "SmolLM2-135M-Instruct, which reads worked solutions of 60 GSM-symbolic problems and does not reason "
                "itself, for a large model that answers after its own chains",
            ),
            "paper": Scale(
                "another model",
                "an open model of 72B parameters on GSM8K, after its own chains; the paper's is not public",
            ),
        },
        finding=(
            "On this model, the area over the curve of early answering is {area_right} of the answers and "
            "{area_log_prob} nats; the whole chain gives {filler_right} more answers than full stops and "
            "{swapped_right} more than another problem's steps; before the answer's number stands in it, the chain "
            "adds {unstated_log_prob} nats."
        ),
        falls_short=(
            "The model reads worked solutions, whose last step holds the answer, and writes no chain of its own: "
            "whether a model's answer depends on its *own* reasoning, which is what the paper asks, is not tested. "
            "The third primary part is our reading."
        ),
        deviations=(
            "The paper's model is not public, and answers after chains that it wrote itself. cpu: "
            "SmolLM2-135M-Instruct reads worked solutions of built-in problems, whose last step nearly always holds "
            "the answer: what is tested is whether the answer is read from the chain, not whether a chain of the "
            "model's own is honest. A model of 135M parameters that reads solutions is not a reasoning model. "
            "paper: an open model's own chains; the answer asked for is the one that it gave. smoke: a tiny model "
            "with fresh weights, which tests the code, not the claim."
        ),
        clarity=(
            "The paper finds that it varies from task to task how far models rely on the chain, and asks how much; "
            "that the answer depends on it at all, here, is what is judged, and the thresholds are ours. A chain "
            "from whose end the answer is copied passes the first two parts: so the third asks what it adds before. "
            "Filler is full stops, as many as the chain has tokens. Log-probabilities are ours: a share of answers "
            "says nothing of what falls short of changing one."
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
