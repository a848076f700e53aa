"""What does the simplified block say at a few positions? The same numbers from tables, fast enough for 2^n inputs.

Before attention a state depends on (position, token) alone. So the scores are a table over pairs of these, and the
attention output is a mixture of 2 n_ctx known rows: W is applied to the rows instead of to every mixture. Equal to
the hooked forward up to rounding, gradients included (tests/toy_models/parity/test_theory_model.py).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.parity.theory_model import SimplifiedBlock

Keep = Callable[[Tensor], Tensor]
"""What storing a weight or an activation does to it."""


@dataclass(frozen=True)
class Tables:
    """Everything the outputs at `positions` need of the weights."""

    positions: Int[Tensor, "query"]
    scores: Float[Tensor, "query query_token pos token"]
    """e_{j,b}^T A e_{i,b'} for query i with token b' and key j with token b; -inf where i does not see j."""
    own: Float[Tensor, "query token width"]
    """The token part of the hidden layer."""
    attended: Float[Tensor, "slots width"]
    """The attention part, were all attention on one slot: position-major (position, token)."""

    def patterns(self, inputs: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch query pos"]:
        """The attention of each query."""
        return _patterns(self.scores, inputs, self.positions)

    def outputs(self, inputs: Int[Tensor, "batch pos"], h: Float[Tensor, "width"]) -> Float[Tensor, "batch query"]:
        """T(b) at each query."""
        pre = _own(self.own, inputs, self.positions) + _mixtures(self.patterns(inputs), inputs) @ self.attended
        return torch.relu(pre) @ h


def tables(block: SimplifiedBlock, positions: Int[Tensor, "query"], n_pos: int) -> Tables:
    """The tables of `block` for queries at `positions` in sequences of `n_pos` tokens, with gradients."""
    rows, d_model = block.embedding[:n_pos], block.embedding.shape[-1]
    scores = torch.einsum("qud,ptd->qupt", rows[positions] @ block.A.T, rows)
    own = rows[positions] @ block.W[:, :d_model].T
    return Tables(positions, causal(scores, positions), own, rows.flatten(0, 1) @ block.W[:, d_model:].T)


def stored_outputs(
    block: SimplifiedBlock,
    inputs: Int[Tensor, "batch pos"],
    positions: Int[Tensor, "query"],
    keep: Keep,
    count: Float[Tensor, "width"] | None = None,
) -> Float[Tensor, "batch query"]:
    """T(b) at `positions` of a machine that stores every weight and every activation by `keep`.

    `count` says how many equal neurons each one stands for; sums are exact, and stored as one number.
    """
    rows, W, d_model = keep(block.embedding[: inputs.shape[1]]), keep(block.W), block.embedding.shape[-1]
    q = keep(rows[positions] @ keep(block.A).T)
    scores = causal(keep(torch.einsum("qud,ptd->qupt", q, rows)), positions)
    own = _own(rows[positions] @ W[:, :d_model].T, inputs, positions)
    pattern = keep(_patterns(scores, inputs, positions))
    attended = keep(_mixtures(pattern, inputs) @ rows.flatten(0, 1))
    h = keep(block.h) if count is None else keep(block.h) * count
    return keep(torch.relu(keep(own + attended @ W[:, d_model:].T)) @ h)


def causal(
    scores: Float[Tensor, "query query_token pos token"], positions: Int[Tensor, "query"]
) -> Float[Tensor, "query query_token pos token"]:
    """Scores with -inf where a query does not see the key."""
    future = torch.arange(scores.shape[2], device=scores.device) > positions[:, None]
    return scores.masked_fill(future[:, None, :, None], -torch.inf)


def _patterns(scores: Tensor, inputs: Tensor, positions: Tensor) -> Float[Tensor, "batch query pos"]:
    of_query = scores[torch.arange(len(positions), device=inputs.device), inputs[:, positions]]
    return torch.where(inputs[:, None] == 1, of_query[..., 1], of_query[..., 0]).softmax(-1)


def _own(table: Tensor, inputs: Tensor, positions: Tensor) -> Float[Tensor, "batch query width"]:
    return table[torch.arange(len(positions), device=inputs.device), inputs[:, positions]]


def _mixtures(pattern: Tensor, inputs: Tensor) -> Float[Tensor, "batch query slots"]:
    """The attention on each (position, token)."""
    present = torch.stack([1 - inputs, inputs], dim=-1).to(pattern.dtype)[:, None]
    return rearrange(pattern.unsqueeze(-1) * present, "batch query pos token -> batch query (pos token)")
