"""The attention-only encoder of wang2025: fixed value matrices, trained key-query matrices and readouts.

attn(X) = X + W_OV X softmax(X^T W_KQ X) with columns (i, j), L = log2(k) + 1 layers and d = kN(L+2): L+2 blocks of
size kN (section 2.2 and Theorem 4). Layer l (from 1) copies block l to block l+1, so before it only blocks 0..l are
not zero. Three things follow, all exact, so that no d x d matrix is ever formed:

1. W_KQ of layer l acts on (l+1)kN coordinates; the rest of it meets zeros, has no gradient and is not stored.
2. A layer whose W_KQ is zero and stays so has uniform attention: its scores need no product.
3. A readout that is zero on the blocks of the later layers does not need these layers, and the last layer that it
   does need is computed at the labelled queries alone.

Positions are rows here (X transposed): the residual stream is [batch pos d], as in every other model.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from probes.hooked.points import HookedConfig
from toy_models.kfold.task import Permutations, check_size, is_power_of_two

Values = Int[Tensor, "batch k n"] | Int[Tensor, "batch pos"]
"""sigma_i(j) by i and j, or the same in a row: the inputs of the task `kfold`."""


class KeyQueryAttention(nn.Module):
    """softmax over keys of x_key^T W_KQ x_query; the values are the keys' last block, of size kn."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.W_KQ = nn.Parameter(torch.zeros(width, width))
        self.hook_q, self.hook_k = HookPoint(), HookPoint()  # [batch pos 1 width]
        self.hook_v, self.hook_z = HookPoint(), HookPoint()  # [batch pos 1 kn]
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()  # [batch 1 query key]

    def forward(
        self, queries: Float[Tensor, "batch query width"], resid: Float[Tensor, "batch key width"], kn: int
    ) -> Float[Tensor, "batch query kn"]:
        if self.W_KQ.requires_grad or self.W_KQ.any() or self.hook_q.has_hooks() or self.hook_k.has_hooks():
            q = self.hook_q((queries @ self.W_KQ.T)[:, :, None])
            k = self.hook_k(resid[:, :, None].clone())  # clones: whoever writes there leaves the stream as it is
            scores = q[:, :, 0] @ k[:, :, 0].transpose(-2, -1)  # [batch query key]
        else:
            scores = resid.new_zeros(len(resid), queries.shape[1], resid.shape[1])
        scores = self.hook_attn_scores(rearrange(scores, "batch query key -> batch 1 query key"))
        pattern = self.hook_pattern(scores.softmax(-1))
        v = self.hook_v(resid[:, :, None, -kn:].clone())
        return self.hook_z((pattern[:, 0] @ v[:, :, 0])[:, :, None])[:, :, 0]


class TheoryBlock(nn.Module):
    """One layer: reads the last block that is not zero and appends the next."""

    def __init__(self, width: int, kn: int) -> None:
        super().__init__()
        self.kn = kn
        self.attn = KeyQueryAttention(width)
        self.hook_resid_pre, self.hook_attn_out, self.hook_resid_post = HookPoint(), HookPoint(), HookPoint()

    def forward(
        self, resid: Float[Tensor, "batch pos width"], query: Int[Tensor, "batch"] | None = None
    ) -> Float[Tensor, "batch query wider"]:
        """The residual stream after the layer, everywhere or at one position of each sequence."""
        resid = self.hook_resid_pre(resid)
        asking = resid if query is None else resid[torch.arange(len(resid), device=resid.device), query][:, None]
        out = self.hook_attn_out(self.attn(asking, resid, self.kn))
        return self.hook_resid_post(torch.cat([asking, out], dim=-1))


