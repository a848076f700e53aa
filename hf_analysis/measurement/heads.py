"""Which heads of a pretrained model are of a known kind? The kinds of `probes.attention.taxonomy`, on problems.

Two texts per problem. `cot_clean`: question and worked solution; sinks and copying from the question are read off
it. `repeated`: the tokens of that text in random order, twice; there a token is repeated for no other reason than the
repetition, so duplicate-token and induction heads cannot be mistaken for heads that follow grammar.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hf_analysis.attention.intercept import AttentionCall, Enough, intercepting
from hf_analysis.measurement.measure import Measured, Progress, collect
from hf_analysis.measurement.request import Request
from hf_analysis.measurement.store import fingerprint
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.problems import Problem
from hf_analysis.text.spans import Solution, solution
from probes import rows
from probes.attention.chunked import score_blocks
from probes.attention.taxonomy import KINDS, attention_mass, copy_score, mean_mass, uniform_mass

CONDITIONS = ("cot_clean", "repeated")
COPY = "copy_from_question"
METRICS = (*KINDS, COPY)
CHANCE = "_chance"
"""Rows of metric `<kind>_chance`, of no layer and head: the mass of a head that attends to all it sees alike."""


@torch.inference_mode()
def masses(
    model: LoadedModel, ids: Sequence[int], keys: Bool[Tensor, "kind #query key"]
) -> Float[Tensor, "layer kind head query"]:
    """The attention of every head on the keys of each kind; one block of one layer's pattern exists at a time."""
    found: list[Tensor] = []

    def look(call: AttentionCall) -> Tensor:
        blocks = score_blocks(call.query, call.key, call.scale, mask=call.mask, bias=call.bias, softcap=call.softcap)
        found.append(attention_mass(blocks, keys.to(call.query.device)).cpu())
        if call.is_last:
            raise Enough
        return call.output()

    with intercepting(model.model, look):
        model.model.base_model(input_ids=torch.tensor([list(ids)], device=model.device), use_cache=False)
    return torch.stack(found)


def kind_scores(
    model: LoadedModel, ids: Sequence[int]
) -> tuple[dict[str, Float[Tensor, "layer head"]], dict[str, float]]:
    """The score of every head for each kind, and each kind's chance level; kinds without a key are left out."""
    tokens = torch.tensor(list(ids))
    keys = {kind: find(tokens) for kind, find in KINDS.items()}
    keys = {kind: where for kind, where in keys.items() if where.any()}
    mass = masses(model, ids, torch.stack(list(keys.values())))
    scores = {kind: mean_mass(mass[:, i], where) for i, (kind, where) in enumerate(keys.items())}
    return scores, {kind: uniform_mass(where) for kind, where in keys.items()}


def copy_scores(model: LoadedModel, worked: Solution) -> Float[Tensor, "layer head"] | None:
    """Every head's `copy_score` on the numbers that the solution takes from the question; None below two numbers."""
    copies = worked.copies()
    if len(copies) < 2:
        return None
    keys = torch.zeros(len(copies), 1, len(worked.ids), dtype=torch.bool)
    for i, (_, tokens) in enumerate(copies.values()):
        keys[i, 0, list(tokens)] = True
    queries = [place for place, _ in copies.values()]
    mass = masses(model, worked.ids, keys)[..., queries]
    return copy_score(mass.permute(0, 2, 3, 1))  # [layer head copied number]


def head_rows(model: LoadedModel, problem: Problem, *, seed: int, run: str) -> pd.DataFrame:
    """All scores of one problem: value per layer and head, chance levels with neither."""
    worked = solution(model, problem)
    shuffled = list(worked.ids)
    random.Random(f"{seed} repeated {problem.id}").shuffle(shuffled)
    if model.max_tokens is not None:
        shuffled = shuffled[: model.max_tokens // 2]
    tables = []
    for condition, ids in zip(CONDITIONS, (worked.ids, shuffled + shuffled)):
        scores, chances = kind_scores(model, ids)
        names = {"run": run, "condition": condition, "unit": problem.id, "n_tokens": len(ids)}
        tables += [_table(values, metric=kind, **names) for kind, values in scores.items()]
        tables += [rows.table(metric=f"{kind}{CHANCE}", value=value, **names) for kind, value in chances.items()]
    copied = copy_scores(model, worked)
    if copied is not None:
        names = {"run": run, "condition": CONDITIONS[0], "unit": problem.id, "scope": "answer"}
        tables.append(_table(copied, metric=COPY, n_tokens=len(worked.copies()), **names))
    return rows.concat(tables)


def measure_heads(
    model: LoadedModel,
    problems: Sequence[Problem],
    out: Path,
    *,
    seed: int = 0,
    resume: bool = False,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The rows of every problem, in order, also written to `out`; each is on disk before the next begins."""
    request = Request(problems, CONDITIONS[:1], seed)

    def measured(group: range) -> list[Measured]:
        problem = problems[group.start]
        table = head_rows(model, problem, seed=seed, run=model.name)
        n_tokens = int(table.groupby("condition")["n_tokens"].max().sum())
        facts = {"forwarded_tokens": n_tokens, "unshared_tokens": n_tokens, "layout": "one text at a time"}
        return [Measured(problem, table, {**facts, "paths": ["chunked: patterns are read block by block"]}, None)]

    groups = [range(i, i + 1) for i in range(len(problems))]
    identity = {**fingerprint(model, model.name, request), "measured": "heads"}
    return collect(request, identity, groups, lambda missing: map(measured, missing), out, resume, progress)


def _table(values: Float[Tensor, "layer head"], **names) -> pd.DataFrame:
    n_layers, n_heads = values.shape
    layer, head = torch.meshgrid(torch.arange(n_layers), torch.arange(n_heads), indexing="ij")
    return rows.table(
        layer=layer.flatten().numpy(), head=head.flatten().numpy(), value=values.double().flatten().numpy(), **names
    )
