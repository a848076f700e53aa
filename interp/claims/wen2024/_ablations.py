"""What do heads of a pretrained model do for the answer? Chosen heads removed, and random others in their place.

Heads of a known kind look sparse for a known reason: they attend to the first token, to the token before, or to
earlier copies of a token. Each criterion therefore chooses twice: among all heads, and among those of no known kind,
whose controls are of no known kind either.
"""

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

if TYPE_CHECKING:
    import torch

    from hf_analysis.models.loading import LoadedModel
    from hf_analysis.text.problems import Problem

FINAL, STEPS = "final_log_prob", "step_log_prob"
CRITERIA = {"length_matched_min": "sparsest", "sink_excluded_min": "sparsest without the sink"}
"""Metric of `hf_analysis` by which heads are chosen, over answer tokens of CoT text, and its name here."""
REPLACEMENTS = {"mean": "their mean", "zero": "zero"}
KNOWN = {
    "previous_token": ("repeated", 0.5),
    "duplicate_token": ("repeated", 0.5),
    "induction": ("repeated", 0.5),
    "sink": ("cot_clean", 0.5),
    "copy_from_question": ("cot_clean", 0.05),
}
"""Kinds of `hf_analysis.measurement.heads`: the text on which a kind is read off, and above which mean score over the
selection problems a head is of that kind. Half of the attention; for copying, whose score is a difference of
attention on the number that is being copied and on others, a twentieth."""
SHARE = 0.1
"""Of all heads."""
PER_LAYER = 3
"""At most one in so many heads of a layer."""
INTACT = "intact"


@dataclass(frozen=True)
class Group:
    """One choice of heads, and what their output is replaced by."""

    metric: str
    unknown: bool
    """Whether heads of a known kind are left out."""
    replacement: str

    @property
    def name(self) -> str:
        """The choice in words."""
        return CRITERIA[self.metric] + (" of no known kind" if self.unknown else "")

    @property
    def condition(self) -> str:
        """What its rows are called."""
        return f"{self.name}, {self.replacement}"


CHOICES = [(metric, unknown) for unknown in (False, True) for metric in CRITERIA]
GROUPS = [Group(metric, unknown, replacement) for metric, unknown in CHOICES for replacement in REPLACEMENTS]


def ablation_rows(
    model: "LoadedModel",
    problem: "Problem",
    selection: pd.DataFrame,
    means: "torch.Tensor",
    draws: int,
    seed: int,
) -> pd.DataFrame:
    """The log-probabilities of one problem: intact, without each choice of heads, without each control."""
    import torch

    from hf_analysis.causal.ablation import ablated_log_probs, matched_heads
    from hf_analysis.text.spans import solution
    from probes import rows

    worked = solution(model, problem)
    generator = torch.Generator().manual_seed(random.Random(f"{seed} heads {problem.id}").getrandbits(62))
    names: list[tuple[Group, str, int]] = []  # choice, arm, draw
    groups = []
    for metric, unknown in CHOICES:
        chosen, among = chosen_heads(selection, metric, unknown)
        if not bool(chosen.any()):
            continue
        groups += [chosen, *(matched_heads(chosen, generator, among) for _ in range(draws))]
        group = Group(metric, unknown, "")
        names += [(group, "target", 0), *((group, "control", draw) for draw in range(draws))]
    places = [*worked.final, *worked.step_numbers]
    tables = []
    for replacement in REPLACEMENTS:
        instead = means if replacement == "mean" else None
        labels = [(f"{group.name}, {replacement}", arm, draw) for group, arm, draw in names]
        batch = groups
        if not tables:
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


def chosen_heads(
    selection: pd.DataFrame, metric: str, unknown: bool
) -> "tuple[Bool[torch.Tensor, 'layer head'], Bool[torch.Tensor, 'layer head']]":
    """The sparsest heads by `metric`, and those they were chosen among; fewer, or none, where too few are left."""
    import torch

    from hf_analysis.causal.ablation import lowest_heads

    of_heads = torch.tensor(scores(selection, metric))
    among = torch.tensor(~known_heads(selection)) if unknown else torch.ones_like(of_heads, dtype=torch.bool)
    n, per_layer = sizes(*of_heads.shape)
    n = min(n, int((among.sum(1) // 2).clamp_max(per_layer).sum()))
    return (lowest_heads(of_heads, n, per_layer, among) if n else torch.zeros_like(among)), among


def known_heads(selection: pd.DataFrame) -> Bool[np.ndarray, "layer head"]:
    """Whether each head is of one of the known kinds; a kind that no problem shows has no head."""
    measured = set(selection["metric"])
    found = [scores(selection, kind) > least for kind, (_, least) in KNOWN.items() if kind in measured]
    return np.any(found, axis=0)


def kind_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The scores of heads, each kind on its own text."""
    wanted = [(kind, text) for kind, (text, _) in KNOWN.items()]
    return table[pd.MultiIndex.from_frame(table[["metric", "condition"]]).isin(wanted)]


def sizes(n_layers: int, n_heads: int) -> tuple[int, int]:
    """How many heads are chosen, and at most how many of one layer."""
    per_layer = max(1, n_heads // PER_LAYER)
    return min(max(1, round(SHARE * n_layers * n_heads)), per_layer * n_layers), per_layer


def scores(table: pd.DataFrame, metric: str) -> Float[np.ndarray, "layer head"]:
    """Every head's mean over the selection problems."""
    mean = table[table["metric"] == metric].groupby(["layer", "head"])["value"].mean()
    return mean.unstack("head").sort_index().sort_index(axis=1).to_numpy()
