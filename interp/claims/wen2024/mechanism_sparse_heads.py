"""wen2024, sparsity and use: do the sparsest heads of a pretrained model matter more for the answer than others?

The paper reads low attention entropy as the sign of a head that has found what its answer depends on; it ablates no
head, so the experiment is ours. The sparsest tenth of the heads (at most a third of a layer) is ablated while the
model reads a worked solution that ends in "The answer is N.", and the log-probability of N is compared with that
after ablating random other heads, equally many in every layer and drawn anew for every problem. Sparsest by the
length-matched minimum of the normalised entropy over answer tokens (CoT text, matched to the length of the text
without CoT), averaged over problems other than those on which the effect is measured; and, because that minimum is
lowest in heads that attend to the first token and do nothing, also by the minimum over the rest of the row, without
the first token. A head's output is replaced by its mean over the selection texts, or by zero. Refuted means: the
sparsest heads do not matter more than others.

Heads that attend to the first token or to the token before, that find repeated tokens, or that copy numbers are known
to be sparse, and some are known to matter. So all is done again without them: heads of a known kind (by their scores
on the selection problems) are neither chosen nor drawn as controls.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hf_analysis.measurement.pairs import matched_to
from interp.claims.wen2024._ablations import (
    CHOICES,
    CRITERIA,
    FINAL,
    GROUPS,
    INTACT,
    KNOWN,
    REPLACEMENTS,
    STEPS,
    Group,
    ablation_rows,
    chosen_heads,
    kind_rows,
    known_heads,
    scores,
)
from interp.claims.wen2024._pretrained import CLUSTERED, by_problem, change_intervals, mean_over_problems
from interp.claims.wen2024._worlds_heads import SMALLEST, WORLDS, part_key
from interp.core.claim import Claim, Item, Scale, register
from interp.core.loops import loop
from interp.core.parts import NotMeasurable, Part
from interp.core.problem_runs import PROBLEMS, TINY, load, shards, some_problems, unit_of
from interp.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ID = "wen2024/mechanism-sparse-heads"
ARMS = {"target": "the sparsest heads", "control": "random other heads of the same layers"}


@dataclass(frozen=True)
class SparseHeads:
    """Ablations in shards of problems; a shard is one item and chooses its heads anew, from the same problems."""

    model: str
    data: str
    n_selection: int
    """The first problems: heads are chosen and mean outputs taken on these."""
    limit: int | None
    """The problems after them, on which the effect is measured."""
    shard: int
    draws: int
    """Random groups of heads for every problem."""
    seed: int = 0
    """Of the random heads."""
    seeds: int = 1
    """Problems, not seeds, are the unit of replication."""
    first_unit: int = 0
    """The first problem, of those that heads are chosen on."""


PRESETS = {
    "smoke": SparseHeads(TINY + "builtin", "builtin", n_selection=2, limit=4, shard=4, draws=2),
    "cpu": SparseHeads("builtin", "builtin", n_selection=16, limit=40, shard=20, draws=2),
    "paper": SparseHeads("Qwen/Qwen2-7B", "openai/gsm8k", n_selection=100, limit=None, shard=100, draws=4),
}


def items(preset: SparseHeads) -> list[Item]:
    """One item for each shard of problems."""
    rest = preset.limit or len(some_problems(preset.data, preset.first_unit, None)) - preset.n_selection
    return shards(preset, rest)


def measure_shard(item: Item, work: Path) -> pd.DataFrame:
    """Chooses the heads, then removes them and their controls on the item's problems."""
    from hf_analysis.causal.ablation import mean_outputs
    from hf_analysis.measurement.heads import measure_heads
    from hf_analysis.measurement.measure import measure
    from hf_analysis.text.spans import solution
    from probes.rows import concat

    p = item.parameters
    limit = None if p["limit"] is None else p["n_selection"] + p["limit"]
    problems = some_problems(p["data"], p["first_unit"], limit)
    selection, tested = problems[: p["n_selection"]], problems[p["n_selection"] :]
    model = load(p["model"])
    entropies = measure(model, selection, ("cot", "no_cot"), work / "selection", scopes=("answer",), resume=True)
    entropies = entropies[
        (entropies["condition"] == "cot") & (entropies["scope"] == "answer") & entropies["metric"].isin(CRITERIA)
    ]
    entropies = matched_to(entropies, "no_cot")
    kinds = kind_rows(measure_heads(model, selection, work / "kinds", seed=p["seed"], resume=True))
    choice = concat([entropies, kinds])
    means = mean_outputs(model, [solution(model, problem).ids for problem in selection])
    past = p["start"] - p["first_unit"]
    shard = tested[past : past + p["shard"]]
    tables = [ablation_rows(model, problem, choice, means, p["draws"], p["seed"]) for problem in shard]
    return concat([*([choice] if past == 0 else []), *tables])


