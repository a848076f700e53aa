"""Parity as a binary tree of two-bit parities (kim2024, section 2.1 and Figure 1).

d uniform bits, k = 2^v of them secret. Above the secret bits stands a complete binary tree of k - 1 nodes, each the
parity of its two children, numbered level by level upwards; the root is the parity of all k. Positions count from 0
here: bits are at 0..d-1, nodes at d..d+k-2. The paper's +-1 is written as tokens 0 and 1, so that a product of values
is a xor of tokens: value = 1 - 2 token.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toy_models.task import UNSUPERVISED, Batch, register


@register
@dataclass(frozen=True)
class TreeParity:
    """The (d, k) tree parity problem."""

    name: ClassVar[str] = "tree_parity"

    d: int = 16
    """Number of input bits."""
    k: int = 8
    """Number of secret bits, a power of two."""
    cot: bool = True
    """Whether the nodes of the tree are written out and supervised, or the root alone."""
    secret: tuple[int, ...] = ()
    """The secret positions (0-based) from the tree's left to its right; empty: drawn from secret_seed."""
    secret_seed: int = 0
    """Draws the secret set, in ascending order, when none is given."""

    def __post_init__(self) -> None:
        if not 2 <= self.k <= self.d or self.k & (self.k - 1):
            raise ValueError(f"tree parity needs k = 2, 4, 8, ... of d bits, got k={self.k} of d={self.d}")
        if not self.secret:
            generator = torch.Generator().manual_seed(self.secret_seed)
            drawn = torch.randperm(self.d, generator=generator)[: self.k].sort().values
            object.__setattr__(self, "secret", tuple(drawn.tolist()))
        valid = all(0 <= s < self.d for s in self.secret)
        if not valid or len(set(self.secret)) != len(self.secret) or len(self.secret) != self.k:
            raise ValueError(
                f"the secret set must be {self.k} distinct positions in 0..{self.d - 1}, got {self.secret}"
            )

    @property
    def children(self) -> tuple[tuple[int, int], ...]:
        """The positions of each node's two children, c_1[m] and c_2[m]."""
        placed = [*self.secret, *range(self.d, self.d + self.k - 2)]
        return tuple((placed[2 * node], placed[2 * node + 1]) for node in range(self.k - 1))

    @property
    def d_vocab(self) -> int:
        return 2

    @property
    def n_ctx(self) -> int:
        return self.d + (self.k - 2 if self.cot else 0)

    @property
    def n_inputs(self) -> int:
        return 2**self.d

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """n sequences of uniform bits with the nodes of their tree, or with its root."""
        tokens = torch.zeros(n, self.d + self.k - 1, dtype=torch.long)
        tokens[:, : self.d] = torch.randint(0, 2, (n, self.d), generator=generator)
        for node, (left, right) in enumerate(self.children):
            tokens[:, self.d + node] = tokens[:, left] ^ tokens[:, right]
        inputs = tokens[:, : self.n_ctx]
        targets = torch.full_like(inputs, UNSUPERVISED)
        targets[:, self.d - 1 :] = tokens[:, self.d :] if self.cot else tokens[:, -1:]
        return Batch(inputs, targets)

    def dependencies(self, batch: Batch) -> Bool[Tensor, "batch query key"]:
        """With CoT each node depends on its two children; without, the root on all secret bits."""
        mask = torch.zeros(self.n_ctx, self.n_ctx, dtype=torch.bool, device=batch.inputs.device)
        for node, needed in enumerate(self.children if self.cot else (self.secret,)):
            mask[self.d - 1 + node, list(needed)] = True
        return mask.expand(len(batch), -1, -1)

    def states(self, batch: Batch) -> Int[Tensor, "batch node"]:
        """The nodes of the tree, level by level upwards, written out or not."""
        tokens = torch.nn.functional.pad(batch.inputs[:, : self.d], (0, self.k - 1))
        for node, (left, right) in enumerate(self.children):
            tokens[:, self.d + node] = tokens[:, left] ^ tokens[:, right]
        return tokens[:, self.d :]

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
        """Targets node by node, from the tokens as they stand."""
        targets = torch.full_like(inputs, UNSUPERVISED)
        for row, tokens in enumerate(inputs.tolist()):
            for node, needed in enumerate(self.children if self.cot else (self.secret,)):
                targets[row, self.d - 1 + node] = sum(tokens[position] for position in needed) % 2
        return targets
