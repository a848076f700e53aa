"""Which states must a decoder compute? Those of chosen positions, or one for each distinct prefix of a batch."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class States:
    """Which states are computed: state s is that of sequence `row[s]` at position `pos[s]`."""

    row: Int[Tensor, "state"]
    pos: Int[Tensor, "state"]
    query: Int[Tensor, "state"]
    """Which of the positions computed `pos` is."""
    index: Int[Tensor, "batch pos"]
    """Which state each sequence has at each position."""


def all_states(inputs: Int[Tensor, "batch pos"], positions: Int[Tensor, "chosen"]) -> States:
    """One state for each sequence and chosen position."""
    index = torch.arange(len(inputs) * len(positions), device=inputs.device).view(len(inputs), -1)
    row = torch.arange(len(inputs), device=inputs.device).repeat_interleave(len(positions))
    query = torch.arange(len(positions), device=inputs.device).repeat(len(inputs))
    return States(row=row, pos=positions[query], query=query, index=index)


def distinct_prefixes(inputs: Int[Tensor, "batch pos"], d_vocab: int) -> States:
    """One state for each prefix that occurs; positions that could not repeat are not searched."""
    batch, n_pos = inputs.shape
    n_shared = 0
    while n_shared < n_pos and d_vocab ** (n_shared + 1) <= batch:
        n_shared += 1
    place = torch.arange(n_shared, device=inputs.device)
    code = (inputs[:, :n_shared] * d_vocab**place).cumsum(-1) + place * d_vocab**n_shared
    distinct, shared_index = code.unique(return_inverse=True)
    occurrence = torch.arange(batch * n_shared, device=inputs.device)
    first = torch.full_like(distinct, batch * n_shared)
    first = first.scatter_reduce(0, shared_index.flatten(), occurrence, "amin")
    rest = all_states(inputs, torch.arange(n_shared, n_pos, device=inputs.device))
    pos = torch.cat([first % max(n_shared, 1), rest.pos])
    return States(
        row=torch.cat([first // max(n_shared, 1), rest.row]),
        pos=pos,
        query=pos,  # every position is computed
        index=torch.cat([shared_index.view(batch, n_shared), rest.index + len(distinct)], dim=1),
    )
