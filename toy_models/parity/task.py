"""Parity of secret bits, with and without chain of thought (wen2024, Definitions 1 and 2).

n uniform bits, an end token 0, then the parity of the k secret bits; with chain of thought the k running
parities b[i+1] = b[i] xor b[S[i]] for i = n+1..n+k. Positions count from 0 here: the end token is at n.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toy_models.task import UNSUPERVISED, Batch, register


@register
@dataclass(frozen=True)
class Parity:
    """The (n, k) parity problem."""

    name: ClassVar[str] = "parity"

    n: int = 30
    """Number of input bits."""
    k: int = 3
    """Number of secret bits."""
    cot: bool = True
    """Whether the running parities are written out and supervised."""
    secret: tuple[int, ...] = ()
    """The secret positions (0-based) in the order the chain reads them; empty: drawn from secret_seed."""
    secret_seed: int = 0
    """Draws the secret set when none is given."""
    order: Literal["ascending", "random"] = "ascending"
    """The order in which the chain reads a drawn secret set."""

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.n:
            raise ValueError(f"parity needs 1 <= k <= n, got k={self.k} secret bits of n={self.n}")
        if not self.secret:
            object.__setattr__(self, "secret", self._drawn_secret())
        valid = all(0 <= s < self.n for s in self.secret)
        if not valid or len(set(self.secret)) != len(self.secret) or len(self.secret) != self.k:
            raise ValueError(
                f"the secret set must be {self.k} distinct positions in 0..{self.n - 1}, got {self.secret}"
            )

    def _drawn_secret(self) -> tuple[int, ...]:
        generator = torch.Generator().manual_seed(self.secret_seed)
        drawn = torch.randperm(self.n, generator=generator)[: self.k]
        return tuple((drawn.sort().values if self.order == "ascending" else drawn).tolist())

    @property
    def d_vocab(self) -> int:
        return 2

    @property
    def n_ctx(self) -> int:
        return self.n + (self.k if self.cot else 1)

    @property
    def n_inputs(self) -> int:
        return 2**self.n

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """n sequences of uniform bits with their running parities or their parity."""
        bits = torch.randint(0, 2, (n, self.n), generator=generator)
        running = bits[:, list(self.secret)].cumsum(-1) % 2
        continuation = running if self.cot else running[:, -1:]
        tokens = torch.cat([bits, bits.new_zeros(n, 1), continuation], dim=-1)
        targets = tokens[:, 1:].clone()
        targets[:, : self.n] = UNSUPERVISED
        return Batch(inputs=tokens[:, :-1], targets=targets)

    def dependencies(self, batch: Batch) -> Bool[Tensor, "batch query key"]:
        """With CoT step i depends on S[i] and on the running parity; without, the answer on all of S."""
        mask = torch.zeros(self.n_ctx, self.n_ctx, dtype=torch.bool, device=batch.inputs.device)
        for step, secret in enumerate(self.secret):
            query = self.n + step if self.cot else self.n
            mask[query, secret] = True
            mask[query, query] = self.cot
        return mask.expand(len(batch), -1, -1)

    def states(self, batch: Batch) -> Int[Tensor, "batch k"]:
        """The running parities, written out or not."""
        return batch.inputs[:, list(self.secret)].cumsum(-1) % 2

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
        """Targets bit by bit, from the tokens as they stand."""
        targets = torch.full_like(inputs, UNSUPERVISED)
        for row, tokens in enumerate(inputs.tolist()):
            if self.cot:
                for step, secret in enumerate(self.secret):
                    targets[row, self.n + step] = tokens[self.n + step] ^ tokens[secret]
            else:
                targets[row, self.n] = sum(tokens[secret] for secret in self.secret) % 2
        return targets
