"""wen2024, the mechanism behind sparsity: does a pretrained model use the attention from step to step in CoT text?

The paper argues from theory and from attention maps that CoT makes every token depend on few earlier ones; it does
not intervene in a pretrained model, so the claim is ours. Attention is knocked out (weight zero, the rest
renormalised, all layers and heads) while the model reads a worked solution, and the log-probability of the final
answer is compared with that under a control: equally many random other keys at the same queries. The solution ends in
"The answer is N.", because a small model does not expect GSM8K's `#### N`. Key 1 is never cut, because it is the
attention sink; no query loses its own token, and neither arm cuts the four tokens before a query, without which any
text falls apart. Where a query has fewer other keys than the kind has edges, both arms are cut down to that number;
the arm that cuts all edges of a kind has no control. The text is teacher-forced, so the final answer can be copied
from the last line; therefore the numbers inside the second and later reasoning lines are judged too.

Declared before any run: seven tests, intervals at 1 - 0.05/7 each; a difference below 0.1 nats in the final answer (a
tenth of its probability) or 0.05 nats per token of the steps' numbers would not matter. The control keys are all
other keys, so where attention to one kind matters less than its control, the number is read from the other kinds
instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wen2024._pretrained import TINY, by_problem, change_intervals, load, mean_interval, shards
from interp.core.claim import Claim, Item, register
from interp.core.verdict import Verdict, judged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/mechanism-steps"
FINAL, STEPS = "final_log_prob", "step_log_prob"
SMALLEST = {FINAL: 0.1, STEPS: 0.05}
"""The smallest differences of interest, in nats of the whole answer and nats per token."""
OUTCOMES = {FINAL: "final answer", STEPS: "numbers of later steps"}
TESTS = (
    (FINAL, "steps and answer to earlier steps"),
    (FINAL, "answer to steps"),
    (FINAL, "steps to earlier steps"),
    (FINAL, "continuation to question"),
    (FINAL, "answer to question"),
    (STEPS, "steps to earlier steps"),
    (STEPS, "continuation to question"),
)
ARMS = {
    "full": "all cut",
    "target": "as many distant ones cut as in the control",
    "control": "control: random others cut",
}
INTACT = "intact"


@dataclass(frozen=True)
class Steps:
    """Knockouts in shards of problems; a shard is one item."""

    model: str
    data: str
    limit: int | None
    shard: int
    seed: int = 0
    """Of the random keys."""
    seeds: int = 1
    """Problems, not seeds, are the unit of replication."""


PRESETS = {
    "smoke": Steps(TINY + "builtin", "builtin", limit=4, shard=4),
    "cpu": Steps("builtin", "builtin", limit=40, shard=5),
    "paper": Steps("Qwen/Qwen2-7B", "openai/gsm8k", limit=None, shard=100),
}


def items(preset: Steps) -> list[Item]:
    """One item for each shard of problems."""
    from hf_analysis.text.problems import load_problems

    return shards(preset, preset.limit or len(load_problems(preset.data)))


def measure_shard(item: Item, work: Path) -> pd.DataFrame:
    """Every knockout on the item's problems."""
    from hf_analysis.causal.knockout import knockout_rows
    from hf_analysis.text.problems import load_problems
    from probes.rows import concat

    p = item.parameters
    problems = load_problems(p["data"], limit=p["limit"])[p["start"] : p["start"] + p["shard"]]
    model = load(p["model"])
    return concat(knockout_rows(model, problem, seed=p["seed"], run=model.name) for problem in problems)


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """Every declared test: the loss of log-probability by the kind's edges beyond that by their control."""
    rows = _with_edges(rows)
    verdicts = []
    for metric, kind in TESTS:
        table = by_problem(rows, metric)[[(kind, arm) for arm in ARMS] + [(INTACT, INTACT)]].dropna()
        target, control, intact = table[kind, "target"], table[kind, "control"], table[INTACT, INTACT]
        verdicts.append(
            judged(
                mean_interval((control - target).to_numpy(), len(TESTS)),
                claim=ID,
                part=f"{OUTCOMES[metric]}: {kind}",
                quantity=(
                    f"log-probability of the {OUTCOMES[metric]}, nats{'' if metric == FINAL else ' per token'}: "
                    f"random other keys cut minus {kind} cut"
                ),
                threshold=SMALLEST[metric],
                direction="above",
                unit="problems",
                note=(
                    f"intact {intact.mean():.2f}; cut {target.mean():.2f}, control {control.mean():.2f}, all edges "
                    f"of the kind cut {table[kind, 'full'].mean():.2f}"
                ),
            )
        )
    return verdicts


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The change from the intact model by every kind of knockout."""
    from interp.figures.interventions import change_forest

    rows = _with_edges(rows)
    panels = {}
    for metric, outcome in OUTCOMES.items():
        kinds = [kind for tested, kind in TESTS if tested == metric]
        unit = "" if metric == FINAL else ", per token"
        panels[f"{outcome}{unit}"] = change_intervals(by_problem(rows, metric), kinds, ARMS, INTACT)
    return {"knockouts": change_forest(panels)}


def _with_edges(rows: pd.DataFrame) -> pd.DataFrame:
    """Without knockouts that cut nothing: a solution of one line has no step before a step."""
    return rows[(rows["n_tokens"] > 0) | (rows["condition"] == INTACT)]


register(
    Claim(
        id=ID,
        sentence=(
            "CoT introduces sparse sequential dependencies. Beyond the paper: each step is computed from the steps "
            "before it and from the question, and the model attends there because it uses them."
        ),
        test=(
            "Paired by problem: cutting the attention from the steps and the answer to earlier steps, or to the "
            "question, lowers the log-probability of the final answer by at least "
            f"{SMALLEST[FINAL]:g} nats more than cutting equally many random other keys at the same queries (of the "
            f"numbers in later steps: {SMALLEST[STEPS]:g} nats per token). Seven tests, intervals over problems at "
            "1 - 0.05/7."
        ),
        deviations=(
            "The paper has no such experiment; it measures Qwen2-7B on GSM8K, which is the paper preset's model and "
            "data. cpu: the built-in SmolLM2-135M-Instruct on GSM-symbolic problems. smoke: a tiny model with fresh "
            "weights, which tests the code, not the claim. The claim is about CoT text in general, so it should show "
            "in a small model too, if that model uses CoT text at all."
        ),
        presets=PRESETS,
        items=items,
        measure=measure_shard,
        judge=judge,
        figures=figures,
    )
)