@dataclass(frozen=True)
class Ablated:
    """Log-probabilities by problem; columns are the group of heads and the arm, means over draws."""

    final: pd.DataFrame
    steps: pd.DataFrame
    n_known: int | None
    """Heads of a known kind, if their scores are among the rows."""


def summary(table: pd.DataFrame) -> Ablated:
    """The final answer, and the numbers of later steps, under every ablation."""
    n_known = int(known_heads(table).sum()) if set(KNOWN) & set(table["metric"]) else None
    return Ablated(by_problem(table, FINAL), by_problem(table, STEPS), n_known)


def parts(preset: SparseHeads) -> list[Part]:
    """Both ways of removing the heads that the paper's measure finds are the paper's; without the sink they are ours.

    Without heads of a known kind, each is a control.
    """
    return [_part(group, preset) for group in GROUPS]


def _part(group: Group, preset: SparseHeads) -> Part:
    paper = group.metric == "length_matched_min" and not group.unknown
    return Part(
        key=part_key(group),
        name=f"{group.name} heads, replaced by {REPLACEMENTS[group.replacement]}",
        role="paper" if paper else "control" if group.unknown else "ours",
        source="abstract: sparsity in attention layers is a key factor" if paper else "",
        primary=paper,
        quantity=(
            "log-probability of the final answer, nats: random other heads of the same layers"
            f"{', of no known kind,' if group.unknown else ''} removed minus the {group.name} ones removed"
        ),
        estimate=partial(lost, group=group.condition),
        direction="above",
        threshold=SMALLEST,
        why=f"less than {SMALLEST:g} nats, a tenth of the answer's probability, would not matter",
        unit=unit_of(preset.data),
        note=partial(_means, group=group),
    )


def lost(found: Ablated, level: float, *, group: str) -> Interval | NotMeasurable:
    """The mean log-probability that is lost without these heads beyond what is lost without random others."""
    table = found.final
    if group not in table:
        return NotMeasurable("too few heads are left to choose among, or to match")
    return mean_over_problems((table[group, "control"] - table[group, "target"]).dropna(), level)


def _means(found: Ablated, group: Group) -> str:
    places = ((INTACT, INTACT), (group.condition, "target"), (group.condition, "control"))
    intact, target, control = (found.final[place].mean() for place in places)
    steps = ", ".join(f"{found.steps[place].mean():.2f}" for place in places)
    known = f"; {found.n_known} heads are of a known kind" if group.unknown and found.n_known is not None else ""
    return (
        f"intact {intact:.2f}; without the sparsest {target:.2f}, without random others {control:.2f}; numbers of "
        f"later steps, nats per token: {steps}; {len(found.final)} problems{known}"
    )


