"""wen2024, the mechanism behind sparsity: does a pretrained model use the attention from step to step in CoT text?

The paper argues from theory and from attention maps that CoT makes every token depend on few earlier ones; it does
not intervene in a pretrained model, so the experiment is ours. Attention is knocked out (weight zero, the rest
renormalised, all layers and heads) while the model reads a worked solution, and the log-probability of the final
answer, and of the numbers in later reasoning lines, is compared with that of the intact model and with that under a
control: equally many other keys at the same queries. Each cut and each control is made alone. The solution ends in
"The answer is N.", because a small model does not expect GSM8K's `#### N`.

*Sequential*: all earlier steps, or the question, are cut. Any keys of the same number at the same distance would be
those very keys, so the intact model is what this is judged against; a random contiguous span of as many keys is
beside it. *Sparse*: of the earlier text only the occurrences of the numbers that a line is about to write are cut,
and each has for a control a random span of its length within eight tokens of it. If what counts is that something is
cut so near, and not what, both cost the same. `hf_analysis.causal.edges` defines all cuts exactly. The text is
teacher-forced, so the final answer can be copied from the last line; therefore the numbers inside the second and
later reasoning lines are judged too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wen2024._pretrained import CLUSTERED, by_problem, change_intervals
from interp.claims.wen2024._steps import ARMS, DISTANCE, FINAL, INTACT, OUTCOMES, TESTS, cut_rows, parts, summary
from interp.claims.wen2024._worlds_steps import WORLDS
from interp.core.claim import Claim, Item, Scale, register
from interp.core.problem_runs import PROBLEMS, TINY, load, shards, some_problems

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/mechanism-steps"


@dataclass(frozen=True)
class Steps:
    """Knockouts in shards of problems; a shard is one item."""

    model: str
    data: str
    limit: int | None
    shard: int
    draws: int
    """Controls of every cut."""
    seed: int = 0
    """Of the controls."""
    seeds: int = 1
    """Problems, not seeds, are the unit of replication."""
    first_unit: int = 0
    """The first problem."""


PRESETS = {
    "smoke": Steps(TINY + "builtin", "builtin", limit=4, shard=4, draws=1),
    "cpu": Steps("builtin", "builtin", limit=60, shard=10, draws=2),
    "paper": Steps("Qwen/Qwen2-7B", "openai/gsm8k", limit=None, shard=100, draws=4),
}


def items(preset: Steps) -> list[Item]:
    """One item for each shard of problems."""
    return shards(preset, preset.limit or len(some_problems(preset.data, preset.first_unit, None)))


def measure_shard(item: Item, work: Path) -> pd.DataFrame:
    """Every knockout on the item's problems."""
    from hf_analysis.causal.knockout import knockout_rows
    from probes.rows import concat

    p = item.parameters
    past = p["start"] - p["first_unit"]
    problems = some_problems(p["data"], p["first_unit"], p["limit"])[past : past + p["shard"]]
    model = load(p["model"])
    options = {"draws": p["draws"], "seed": p["seed"], "run": model.name}
    return concat(knockout_rows(model, problem, **options) for problem in problems)


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """The intact model, the kinds and outcomes that are judged, and the distances of what was cut."""
    read = [(metric, test.kind) for test in TESTS.values() for metric in (test.metric, DISTANCE)]
    read += [(metric, INTACT) for metric in OUTCOMES]
    return rows[pd.MultiIndex.from_frame(rows[["metric", "condition"]]).isin(read)]


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The change from the intact model by every kind of knockout."""
    from interp.figures.interventions import change_forest

    rows = cut_rows(rows)
    panels = {}
    for metric, outcome in OUTCOMES.items():
        table = by_problem(rows, metric)
        kinds = [test.kind for test in TESTS.values() if test.metric == metric and test.kind in table]
        unit = "" if metric == FINAL else ", per token"
        panels[f"{outcome}{unit}"] = change_intervals(table, kinds, ARMS, INTACT)
    return {"knockouts": change_forest(panels)}


register(
    Claim(
        id=ID,
        sentence=(
            "CoT introduces sparse sequential dependencies. Beyond the paper: the answer and each step are computed "
            "from the steps before them, and the model attends there because it uses them."
        ),
        method=(
            "While the model reads a worked solution, attention is cut in all layers and heads, each cut alone: from "
            "the answer or the steps to all earlier steps or to the question (except to the four tokens before a "
            "query and to the first token); and from a line to where the numbers that it writes stood before. The "
            "loss of log-probability of the final answer, and of the numbers in later steps, is measured against the "
            "intact model and against a control, paired by problem: for a number, a random span of its length within "
            "eight tokens of it, so that length and distance are the same; for whole steps or the question, a random "
            f"contiguous span of as many keys, which may overlap them. {CLUSTERED}"
        ),
        scale={
            "smoke": Scale("another model", "a test of the code: a tiny model with fresh weights, 4 problems"),
            "cpu": Scale("another model", "SmolLM2-135M-Instruct for Qwen2-7B, 60 GSM-symbolic problems for GSM8K"),
            "paper": Scale("the paper's own numbers", "its model and data; the experiment is ours"),
        },
        finding=(
            "On this model, cutting the answer's attention to all steps costs {answer_steps} nats of the final "
            "answer, and to its number wherever it stood before {answer_number_over} more than cutting as many "
            "tokens as near does; cutting the steps from earlier ones costs {steps_steps} nats per token of later "
            "steps' numbers, and from earlier results {steps_results_over} more than cutting as many tokens as near."
        ),
        deviations=(
            "The paper has no such experiment; it measures Qwen2-7B on GSM8K, which is the paper preset's model and "
            "data. cpu: the built-in SmolLM2-135M-Instruct on GSM-symbolic problems. smoke: a tiny model with fresh "
            "weights, which tests the code, not the claim. The claim is about CoT text in general, so it should show "
            "in a small model too, if that model uses CoT text at all. A number counts as used where the same value "
            "stood before, whether or not the step computes with it. Controls near a number are words as often as "
            "numbers, and where a number stands at the end of the line before, they lie a few tokens farther away; "
            "the mean distances stand beside each estimate."
        ),
        falls_short=(
            "The experiment is ours, and so is the second sentence: the paper infers sequential dependence from the "
            "entropy of attention and cuts nothing. How sparse the dependence is no primary part says."
        ),
        clarity=(
            "The paper infers sequential dependence from attention entropy and calls it hard to measure directly; it "
            "does not say which tokens a step depends on. That the answer uses the steps, and steps earlier ones "
            "(sequential), through few tokens (sparse), is the least that it can mean; this test of it is ours. The "
            "given text restates every result, so that little loss can also mean that the model copies it from "
            "nearby."
        ),
        history=(
            "Before the parts were declared, every kind was judged against its control alone, at a level corrected "
            "for seven tests: edges to the question mirrored edges to the steps, of which each was the other's "
            "control, so that one effect counted twice. Problems of one template were taken as independent. That the "
            "small model does not expect GSM8K's `#### N` was seen on intact text, before any knockout but one "
            "problem's. On 40 problems of GSM8K's test set the comparisons with controls had the same outcomes, "
            "except that of the numbers inside the steps, which was inconclusive. After those runs, on 40 built-in "
            "problems (numbers 0 to 39) and 40 of GSM8K, the controls were changed from all other keys to spans, the "
            "cuts of single numbers were added, and their excess over the control became primary beside the loss "
            "against the intact model; of the new cuts, the tokens of four built-in problems were looked at, no loss."
        ),
        presets=PRESETS,
        loops=(PROBLEMS,),
        items=items,
        measure=measure_shard,
        summary=summary,
        parts=lambda preset: parts(preset.data),
        worlds=WORLDS,
        published=published,
        figures=figures,
    )
)
