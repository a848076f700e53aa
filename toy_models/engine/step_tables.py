"""What does the sparse step compute once for a whole batch? One block's parameters, and tables of distinct tokens."""

from dataclasses import dataclass
from functools import cached_property

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

Affine = tuple[Tensor, Tensor]
"""Weight and bias, of a linear map or of a LayerNorm."""


@dataclass(frozen=True)
class Block:
    """One block's parameters."""

    ln1: Affine
    q: Affine
    k: Affine
    v: Affine
    o: Affine
    ln2: Affine
    mlp_in: Affine
    mlp_out: Affine


@dataclass(frozen=True, eq=False)
class Mixing:
    """What h + MLP(LN(h)) needs of the rows that the states h mix, each computed when it is first needed."""

    rows: Float[Tensor, "row d_model"]
    block: Block

    @cached_property
    def centred(self) -> Float[Tensor, "row d_model"]:
        return self.rows - self.rows.mean(-1, keepdim=True)

    @cached_property
    def gram(self) -> Float[Tensor, "row row"]:
        """A state's variance is c gram c / d_model."""
        return self.centred @ self.centred.T

    @cached_property
    def mlp_rows(self) -> Float[Tensor, "row d_mlp"]:
        """The first MLP matrix, applied to every row."""
        return (self.centred * self.block.ln2[0]) @ self.block.mlp_in[0].T

    @cached_property
    def mlp_bias(self) -> Float[Tensor, "d_mlp"]:
        return F.linear(self.block.ln2[1], *self.block.mlp_in)


@dataclass(frozen=True)
class Slots:
    """What the first block computes once, for all states whose positions are `queries`."""

    queries: Int[Tensor, "query"]
    table: Float[Tensor, "query_slot head_slot"] | None
    """Scores; None if attention is held fixed."""
    mixing: Mixing
    """Of the value-output products of every head and slot and the queries' own embeddings."""
