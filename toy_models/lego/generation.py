"""How far does a LEGO model get on its own? Greedy generation, answer by answer, with keys and values kept.

Every answer needs one new row of attention over the clauses so far, so a sentence of length L costs L rows instead of
the L (L + 1) / 2 of repeated forwards (which are the oracle in the tests). Sentences are generated in batches that
fit into the processor's cache.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toy_models.lego.clause_decoder import ClauseDecoder
from toy_models.lego.task import STATE, Lego

CHUNK = 128
"""Sentences generated together."""


class Rollout:
    """Sentences that grow by one generated clause at a time."""

    def __init__(self, model: ClauseDecoder, prompts: Int[Tensor, "batch clause five"], n_clauses: int) -> None:
        """`prompts` end with a clause whose successor is asked for; room is made for `n_clauses` more."""
        self.model, self.block, self.filled = model, model.blocks[0], prompts.shape[1]
        x = model.embedded(prompts)
        self.last = x[:, -1:]
        room = torch.nn.functional.pad(x, (0, 0, 0, n_clauses - 1))
        keys, values = self.block.attn.keys_values(self.block.ln1(room))
        self.keys, self.values = keys.contiguous(), values.contiguous()  # else every step copies them to multiply

    @torch.no_grad()
    def step(self) -> Int[Tensor, "batch five"]:
        """The next clause, which is appended."""
        if self.filled > self.keys.shape[2]:
            raise ValueError(f"the rollout has room for {self.keys.shape[2]} clauses; ask for more at first")
        keys, values = self.keys[:, :, : self.filled], self.values[:, :, : self.filled]
        visible = torch.ones(1, self.filled, dtype=torch.bool, device=keys.device)
        found = self.model.clauses(self.model.read(self.block(self.last, keys, values, visible)))
        if self.filled < self.keys.shape[2]:
            self.last = self.model.embedded(found, first=self.filled)
            key, value = self.block.attn.keys_values(self.block.ln1(self.last))
            self.keys[:, :, self.filled], self.values[:, :, self.filled] = key[:, :, 0], value[:, :, 0]
        self.filled += 1
        return found[:, 0]

    def keep(self, rows: Bool[Tensor, "batch"]) -> None:
        """Drops the other sentences."""
        self.last, self.keys, self.values = self.last[rows], self.keys[rows], self.values[rows]


@torch.no_grad()
def generated(
    model: ClauseDecoder, prompts: Int[Tensor, "batch clause five"], n_clauses: int
) -> Int[Tensor, "batch step five"]:
    """The next `n_clauses` clauses of every prompt, greedily, each from those generated before it."""
    parts = []
    for chunk in prompts.split(CHUNK):
        rollout = Rollout(model, chunk, n_clauses)
        parts.append(torch.stack([rollout.step() for _ in range(n_clauses)], dim=1))
    return torch.cat(parts)


@torch.no_grad()
def share_solved(model: ClauseDecoder, task: Lego, n_sentences: int, generator: torch.Generator) -> float:
    """The share of fresh sentences of which every generated state is right, in [0, 1].

    A sentence with a wrong state is given up: what follows cannot make it right. Those given up are dropped when they
    are half of all, as dropping copies the rest.
    """
    solved = 0
    for start in range(0, n_sentences, CHUNK):
        sentences = task.sample(min(CHUNK, n_sentences - start), generator).inputs.to(model.embed.weight.device)
        truth = sentences[:, task.length + 1 :, STATE]
        rollout = Rollout(model, sentences[:, : task.length + 1], task.length)
        right = torch.ones(len(truth), dtype=torch.bool, device=truth.device)
        for step in range(task.length):
            right &= rollout.step()[:, STATE] == truth[:, step]
            n_right = int(right.sum())
            if n_right == 0:
                break
            if n_right <= len(right) / 2:
                rollout.keep(right)
                truth, right = truth[right], right[right]
        solved += int(right.sum())
    return solved / n_sentences