def figures(table: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The change from the intact model by every ablation, and which heads were chosen."""
    from interp.figures import interventions

    final, steps = by_problem(table, FINAL), by_problem(table, STEPS)
    groups = [group.condition for group in GROUPS if group.condition in final]
    panels = {
        "final answer": change_intervals(final, groups, ARMS, INTACT),
        "numbers of later steps, per token": change_intervals(steps, groups, ARMS, INTACT),
    }
    maps = {
        Group(metric, unknown, "").name.replace(" of no", "\nof no"): (
            scores(table, metric),
            chosen_heads(table, metric, unknown)[0].numpy(),
        )
        for metric, unknown in CHOICES
    }
    return {
        "ablations": interventions.change_forest(panels),
        "chosen_heads": interventions.chosen_heads(maps, "minimum of normalised entropy"),
    }


register(
    Claim(
        id=ID,
        sentence=(
            "Sparsity in attention is a key factor. Beyond the paper: heads with low attention entropy are those "
            "that have found what the answer depends on; they matter more for it than other heads do."
        ),
        method=(
            "Heads are chosen on other problems: the sparsest tenth, by the length-matched minimum of the normalised "
            "entropy over answer tokens of CoT text, with the first token and without. Their outputs are replaced by "
            "their mean or by zero while the model reads a worked solution; the loss of log-probability of the final "
            "answer is compared, paired by problem, with that of removing random other heads of the same layers. All "
            "again without heads of a known kind, among the chosen and the random ones: those that spend more than "
            "half of their attention on the token before, on earlier copies of a token or behind them (on repeated "
            "random tokens), or on the first token, or that prefer the number being copied from the question by more "
            f"than 0.05. {CLUSTERED}"
        ),
        scale={
            "smoke": Scale("another model", "a test of the code: a tiny model with fresh weights, 4 problems"),
            "cpu": Scale("another model", "SmolLM2-135M-Instruct for Qwen2-7B, 40 GSM-symbolic problems for GSM8K"),
            "paper": Scale("the paper's own numbers", "its model and data; the experiment is ours"),
        },
        finding=(
            "On this model, removing the sparsest tenth of the heads costs {sparsest_mean} nats of the final answer "
            "more than removing random other heads (outputs replaced by their mean; by zero: {sparsest_zero}); "
            "chosen without the attention sink, {no_sink_mean}; of heads of no known kind, {sparsest_unknown_mean}."
        ),
        deviations=(
            "The paper has no such experiment; it measures Qwen2-7B on GSM8K, which is the paper preset's model and "
            "data. cpu: the built-in SmolLM2-135M-Instruct on GSM-symbolic problems, heads chosen on 16 and tested "
            "on 40 (other names and numbers, but the same 85 templates in both sets). smoke: a tiny model with fresh "
            "weights, which tests the code, not the claim. If low entropy marks the heads that do the work, it "
            "should do so in any model. One set of heads is chosen: intervals are over problems, for these heads. "
            "Kinds that nobody has named are among the others, and heads that mix kinds."
        ),
        falls_short=(
            "The experiment is ours, and so is the second sentence: the paper ablates no head. That heads matter is "
            "not that their sparsity does."
        ),
        clarity=(
            "The paper calls sparsity a key factor of what CoT brings and shows when it develops; it ablates no head "
            "and says nothing of single heads of a pretrained model. That sparse heads matter more than others is "
            "one reading of it, and this test is ours."
        ),
        history=(
            "Before the parts were declared, four tests, by two criteria and two replacements, counted alike, with "
            "intervals corrected for four, and problems of one template were taken as independent. The numbers "
            "inside the steps suffered in the same order, so the sparsest heads are not special to the final answer. "
            "On 40 problems of GSM8K's test set the outcomes were the same. Explored afterwards, not declared: of "
            "the sparsest heads only those of a known kind (previous-token, duplicate or induction heads, by "
            "`cotlens heads`) carried the difference; the others mattered less than random ones. Sparsity may mark "
            "heads that matter only as far as it marks heads that copy. After that, on the same problems, the parts "
            "without heads of a known kind were declared. Their cut-offs were set after a look at the scores of "
            "heads on the first four built-in problems: 78 of 270 heads are above the cut-off for sinks there; no "
            "ablation was made with them."
        ),
        presets=PRESETS,
        loops=(PROBLEMS, loop("n_selection", "problems that heads are chosen on")),
        items=items,
        measure=measure_shard,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        figures=figures,
    )
)
