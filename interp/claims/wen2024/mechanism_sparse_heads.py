"""wen2024, sparsity and use: do the sparsest heads of a pretrained model matter more for the answer than others?

The paper reads low attention entropy as the sign of a head that has found what its answer depends on; it ablates no
head, so the claim is ours. The sparsest tenth of the heads (at most a third of a layer) is ablated while the model
reads a worked solution that ends in "The answer is N.", and the log-probability of N is compared with that after
ablating random other heads, equally many in every layer and drawn anew for every problem. Sparsest by the
length-matched minimum of the normalised entropy over answer tokens (CoT text, matched to the length of the text
without CoT), averaged over problems other than those on which the effect is measured; and, because that minimum is
lowest in heads that attend to the first token and do nothing, also by the minimum over the rest of the row, without
the first token. A head's output is replaced by its mean over the selection texts, or by zero.

Declared before any run: four tests, intervals at 1 - 0.05/4 each; a difference below 0.1 nats in the final answer (a
tenth of its probability) would not matter. Refuted means: the sparsest heads do not matter more than others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.wen2024._pretrained import TINY, by_problem, change_intervals, load, mean_interval, shards
from interp.core.claim import Claim, Item, register
from interp.core.verdict import Verdict, judged

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

    from hf_analysis.models.loading import LoadedModel
    from hf_analysis.text.problems import Problem

ID = "wen2024/mechanism-sparse-heads"
SMALLEST = 0.1
"""The smallest difference of interest, in nats of the whole final answer."""
FINAL, STEPS = "final_log_prob", "step_log_prob"
CRITERIA = {"length_matched_min": "sparsest", "sink_excluded_min": "sparsest without the sink"}
"""Metric of `hf_analysis` by which heads are chosen, over answer tokens of CoT text, and its name here."""
REPLACEMENTS = ("mean", "zero")
SHARE = 0.1
"""Of all heads."""
PER_LAYER = 3
"""At most one in so many heads of a layer."""
ARMS = {"target": "the sparsest heads", "control": "random other heads of the same layers"}
INTACT = "intact"


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


PRESETS = {
    "smoke": SparseHeads(TINY + "builtin", "builtin", n_selection=2, limit=4, shard=4, draws=2),
    "cpu": SparseHeads("builtin", "builtin", n_selection=16, limit=40, shard=10, draws=2),
    "paper": SparseHeads("Qwen/Qwen2-7B", "openai/gsm8k", n_selection=100, limit=None, shard=100, draws=4),
}


def items(preset: SparseHeads) -> list[Item]:
    """One item for each shard of problems."""
    from hf_analysis.text.problems import load_problems

    return shards(preset, preset.limit or len(load_problems(preset.data)) - preset.n_selection)


def measure_shard(item: Item, work: Path) -> pd.DataFrame:
    """Chooses the heads, then removes them and their controls on the item's problems."""
    from hf_analysis.causal.ablation import mean_outputs
    from hf_analysis.measurement.measure import measure
    from hf_analysis.text.problems import load_problems
    from hf_analysis.text.spans import solution
    from probes.rows import concat

    p = item.parameters
    limit = None if p["limit"] is None else p["n_selection"] + p["limit"]
    problems = load_problems(p["data"], limit=limit)
    selection, tested = problems[: p["n_selection"]], problems[p["n_selection"] :]
    model = load(p["model"])
    entropies = measure(model, selection, ("cot", "no_cot"), work / "selection", resume=True)
    entropies = entropies[
        (entropies["condition"] == "cot") & (entropies["scope"] == "answer") & entropies["metric"].isin(CRITERIA)
    ]
    means = mean_outputs(model, [solution(model, problem).ids for problem in selection])
    shard = tested[p["start"] : p["start"] + p["shard"]]
    tables = [_ablation_rows(model, problem, entropies, means, p["draws"], p["seed"]) for problem in shard]
    return concat([*([entropies] if p["start"] == 0 else []), *tables])


