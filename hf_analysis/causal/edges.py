"""Which attention is cut? Pairs of query and key in a worked solution, and for each cut a control like it.

Two sorts of cuts, each made alone, each with a control that cuts equally many keys at the same queries:
whole spans    all earlier steps, or the whole question, but for the `LOCAL` tokens before a query, without which any
               text falls apart. The control is a contiguous span of equally many keys, at a random place among all
               that the query sees beyond those tokens. It may overlap the cut: whatever has the cut's length and
               distance *is* the cut, so here length is matched, and distance only on average over places.
single numbers the earlier occurrences of a number that is being written. The control replaces each occurrence by a
               random span of as many tokens within `REACH` tokens of it, of no such occurrence: length and distance
               are both matched. Here nothing before a query is spared; few keys are cut, and as near in both arms.

Key 1 is never cut: it is the attention sink of most models, and to cut it is another intervention (in the built-in
model it carries most of the attention). No query loses its own token.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from hf_analysis.text.spans import Number, Solution

LOCAL = 4
"""Cuts of whole spans leave every query so many tokens before it."""
REACH = 8
"""The control of a number begins at most so many tokens from it, if there is room."""


@dataclass(frozen=True)
class Cut:
    """Two ways to hide keys from queries: as many, at the same queries."""

    target: Bool[Tensor, "query key"]
    control: Bool[Tensor, "query key"]


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


def span_cut(edges: Bool[Tensor, "query key"], generator: torch.Generator) -> Cut:
    """The distant ones of `edges`, and a control: at every query a contiguous span of as many distant keys.

    One random number decides how far between the first and the last possible place the spans stand, at all queries.
    """
    if bool((edges.triu() | (edges & (torch.arange(len(edges)) == 0))).any()):
        raise ValueError("span_cut: edges to key 1, to the query itself or to later keys; they have no control")
    target = edges.tril(-1 - LOCAL)
    place = float(torch.rand((), generator=generator))
    n = target.sum(-1)
    n_distant = (torch.arange(len(edges)) - 1 - LOCAL).clamp_min(0)  # without key 1
    start = 1 + (place * (n_distant - n + 1)).floor().long()
    keys = torch.arange(len(edges))[None, :]
    return Cut(target, (keys >= start[:, None]) & (keys < (start + n)[:, None]))


def number_cut(worked: Solution, written: Sequence["Written"], generator: torch.Generator) -> Cut:
    """For each of `written`, its queries lose the earlier occurrences of its numbers; or spans near them instead.

    A control span overlaps no occurrence and no other control of the same queries. A number without room for one is
    cut in neither arm.
    """
    target = torch.zeros(len(worked.ids), len(worked.ids), dtype=torch.bool)
    control = target.clone()
    for one in written:
        first = one.queries[0]
        spans = [number.tokens for number in one.numbers if number.tokens[0] > 0 and number.tokens[-1] < first]
        taken = {token for span in spans for token in span}
        for span in spans:
            start = _start_near(span, first, taken, generator)
            if start is None:
                continue
            instead = range(start, start + len(span))
            taken.update(instead)
            rows = torch.tensor(one.queries)[:, None]
            target[rows, torch.tensor(span)], control[rows, torch.tensor(instead)] = True, True
    return Cut(target, control)


def _start_near(span: Sequence[int], end: int, taken: set[int], generator: torch.Generator) -> int | None:
    """Where a span of that length can begin that ends before `end` and has no key taken: at random within `REACH`
    of `span`, else as near as possible; None for nowhere."""
    free = [i for i in range(1, end - len(span) + 1) if taken.isdisjoint(range(i, i + len(span)))]
    if not free:
        return None
    nearest = max(REACH, min(abs(i - span[0]) for i in free))
    near = [i for i in free if abs(i - span[0]) <= nearest]
    return near[int(torch.randint(len(near), (), generator=generator))]


@dataclass(frozen=True)
class Written:
    """Tokens of one line or sentence, in order, and the earlier occurrences of numbers that it writes."""

    queries: tuple[int, ...]
    numbers: tuple[Number, ...]


def _written(worked: Solution, queries: tuple[int, ...], wanted: Callable[[str], bool]) -> Written:
    """What `queries` write of the numbers whose value is wanted."""
    own = {number.value for number in worked.numbers if number.tokens[0] in queries}
    earlier = (number for number in worked.numbers if number.tokens[-1] < queries[0])
    return Written(queries, tuple(number for number in earlier if number.value in own and wanted(number.value)))


def answer_number(worked: Solution) -> list[Written]:
    """The answer's sentence, and wherever its number stood before."""
    return [_written(worked, worked.ending, lambda _: True)]


def earlier_results(worked: Solution) -> list[Written]:
    """Every reasoning line, and where its numbers that are not the question's stood in the lines before it."""
    asked = _of_question(worked)
    return [_written(worked, line, lambda value: value not in asked) for line in worked.lines]


def question_numbers(worked: Solution) -> list[Written]:
    """Every reasoning line, and where its numbers that are the question's stood before, there or in earlier lines."""
    asked = _of_question(worked)
    return [_written(worked, line, lambda value: value in asked) for line in worked.lines]


def _of_question(worked: Solution) -> set[str]:
    return {number.value for number in worked.numbers if number.tokens[0] < worked.n_question}


NUMBERS: dict[str, Callable[[Solution], list[Written]]] = {
    "answer to its number in the steps": answer_number,
    "steps to earlier results": earlier_results,
    "steps to numbers of the question": question_numbers,
}
KINDS = (*EDGES, *NUMBERS)


def cut(worked: Solution, kind: str, generator: torch.Generator) -> Cut:
    """The cut of one of `KINDS`, with a control drawn from `generator`."""
    if kind in EDGES:
        return span_cut(EDGES[kind](worked), generator)
    return number_cut(worked, NUMBERS[kind](worked), generator)
