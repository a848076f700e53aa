"""Does a pretrained model use the attention it shows? Cut it, renormalise the rest, and see what that changes.

A knockout adds -inf to the scores of chosen pairs of query and key: their weight is zero and the other keys share
the row, as if the key were not there for that query. Everything else in the model is as it was. What counts is the
log-probability of given tokens of the same text (teacher forcing), against the intact model and against a control
that cuts equally many other keys at the same queries (`hf_analysis.causal.edges`).
"""

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hf_analysis.attention.intercept import AttentionCall, intercepting
from hf_analysis.attention.layout import Row, batch, packing
from hf_analysis.causal.edges import KINDS, cut
from hf_analysis.causal.likelihood import log_probs_at, require_places, token_log_probs
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.problems import Problem
from hf_analysis.text.spans import Solution, solution
from probes import rows

ARMS = ("target", "control")
"""The cut of a kind; equally many other keys in its place."""
INTACT = "intact"
FINAL, STEPS = "final_log_prob", "step_log_prob"
"""Nats of the whole final answer; nats per token of the numbers in the second and later reasoning lines."""
DISTANCE = "key_distance"
"""From query to hidden key, in tokens: the mean over the pairs that an arm cuts."""


@dataclass(frozen=True)
class Knockout:
    """Keys hidden from queries, by row of the batch; in all heads, or in those that `heads` names."""

    hidden: Bool[Tensor, "#batch query key"]
    heads: Bool[Tensor, "#batch layer head"] | None = None

    def at(self, layer: int) -> Bool[Tensor, "#batch #head query key"] | None:
        """What is hidden in one layer; None for nothing."""
        hidden = self.hidden[:, None]
        if self.heads is not None:
            hidden = hidden & self.heads[:, layer, :, None, None]
        return hidden if bool(hidden.any()) else None


def knocked_out(model: LoadedModel, knockout: Knockout) -> AbstractContextManager[None]:
    """Within, `model` attends as `knockout` says."""
    if knockout.heads is not None and knockout.heads.shape[1:] != (model.n_layers, model.n_heads):
        raise ValueError(
            f"knockout of heads {tuple(knockout.heads.shape[1:])}; {model.name} has {model.n_layers} layers of "
            f"{model.n_heads} heads"
        )

    def attend(call: AttentionCall) -> Float[Tensor, "batch query head d"]:
        return call.output(knockout.at(call.layer))

    return intercepting(model.model, attend)


def knocked_out_log_probs(
    model: LoadedModel,
    ids: Sequence[int],
    knockouts: Sequence[Bool[Tensor, "query key"]],
    places: Sequence[int],
) -> Float[Tensor, "knockout target"]:
    """The log-probabilities of the tokens at `places` under each knockout.

    Up to the first query that loses a key, a knockout changes nothing: knockouts that begin at the same query share
    what comes before it in one packed row (`hf_analysis.attention.layout`), where the architecture allows it.
    """
    require_places(places, len(ids))
    found = torch.empty(len(knockouts), len(places))
    for start, group in _by_first_query(knockouts).items():
        row = Row((*ids[:start], *list(ids[start:]) * len(group)), start, (len(ids) - start,) * len(group))
        chosen = [knockouts[i] for i in group]
        if packing(model.model, len(row.ids))[0]:
            found[group] = _packed_log_probs(model, row, chosen, places)
        else:
            texts = torch.tensor([list(ids)]).expand(len(group), -1)
            with knocked_out(model, Knockout(torch.stack(chosen))):
                found[group] = token_log_probs(model, texts, torch.tensor(list(places)))
    return found


def _by_first_query(knockouts: Sequence[Bool[Tensor, "query key"]]) -> dict[int, list[int]]:
    """The knockouts by their first query that loses a key; one that cuts nothing goes with the last of them."""
    firsts = [int(hidden.any(-1).int().argmax()) if hidden.any() else -1 for hidden in knockouts]
    last = max(max(firsts), 1)
    groups: dict[int, list[int]] = {}
    for i, first in enumerate(firsts):
        groups.setdefault(last if first < 0 else first, []).append(i)
    return groups


def _packed_log_probs(
    model: LoadedModel, row: Row, knockouts: Sequence[Bool[Tensor, "query key"]], places: Sequence[int]
) -> Float[Tensor, "knockout target"]:
    """The log-probabilities under knockouts that are the branches of one packed row."""
    n, inputs = len(row.ids), batch([row], pad=model.pad)
    hidden = torch.zeros(n, n, dtype=torch.bool)
    queries = []
    for i, one in enumerate(knockouts):
        where = row.passage(i)
        branch = where[row.n_root :]
        hidden[branch[:, None], where[None, :]] = one[row.n_root :]
        queries.append(where[torch.tensor(list(places)) - 1])
    targets = torch.tensor(row.ids)[row.passage(0)][list(places)].repeat(len(knockouts))
    with knocked_out(model, Knockout(hidden[None])):
        found = log_probs_at(
            model, inputs.ids, torch.cat(queries), targets[None], positions=inputs.positions, mask=inputs.mask
        )
    return found.reshape(len(knockouts), len(places))


def knockout_rows(model: LoadedModel, problem: Problem, *, draws: int, seed: int, run: str) -> pd.DataFrame:
    """The log-probabilities of the final answer and of the steps' numbers, intact and under every knockout.

    `condition` is the kind of cut (`KINDS`) or `intact`; `setting` names the arm and, of a control, the draw;
    `n_tokens` counts cut pairs of query and key, whose mean distance is a metric of its own.
    """
    worked = solution(model, problem)
    generator = torch.Generator().manual_seed(random.Random(f"{seed} knockout {problem.id}").getrandbits(62))
    variants = list(_variants(worked, generator, draws))
    places = [*worked.final, *worked.step_numbers]
    found = knocked_out_log_probs(model, worked.ids, [hidden for _, _, hidden in variants], places).double()
    final, steps = found[:, : len(worked.final)], found[:, len(worked.final) :]
    values = {FINAL: final.sum(-1), DISTANCE: torch.stack([_mean_distance(hidden) for _, _, hidden in variants])}
    if steps.shape[1]:
        values[STEPS] = steps.mean(-1)
    tables = []
    for metric, value in values.items():
        known = [(*variant, one) for variant, one in zip(variants, value.tolist()) if not math.isnan(one)]
        kinds, settings, hidden, numbers = zip(*known)
        tables.append(
            rows.table(
                run=run,
                condition=kinds,
                unit=problem.id,
                setting=settings,
                metric=metric,
                scope="answer",
                value=numbers,
                n_tokens=[int(one.sum()) for one in hidden],
            )
        )
    return rows.concat(tables)


def _mean_distance(hidden: Bool[Tensor, "query key"]) -> Float[Tensor, ""]:
    """NaN for nothing hidden."""
    query, key = hidden.nonzero().unbind(-1)
    return (query - key).double().mean()


def _variants(
    worked: Solution, generator: torch.Generator, draws: int
) -> Iterator[tuple[str, str, Bool[Tensor, "query key"]]]:
    """Kind, setting and what is hidden. A draw without room for a number's control does not cut that number."""
    yield INTACT, rows.setting(arm=INTACT), torch.zeros(len(worked.ids), len(worked.ids), dtype=torch.bool)
    for kind in KINDS:
        drawn = [cut(worked, kind, generator) for _ in range(draws)]
        for draw, one in enumerate(drawn):
            if draw == 0 or not torch.equal(one.target, drawn[0].target):
                yield kind, rows.setting(arm="target", draw=draw), one.target
            yield kind, rows.setting(arm="control", draw=draw), one.control