def _ablation_rows(
    model: "LoadedModel",
    problem: "Problem",
    entropies: pd.DataFrame,
    means: "torch.Tensor",
    draws: int,
    seed: int,
) -> pd.DataFrame:
    """The log-probabilities of one problem: intact, without the sparsest heads, without each control."""
    import random

    import torch

    from hf_analysis.causal.ablation import ablated_log_probs, lowest_heads, matched_heads
    from hf_analysis.text.spans import solution
    from probes import rows

    worked = solution(model, problem)
    generator = torch.Generator().manual_seed(random.Random(f"{seed} heads {problem.id}").getrandbits(62))
    names: list[tuple[str, str, int]] = []  # criterion, arm, draw
    groups = []
    for metric, name in CRITERIA.items():
        n, per_layer = _sizes(model.n_layers, model.n_heads)
        chosen = lowest_heads(torch.tensor(_scores(entropies, metric)), n, per_layer)
        groups += [chosen, *(matched_heads(chosen, generator) for _ in range(draws))]
        names += [(name, "target", 0), *((name, "control", draw) for draw in range(draws))]
    places = [*worked.final, *worked.step_numbers]
    tables = []
    for replacement in REPLACEMENTS:
        instead = means if replacement == "mean" else None
        labels = [(f"{name}, {replacement}", arm, draw) for name, arm, draw in names]
        batch = groups
        if replacement == REPLACEMENTS[0]:
            labels, batch = [(INTACT, INTACT, 0), *labels], [torch.zeros_like(groups[0]), *groups]
        found = ablated_log_probs(model, worked.ids, batch, instead, places).double()
        final, steps = found[:, : len(worked.final)].sum(-1), found[:, len(worked.final) :]
        values = {FINAL: final} | ({STEPS: steps.mean(-1)} if steps.shape[1] else {})
        tables += [
            rows.table(
                run=model.name,
                condition=[condition for condition, _, _ in labels],
                unit=problem.id,
                setting=[rows.setting(arm=arm, draw=draw) for _, arm, draw in labels],
                metric=metric,
                scope="answer",
                value=value.numpy(),
                n_tokens=len(worked.final) if metric == FINAL else steps.shape[1],
            )
            for metric, value in values.items()
        ]
    return rows.concat(tables)


def _sizes(n_layers: int, n_heads: int) -> tuple[int, int]:
    """How many heads are chosen, and at most how many of one layer."""
    per_layer = max(1, n_heads // PER_LAYER)
    return min(max(1, round(SHARE * n_layers * n_heads)), per_layer * n_layers), per_layer


def _scores(table: pd.DataFrame, metric: str) -> Float[np.ndarray, "layer head"]:
    """Every head's mean over the selection problems."""
    mean = table[table["metric"] == metric].groupby(["layer", "head"])["value"].mean()
    return mean.unstack("head").sort_index().sort_index(axis=1).to_numpy()


def judge(table: pd.DataFrame) -> Sequence[Verdict]:
    """Every declared test: the loss by ablating the sparsest heads beyond that by ablating others."""
    final, steps = by_problem(table, FINAL), by_problem(table, STEPS)
    verdicts = []
    for group in _groups():
        target, control, intact = final[group, "target"], final[group, "control"], final[INTACT, INTACT]
        verdicts.append(
            judged(
                mean_interval((control - target).to_numpy(), len(_groups())),
                claim=ID,
                part=f"{group} ablation",
                quantity="log-probability of the final answer, nats: without random heads minus without the sparsest",
                threshold=SMALLEST,
                direction="above",
                unit="problems",
                note=(
                    f"intact {intact.mean():.2f}; without the sparsest {target.mean():.2f}, without random others "
                    f"{control.mean():.2f}; numbers of later steps, nats per token: "
                    f"{steps[INTACT, INTACT].mean():.2f}, {steps[group, 'target'].mean():.2f}, "
                    f"{steps[group, 'control'].mean():.2f}"
                ),
            )
        )
    return verdicts


def figures(table: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The change from the intact model by every ablation, and which heads were chosen."""
    import torch

    from hf_analysis.causal.ablation import lowest_heads
    from interp.figures.interventions import change_forest, chosen_heads

    panels = {
        "final answer": change_intervals(by_problem(table, FINAL), _groups(), ARMS, INTACT),
        "numbers of later steps, per token": change_intervals(by_problem(table, STEPS), _groups(), ARMS, INTACT),
    }
    maps = {}
    for metric, name in CRITERIA.items():
        scores = _scores(table, metric)
        maps[name] = (scores, lowest_heads(torch.tensor(scores), *_sizes(*scores.shape)).numpy())
    return {"ablations": change_forest(panels), "chosen_heads": chosen_heads(maps, "minimum of normalised entropy")}


def _groups() -> list[str]:
    return [f"{name}, {replacement}" for name in CRITERIA.values() for replacement in REPLACEMENTS]


register(
    Claim(
        id=ID,
        sentence=(
            "Beyond the paper: heads with low attention entropy are those that have found what the answer depends "
            "on: they matter more for it than other heads do."
        ),
        test=(
            "Paired by problem: removing the sparsest tenth of the heads lowers the log-probability of the final "
            f"answer in CoT text by at least {SMALLEST:g} nats more than removing random other heads of the same "
            "layers. Heads chosen on other problems, by two criteria, removed in two ways: four tests, intervals "
            "over problems at 1 - 0.05/4."
        ),
        deviations=(
            "The paper has no such experiment; it measures Qwen2-7B on GSM8K, which is the paper preset's model and "
            "data. cpu: the built-in SmolLM2-135M-Instruct on GSM-symbolic problems, heads chosen on 16 and tested "
            "on 40 (other names and numbers, but the same 85 templates in both sets). smoke: a tiny model with fresh "
            "weights, which tests the code, not the claim. If low entropy marks the heads that do the work, it "
            "should do so in any model."
        ),
        presets=PRESETS,
        items=items,
        measure=measure_shard,
        judge=judge,
        figures=figures,
    )
)
