"""Which attention is cut? Pairs of query and key in a worked solution, and matched controls for them.

Key 1 is never cut: it is the attention sink of most models, and to cut it is another intervention (in the built-in
model it carries most of the attention). No query loses its own token.
"""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Bool
from torch import Tensor

from hf_analysis.text.spans import Solution

LOCAL = 4
"""The arms of a comparison leave every query so many tokens before it."""


def _edges(worked: Solution, queries: Iterable[int], keys: Iterable[int]) -> Bool[Tensor, "query key"]:
    """Every later query among `queries` with every earlier key among `keys`; never key 1."""
    n = len(worked.ids)
    edges = torch.zeros(n, n, dtype=torch.bool)
    rows, columns = torch.zeros(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool)
    rows[list(queries)], columns[list(keys)] = True, True
    columns[0] = False
    return edges | (rows[:, None] & columns[None, :]).tril(-1)


def continuation_to_question(worked: Solution) -> Bool[Tensor, "query key"]:
    """Everything after the question no longer sees the question."""
    return _edges(worked, range(worked.n_question, len(worked.ids)), range(worked.n_question))


def ending_to_question(worked: Solution) -> Bool[Tensor, "query key"]:
    """Only the answer's sentence no longer sees the question; the reasoning lines do."""
    return _edges(worked, worked.ending, range(worked.n_question))


def ending_to_steps(worked: Solution) -> Bool[Tensor, "query key"]:
    """Only the answer's sentence no longer sees the reasoning lines."""
    return _edges(worked, worked.ending, (token for line in worked.lines for token in line))


def steps_to_steps(worked: Solution) -> Bool[Tensor, "query key"]:
    """No reasoning line sees the lines before it; the answer's sentence sees them all."""
    edges = torch.zeros(len(worked.ids), len(worked.ids), dtype=torch.bool)
    for i, line in enumerate(worked.lines):
        edges |= _edges(worked, line, (token for earlier in worked.lines[:i] for token in earlier))
    return edges


def each_to_steps(worked: Solution) -> Bool[Tensor, "query key"]:
    """Neither a reasoning line nor the answer's sentence sees the reasoning lines before it."""
    return steps_to_steps(worked) | ending_to_steps(worked)


EDGES: dict[str, Callable[[Solution], Bool[Tensor, "query key"]]] = {
    "continuation to question": continuation_to_question,
    "answer to question": ending_to_question,
    "answer to steps": ending_to_steps,
    "steps to earlier steps": steps_to_steps,
    "steps and answer to earlier steps": each_to_steps,
}


def matched(
    edges: Bool[Tensor, "query key"], generator: torch.Generator
) -> tuple[Bool[Tensor, "query key"], Bool[Tensor, "query key"]]:
    """Part of `edges`, and a control: for every query equally many random other keys that it sees.

    Neither arm cuts the `LOCAL` tokens before a query, without which any text falls apart, so the arms differ in what
    the distant keys are. Where a query has fewer other keys than edges, as many random ones of its edges are kept as
    it has others: both arms always cut the same number of keys at the same queries.
    """
    distant = torch.ones_like(edges).tril(-1 - LOCAL)
    distant[:, 0] = False
    if bool((edges.triu() | (edges & (torch.arange(len(edges)) == 0))).any()):
        raise ValueError("matched: edges to key 1, to the query itself or to later keys; they have no control")
    edges = edges & distant
    others = distant & ~edges & edges.any(-1, keepdim=True)
    n = torch.minimum(edges.sum(-1), others.sum(-1))[:, None]
    return _random_subset(edges, n, generator), _random_subset(others, n, generator)


def _random_subset(
    candidates: Bool[Tensor, "query key"], n: Tensor, generator: torch.Generator
) -> Bool[Tensor, "query key"]:
    """For every query, n of its candidates."""
    lots = torch.rand(candidates.shape, generator=generator).masked_fill(~candidates, 2.0)
    return candidates & (lots.argsort(-1).argsort(-1) < n)
