"""k-fold composition with its intermediate results written out: the chain of thought of `kfold`, for a decoder.

kN tokens sigma_i(j), then the query x, then the hops x_1 = hop^1(x), ..., x_k = hop^k(x) = f_pi(sigma, x). Step s
adds one permutation: x_{s+1} = sigma_s(pi_s(x_s)), counting from 0 with x_0 = x.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toy_models.kfold.task import Permutations, check_hidden, check_size, hidden_permutations, random_permutations
from toy_models.task import UNSUPERVISED, Batch, register


@register
@dataclass(frozen=True)
class KFoldCot:
    """The composition of k permutations in context with k hidden ones, for one query x per sequence."""

    name: ClassVar[str] = "kfold_cot"
    causal: ClassVar[bool] = True

    k: int = 4
    """Number of permutations in the input, and of hidden ones."""
    n: int = 5
    """Number of elements that are permuted (the paper's N)."""
    cot: bool = True
    """Whether every intermediate hop is written out and supervised, or the last one alone."""
    hidden_seed: int = 0
    """Draws the hidden permutations when none are given."""
    hidden: Permutations = ()
    """The hidden permutations; empty: drawn from `hidden_seed`, as in `kfold`."""

    def __post_init__(self) -> None:
        check_size(self.k, self.n)
        if not self.hidden:
            object.__setattr__(self, "hidden", hidden_permutations(self.k, self.n, self.hidden_seed))
        check_hidden(self.hidden, self.k, self.n)

    @property
    def d_vocab(self) -> int:
        return self.n

    @property
    def n_ctx(self) -> int:
        return self.k * self.n + (self.k if self.cot else 1)

    @property
    def n_inputs(self) -> int:
        return math.factorial(self.n) ** self.k * self.n

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """n sequences of uniform permutations and queries, with their hops or the last hop."""
        tokens = random_permutations(n, self.k, self.n, generator).flatten(1)
        query = torch.randint(0, self.n, (n, 1), generator=generator)
        _, hops = self._path(tokens, query)
        continuation = hops if self.cot else hops[:, -1:]
        whole = torch.cat([tokens, query, continuation], dim=-1)
        targets = whole[:, 1:].clone()
        targets[:, : self.k * self.n] = UNSUPERVISED
        return Batch(inputs=whole[:, :-1], targets=targets)

    def _path(
        self, tokens: Int[Tensor, "batch kn"], query: Int[Tensor, "batch 1"]
    ) -> tuple[Int[Tensor, "batch k"], Int[Tensor, "batch k"]]:
        """For every step s: the position (s, pi_s(x_s)) that it reads, and the hop x_{s+1} found there."""
        hidden = torch.tensor(self.hidden, device=tokens.device)
        current, read, hops = query, [], []
        for step in range(self.k):
            read.append(step * self.n + hidden[step, current])
            current = tokens.gather(1, read[-1])
            hops.append(current)
        return torch.cat(read, dim=-1), torch.cat(hops, dim=-1)

    def dependencies(self, batch: Batch) -> Bool[Tensor, "batch query key"]:
        """With CoT step s depends on its own token x_s and on (s, pi_s(x_s)); without, on x and the whole path."""
        start = self.k * self.n
        read, _ = self._path(batch.inputs[:, :start], batch.inputs[:, start : start + 1])
        mask = torch.zeros(len(batch), self.n_ctx, self.n_ctx, dtype=torch.bool, device=batch.inputs.device)
        row = torch.arange(len(batch), device=batch.inputs.device)
        for step in range(self.k):
            query = start + step if self.cot else start
            mask[row, query, read[:, step]] = True
            mask[:, query, query] = True
        return mask

    def states(self, batch: Batch) -> Int[Tensor, "batch k"]:
        """The hops x_1, ..., x_k, written out or not."""
        start = self.k * self.n
        return self._path(batch.inputs[:, :start], batch.inputs[:, start : start + 1])[1]

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
        """Targets by looking up one permutation after another, from the tokens as they stand."""
        targets = torch.full_like(inputs, UNSUPERVISED)
        start = self.k * self.n
        for row, tokens in enumerate(inputs.tolist()):
            x = tokens[start]
            for step in range(self.k):
                x = tokens[start + step] if self.cot else x
                x = tokens[step * self.n + self.hidden[step][x]]
                if self.cot or step == self.k - 1:
                    targets[row, start + step if self.cot else start] = x
        return targets
