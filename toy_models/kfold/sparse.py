"""Does wang2025's Theorem 9 construct m-sparse k-fold composition? Its weights, as printed in Appendix A.2.

At most m of the k hidden permutations are not the identity. Block i of the input has the code p_i of m + 2 numbers: a
one-hot of its place among the blocks that are not the identity (0 for the others), and a point on the circle. All
matrices act on p (x) e, so the residual stream is kept as blocks of shape [m + 2, N].
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.kfold.task import Permutations, check_hidden, is_power_of_two, random_permutations

Readout = Literal["printed", "circle"]
"""printed: p_k (x) I. circle: the same without p_k's one-hot, which makes p_k^T p_k equal to 1 for every k."""


@dataclass(frozen=True)
class SparseConstruction:
    """Theorem 9's transformer for these hidden permutations."""

    hidden: Permutations
    beta: float
    """beta_1 and the later layers' beta, over the gap between the right block's score and the next."""

    def __post_init__(self) -> None:
        check_hidden(self.hidden, len(self.hidden), len(self.hidden[0]))
        if not is_power_of_two(len(self.hidden)):
            raise ValueError(f"Theorem 9 needs k to be a power of two, got k={len(self.hidden)}")

    @property
    def moving(self) -> list[int]:
        """The blocks whose hidden permutation is not the identity."""
        return [i for i, pi in enumerate(self.hidden) if list(pi) != list(range(len(pi)))]

    def codes(self) -> Float[Tensor, "k width"]:
        """p_i by block; blocks count from 0, so block i has the angle of i + 1."""
        k, m = len(self.hidden), len(self.moving)
        angle = 2 * math.pi * torch.arange(1, k + 1, dtype=torch.float64) / k
        codes = torch.zeros(k, m + 2, dtype=torch.float64)
        codes[self.moving, torch.arange(m)] = 1.0
        codes[:, m], codes[:, m + 1] = angle.cos(), angle.sin()
        return codes

    def outputs(self, values: Int[Tensor, "batch k n"], readout: Readout = "printed") -> Float[Tensor, "batch n n"]:
        """Psi^T TF(X) at the queries (1, x): [batch x out]."""
        k, n = values.shape[1:]
        codes = self.codes()
        m = codes.shape[-1] - 2
        eye = torch.eye(n, dtype=codes.dtype)
        own = torch.einsum("iw,jn->ijwn", codes, eye).flatten(0, 1).expand(len(values), -1, -1, -1)
        image = torch.einsum("iw,bijn->bijwn", codes, F.one_hot(values, n).to(codes.dtype)).flatten(1, 2)
        scores = self._first_scores(own, m)
        content = _attended(scores, image)
        for _ in range(k.bit_length() - 1):
            content = _attended(self._later_scores(own, content, m), content)
        code = codes[-1].clone()
        if readout == "circle":
            code[:m] = 0.0
        return torch.einsum("bqwn,w->bqn", content[:, :n], code)

    @property
    def _scale(self) -> float:
        k = len(self.hidden)
        return self.beta / min(1.0, 1 - math.cos(2 * math.pi / k)) if k > 1 else self.beta

    def _first_scores(self, own: Tensor, m: int) -> Float[Tensor, "batch query key"]:
        """A_1: beta_1 on the circle, and beta_2 = 100 beta_1 through pi between one-hots of the same block."""
        circle = torch.einsum("bqwn,bkwn->bqk", own[:, :, m:], own[:, :, m:])
        moved = torch.zeros(m, own.shape[-1], own.shape[-1], dtype=own.dtype)  # [y, pi(j), j]
        for y, i in enumerate(self.moving):
            moved[y, list(self.hidden[i]), range(own.shape[-1])] = 1.0
        through = torch.einsum("bqyj,yij,bkyi->bqk", own[:, :, :m], moved, own[:, :, :m])
        return self._scale * (circle + 100 * through)

    def _later_scores(self, own: Tensor, content: Tensor, m: int) -> Float[Tensor, "batch query key"]:
        """A^(l+1): the query's last block, turned by 2 pi / k, beside the key's first."""
        turn = 2 * math.pi / len(self.hidden)
        rotation = torch.tensor(
            [[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]], dtype=own.dtype
        )
        turned = torch.einsum("vw,bqwn->bqvn", rotation, content[:, :, m:])
        return self._scale * torch.einsum("bqwn,bkwn->bqk", turned, own[:, :, m:])


def _attended(scores: Tensor, content: Tensor) -> Tensor:
    return torch.einsum("bqk,bkwn->bqwn", scores.softmax(-1), content)


def sparse_hidden(k: int, n: int, m: int, generator: torch.Generator) -> Permutations:
    """Exactly m of k hidden permutations are not the identity, at random places."""
    if not 0 <= m <= k:
        raise ValueError(f"m must lie between 0 and k={k}, got {m}")
    moving = torch.randperm(k, generator=generator)[:m].tolist()
    found = [list(range(n)) for _ in range(k)]
    for i in moving:
        while found[i] == list(range(n)):
            found[i] = random_permutations(1, 1, n, generator)[0, 0].tolist()
    return tuple(tuple(pi) for pi in found)
