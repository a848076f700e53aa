"""Where do trained clause decoders attend? Attention of the answers as rows, for Figures 2, 5, 6 and 7."""

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.huang2025._runs import LegoRun
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    import torch

    from toy_models.lego.clause_decoder import ClauseDecoder

PATTERN = "blocks.0.attn.hook_pattern"


def answer_attention(model: "ClauseDecoder", sentences: "torch.Tensor") -> "torch.Tensor":
    """The attention of the answers 0 to L - 1 on all clauses before answer L, mean over heads: [batch answer key]."""
    import torch

    length = sentences.shape[1] // 2
    with torch.no_grad():
        queries = torch.arange(length, 2 * length)
        _, cache = model.run_with_cache(sentences[:, :-1], queries, names_filter=PATTERN)
    return cache[PATTERN].mean(1)


def target_rows(run: LegoRun, model: "ClauseDecoder", length: int, **places: str) -> pd.DataFrame:
    """By answer l: the mean attention on predicate l + 1 (metric `predicate`) and on answer l itself (`answer`)."""
    import torch

    sentences = replace(run.task, length=length).sample(run.n_test, run.generator(2)).inputs
    pattern, answer = answer_attention(model, sentences), torch.arange(length)
    means = {"predicate": pattern[:, answer, answer].mean(0), "answer": pattern[:, answer, length + answer].mean(0)}
    where = [setting(**run.settings, **places, length=length, answer=index) for index in range(length)]
    return concat(
        table(metric=metric, value=values.tolist(), setting=where, n_tokens=run.n_test, **run.labels)
        for metric, values in means.items()
    )


def attention_rows(run: LegoRun, model: "ClauseDecoder", order: str = "as written") -> pd.DataFrame:
    """The mean attention of each answer on each clause at the training length; the scope is the order.

    `as written`; `permuted`: the predicates stand in random order, keys are places; `permuted, by chain`: the same
    sentences, but predicate keys are counted along the chain, wherever they stand.
    """
    import torch

    task = replace(run.task, permuted=order != "as written")
    sentences = task.sample(run.n_test, run.generator(2)).inputs
    pattern, length = answer_attention(model, sentences), run.length
    if order == "permuted, by chain":
        places = task.predicate_positions(sentences)[:, None].expand(-1, length, -1)  # [batch answer predicate]
        pattern = torch.cat([pattern[..., :length].gather(-1, places), pattern[..., length:]], dim=-1)
    query, key = zip(*itertools.product(range(length), range(pattern.shape[-1])))
    labels = {**run.labels, "setting": setting(**run.settings), "scope": order, "n_tokens": run.n_test}
    return table(metric="clause_attention", value=pattern.mean(0).flatten().tolist(), query=query, key=key, **labels)


def followed_rows(run: LegoRun, model: "ClauseDecoder") -> pd.DataFrame:
    """Attention on the predicate that names the answer's variable (`variable`), and on the place it had (`place`).

    `permuted`: the predicates stand in random order. `moved`: only their third tokens, the variables that they refer
    back to, have moved on by one predicate. Answers whose variable is still in its old place are left out.
    """
    import torch

    from toy_models.lego.task import TAIL

    permuted = replace(run.task, permuted=True).sample(run.n_test, run.generator(2)).inputs
    moved, length = run.task.sample(run.n_test, run.generator(2)).inputs, run.length
    moved[:, :length, TAIL] = moved[:, :length, TAIL].roll(1, dims=1)
    tables = []
    for change, sentences in (("permuted", permuted), ("moved", moved)):
        pattern = answer_attention(model, sentences)
        place = torch.arange(length).expand(len(sentences), -1)
        variable = run.task.predicate_positions(sentences)
        elsewhere = variable != place
        for metric, position in (("variable", variable), ("place", place)):
            on = pattern.gather(-1, position[..., None])[..., 0][elsewhere]
            where = setting(**run.settings, change=change)
            tables.append(table(metric=metric, value=on.mean().item(), setting=where, n_tokens=len(on), **run.labels))
    return concat(tables)
