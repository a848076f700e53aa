"""What would an ideal vote answer on the same prompts? The outputs of the columns that matter are counted, no more.

At each step the columns that count are those of the same step whose input is the query's pattern: S_k of Proposition
1 (li2024). A vote answers with their most frequent output, ties being broken evenly; without any such column every
pattern is as likely. A model whose attention is on these columns alone, in equal shares, answers exactly so.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from toy_models.incontext.prompts import Prompts


def cot_votes(
    prompts: Prompts, n_patterns: int, n_examples: Sequence[int], generator: torch.Generator
) -> Int[Tensor, "length *batch step"]:
    """The chain of votes over the first l examples, for each l: each answer is the next step's query."""
    answers = []
    for length in n_examples:
        shown, asked, chain = prompts.first(length).examples, prompts.query[..., 0], []
        for step in range(prompts.n_steps):
            asked = _vote(shown[..., step], shown[..., step + 1], asked, n_patterns, generator)
            chain.append(asked)
        answers.append(torch.stack(chain, dim=-1))
    return torch.stack(answers)


def icl_votes(
    prompts: Prompts, n_patterns: int, n_examples: Sequence[int], generator: torch.Generator
) -> Int[Tensor, "length *batch"]:
    """The vote over the labels of the first l examples that start at the query's pattern, for each l."""
    return cot_votes(prompts.shortcut, n_patterns, n_examples, generator)[..., 0]


def _vote(
    inputs: Int[Tensor, "*batch example"],
    outputs: Int[Tensor, "*batch example"],
    asked: Int[Tensor, "*batch"],
    n_patterns: int,
    generator: torch.Generator,
) -> Int[Tensor, "*batch"]:
    counts = torch.zeros(*asked.shape, n_patterns, device=asked.device)
    counts.scatter_add_(-1, outputs, (inputs == asked[..., None]).float())
    ties = torch.rand(counts.shape, generator=generator).to(counts.device) / 2  # below the distance of two counts
    return (counts + ties).argmax(-1)
