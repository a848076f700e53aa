"""The simplified transformer block of wen2024's theory (Definitions 3 to 6) as a hooked model.

One frozen vector for each (position, token), attention by one square matrix A, and a ReLU network on the token
beside the attention output (concatenated, not added). No LayerNorm, no biases, one number out per position:

    T(b)[i] = h^T ReLU(W [e_{i,b[i]}; sum_j softmax_j(e_{j,b[j]}^T A e_{i,b[i]}) e_{j,b[j]}])

The sign of T(b)[i] is the prediction: positive means that the next token is 1.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from probes.hooked.points import HookedConfig


def random_embedding(n_ctx: int, d_model: int, generator: torch.Generator) -> Float[Tensor, "pos token d_model"]:
    """Two unit vectors for each position, uniform on {+-1/sqrt(d)}^d (Definition 3), in float64."""
    if n_ctx < 1 or d_model < 1:
        raise ValueError(f"an embedding needs n_ctx and d_model of at least 1, got {n_ctx} and {d_model}")
    signs = torch.randint(0, 2, (n_ctx, 2, d_model), generator=generator) * 2 - 1
    return signs.double() / d_model**0.5


class SimplifiedBlock(HookedRootModule):
    """One block with one head; A and W are trained, the embedding and h are frozen. A and W start at zero.

    The token is concatenated with the attention output, so there is no `hook_resid_mid`; the stream after the block,
    `hook_resid_post`, is the MLP's one number. A query is A e_i; keys and values are the embeddings themselves.
    """

    def __init__(self, embedding: Float[Tensor, "pos 2 d_model"], h: Float[Tensor, "width"]) -> None:
        super().__init__()
        self.embed = _Embedding(embedding)
        self.blocks = nn.ModuleList([_Block(embedding.shape[-1], h)])
        self.hook_embed = HookPoint()
        self.to(embedding.dtype)
        self.setup()
        self.eval()

    @property
    def cfg(self) -> HookedConfig:
        """The block's sizes by TransformerLens' names."""
        n_ctx, d_vocab, d_model = self.embedding.shape
        return HookedConfig(
            n_layers=1,
            n_heads=1,
            d_model=d_model,
            d_head=d_model,
            d_vocab=d_vocab,
            n_ctx=n_ctx,
            device=str(self.A.device),
        )

    @property
    def embedding(self) -> Float[Tensor, "pos 2 d_model"]:
        return self.embed.W_E

    @property
    def A(self) -> Float[Tensor, "d_model d_model"]:
        """The attention matrix: the score of key j for query i is e_j^T A e_i."""
        return self._block.attn.A

    @property
    def W(self) -> Float[Tensor, "width twice_d_model"]:
        """The hidden weights; the first d_model columns read the token, the others the attention output."""
        return self._block.mlp.W

    @property
    def h(self) -> Float[Tensor, "width"]:
        return self._block.mlp.h

    @property
    def _block(self) -> "_Block":
        block = self.blocks[0]
        assert isinstance(block, _Block)
        return block

    def forward(self, inputs: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos"]:
        """T(b) at every position."""
        return self._block(self.hook_embed(self.embed(inputs)))


class _Embedding(nn.Module):
    W_E: Tensor

    def __init__(self, embedding: Tensor) -> None:
        super().__init__()
        self.register_buffer("W_E", embedding)

    def forward(self, inputs: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        n_pos = inputs.shape[1]
        if n_pos > len(self.W_E):
            raise ValueError(f"{n_pos} tokens arrived, the block has embeddings for {len(self.W_E)} positions")
        return self.W_E[torch.arange(n_pos, device=inputs.device), inputs]


class _Block(nn.Module):
    def __init__(self, d_model: int, h: Tensor) -> None:
        super().__init__()
        self.attn = _Attention(d_model)
        self.mlp = _FeedForward(d_model, h)
        self.hook_resid_pre, self.hook_attn_out = HookPoint(), HookPoint()  # [batch pos d_model]
        self.hook_mlp_out, self.hook_resid_post = HookPoint(), HookPoint()  # [batch pos 1]

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos"]:
        x = self.hook_resid_pre(x)
        attended = self.hook_attn_out(self.attn(x))
        out = self.hook_mlp_out(self.mlp(torch.cat([x, attended], dim=-1)).unsqueeze(-1))
        return self.hook_resid_post(out).squeeze(-1)


class _Attention(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.A = nn.Parameter(torch.zeros(d_model, d_model))
        self.hook_q, self.hook_k, self.hook_v = HookPoint(), HookPoint(), HookPoint()  # [batch pos head d_model]
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()  # [batch head query key]
        self.hook_z = HookPoint()  # [batch pos head d_model]

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        q = self.hook_q((x @ self.A.T).unsqueeze(2))
        k = self.hook_k(x.unsqueeze(2).clone())  # clones: whoever writes there leaves the stream as it is
        scores = torch.einsum("bqhd,bkd->bhqk", q, k[:, :, 0])
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = self.hook_attn_scores(scores.masked_fill(future, -torch.inf))
        pattern = self.hook_pattern(scores.softmax(-1))
        v = self.hook_v(x.unsqueeze(2).clone())
        return self.hook_z(torch.einsum("bhqk,bkhd->bqd", pattern, v).unsqueeze(2))[:, :, 0]


class _FeedForward(nn.Module):
    h: Tensor

    def __init__(self, d_model: int, h: Tensor) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(len(h), 2 * d_model))
        self.register_buffer("h", h)
        self.hook_pre = HookPoint()
        self.hook_post = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos twice_d_model"]) -> Float[Tensor, "batch pos"]:
        return self.hook_post(torch.relu(self.hook_pre(x @ self.W.T))) @ self.h
