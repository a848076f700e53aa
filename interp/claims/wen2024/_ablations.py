"""What do heads of a pretrained model do for the answer? Chosen heads removed, and random others in their place."""

import random
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float

if TYPE_CHECKING:
    import torch

    from hf_analysis.models.loading import LoadedModel
    from hf_analysis.text.problems import Problem

FINAL, STEPS = "final_log_prob", "step_log_prob"
CRITERIA = {"length_matched_min": "sparsest", "sink_excluded_min": "sparsest without the sink"}
"""Metric of `hf_analysis` by which heads are chosen, over answer tokens of CoT text, and its name here."""
REPLACEMENTS = ("mean", "zero")
SHARE = 0.1
"""Of all heads."""
PER_LAYER = 3
"""At most one in so many heads of a layer."""
INTACT = "intact"


def ablation_rows(
    model: "LoadedModel",
    problem: "Problem",
    entropies: pd.DataFrame,
    means: "torch.Tensor",
    draws: int,
    seed: int,
) -> pd.DataFrame:
    """The log-probabilities of one problem: intact, without the sparsest heads, without each control."""
    import torch

    from hf_analysis.causal.ablation import ablated_log_probs, lowest_heads, matched_heads
    from hf_analysis.text.spans import solution
    from probes import rows

    worked = solution(model, problem)
    generator = torch.Generator().manual_seed(random.Random(f"{seed} heads {problem.id}").getrandbits(62))
    names: list[tuple[str, str, int]] = []  # criterion, arm, draw
    groups = []
    for metric, name in CRITERIA.items():
        n, per_layer = sizes(model.n_layers, model.n_heads)
        chosen = lowest_heads(torch.tensor(scores(entropies, metric)), n, per_layer)
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


def sizes(n_layers: int, n_heads: int) -> tuple[int, int]:
    """How many heads are chosen, and at most how many of one layer."""
    per_layer = max(1, n_heads // PER_LAYER)
    return min(max(1, round(SHARE * n_layers * n_heads)), per_layer * n_layers), per_layer


def scores(table: pd.DataFrame, metric: str) -> Float[np.ndarray, "layer head"]:
    """Every head's mean over the selection problems."""
    mean = table[table["metric"] == metric].groupby(["layer", "head"])["value"].mean()
    return mean.unstack("head").sort_index().sort_index(axis=1).to_numpy()