class KFoldTheory(HookedRootModule):
    """Logits of every hop 1, 2, 4, ..., k at every position (i, j).

    The residual stream at the hook points is as wide as its blocks that are not zero: (l + 2)kN before layer l (from
    0), kN more behind it; d of the paper is `cfg.d_model`. There is no MLP.
    """

    blocks: Sequence[TheoryBlock]

    def __init__(self, k: int, n: int, beta_0: float = 1.0, dtype: torch.dtype = torch.float32) -> None:
        check_size(k, n)
        if not is_power_of_two(k):
            raise ValueError(f"the construction needs k to be a power of two, got k={k}")
        super().__init__()
        self.k, self.n, self.kn, self.n_layers = k, n, k * n, k.bit_length()
        self.blocks = nn.ModuleList(  # pyright: ignore[reportAttributeAccessIssue]
            [TheoryBlock((layer + 2) * self.kn, self.kn) for layer in range(self.n_layers)]
        )
        self.readout = nn.Parameter(torch.zeros(self.n_layers, self.n_layers + 2, k, n, n))
        """Psi_l by hop l: [hop block i j out]."""
        self.hook_embed = HookPoint()
        self.setup()
        self.eval()
        self.to(dtype)
        with torch.no_grad():
            self._aligned_readouts(beta_0)

    @property
    def cfg(self) -> HookedConfig:
        """The model's sizes by TransformerLens' names."""
        return HookedConfig(
            n_layers=self.n_layers,
            n_heads=1,
            d_model=self.kn * (self.n_layers + 2),
            d_head=self.kn,
            d_vocab=self.n,
            n_ctx=self.kn,
            device=str(self.readout.device),
        )

    def n_visible(self, n_pos: int) -> Int[Tensor, "pos"]:
        """How many keys each query sees: all of them."""
        return torch.full((n_pos,), n_pos)

    def _aligned_readouts(self, scale: float) -> None:
        """Psi_l = scale e_{l+1} (x) 1_k (x) I_N (blocks from 0): the initial readouts and the construction's."""
        self.readout.zero_()
        for layer in range(self.n_layers):
            self.readout[layer, layer + 2] = scale * torch.eye(self.n, dtype=self.readout.dtype)

    def embed(self, values: Values) -> Float[Tensor, "batch pos width"]:
        """Blocks 0 and 1: E(i, j) and E(i, sigma_i(j)), with E(i, j) = e_i (x) e_j."""
        values = values.reshape(len(values), self.k, self.n)
        position = torch.arange(self.kn, device=values.device)
        own = F.one_hot(position, self.kn).expand(len(values), -1, -1)
        image = F.one_hot(position // self.n * self.n + values.flatten(1), self.kn)
        return self.hook_embed(torch.cat([own, image], dim=-1).to(self.readout.dtype))

    def forward(
        self, values: Values, hop: int | None = None, query: Int[Tensor, "batch"] | None = None
    ) -> Float[Tensor, "batch *hop query n"]:
        """Psi_l^T TF(X) for every l, or for the one with index `hop`; everywhere, or at one position each.

        `values` are [batch k n], or the same flat: the tokens of the task.
        """
        resid = self.embed(values)
        depth = self._depth(hop)
        for layer in range(depth):
            resid = self.blocks[layer](resid, query if layer == depth - 1 else None)
        readout = rearrange(self.readout, "hop block i j out -> hop (block i j) out")[:, : resid.shape[-1]]
        if hop is not None:
            return resid @ readout[hop]
        return torch.einsum("bpd,hdo->bhpo", resid, readout)

    def _depth(self, hop: int | None) -> int:
        """How many layers reach the readout of `hop`: those whose block it reads, or may come to read."""
        if hop is None or self.readout.requires_grad:
            return self.n_layers
        blocks_read = self.readout[hop].flatten(1).any(-1).nonzero()
        return max(int(blocks_read.max()) - 1, 1) if len(blocks_read) else 1

    @torch.no_grad()
    def construct(self, hidden: Permutations, scale: float) -> None:
        """The weights of Theorem 4, with `scale` for the large constants beta.

        Layer 0 maps a query's E(i, j) to the key E(i, pi_i(j)). Layer l >= 1 maps block l+1 of the query, which holds
        E(i + r - 1, hop_i^r(j)) with r = 2^(l-1), to the key E(i + r, hop_i^r(j)): one step on, whatever l is.
        """
        position = torch.arange(self.kn)
        block, element = position // self.n, position % self.n
        for layer, module in enumerate(self.blocks):
            weight = module.attn.W_KQ
            weight.zero_()
            if layer == 0:
                weight[block * self.n + torch.tensor(hidden)[block, element], position] = scale
            else:
                following = (block + 1) % self.k * self.n + element
                weight[following, (layer + 1) * self.kn + position] = scale
        self._aligned_readouts(1.0)
