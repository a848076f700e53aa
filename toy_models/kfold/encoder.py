"""A standard encoder: every position sees every other. Hooked like the decoder, with one readout per question."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from probes.hooked.points import HookedConfig

Positions = Literal["learned", "factored", "sinusoidal"]
Readouts = Literal["last", "own"]


@dataclass(frozen=True)
class EncoderConfig:
    """Pre-LayerNorm, GELU, learned token embeddings, PyTorch's initial matrices."""

    n_layers: int = 4
    """Number of blocks."""
    n_heads: int = 4
    """Attention heads per block; must divide d_model."""
    d_model: int = 64
    """Width of the residual stream."""
    d_mlp: int = 0
    """Width of the MLP; 0 means 4 * d_model."""
    positions: Positions = "learned"
    """One vector per position; the sum of a block's and an element's vector; or fixed sinusoids."""
    embed_std: float = 0.1
    """Standard deviation of the initial embeddings; PyTorch's default is 1."""
    readouts: Readouts = "last"
    """Whether every readout reads the last layer, or each one layer of its own: the last R layers in order."""

    def __post_init__(self) -> None:
        for name in ("n_layers", "n_heads", "d_model"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.d_model % self.n_heads:
            raise ValueError(f"n_heads={self.n_heads} does not divide d_model={self.d_model}")
        if self.d_mlp < 0:
            raise ValueError(f"d_mlp must be 0 (for 4 * d_model) or positive, got {self.d_mlp}")
        if not (math.isfinite(self.embed_std) and self.embed_std > 0):
            raise ValueError(f"embed_std must be positive, got {self.embed_std}")


@dataclass(frozen=True)
class Shape:
    """What the data ask of an encoder."""

    d_vocab: int
    n_ctx: int
    d_out: int
    """Classes of a readout."""
    n_readouts: int = 1
    n_front: int = 0
    """Positions in front that stand outside the blocks of factored positions."""
    block_length: int = 1
    """Positions in a block of factored positions."""


class Attention(nn.Module):
    """Multi-head self-attention without a mask."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.hook_q, self.hook_k, self.hook_v = HookPoint(), HookPoint(), HookPoint()  # [batch pos head d_head]
        self.hook_attn_scores, self.hook_pattern, self.hook_z = HookPoint(), HookPoint(), HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        parts = rearrange(self.qkv(x), "b p (three h d) -> three b p h d", three=3, h=self.n_heads)
        points = self.hook_q, self.hook_k, self.hook_v
        q, k, v = (point(part).transpose(1, 2) for point, part in zip(points, parts))  # [batch head pos d_head]
        scores = self.hook_attn_scores(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5)
        pattern = self.hook_pattern(scores.softmax(-1))
        z = self.hook_z(rearrange(pattern @ v, "b h p d -> b p h d"))
        return self.out(z.flatten(-2))


class Mlp(nn.Module):
    """One hidden layer with GELU."""

    def __init__(self, d_model: int, d_mlp: int) -> None:
        super().__init__()
        self.enter = nn.Linear(d_model, d_mlp)
        self.leave = nn.Linear(d_mlp, d_model)
        self.hook_post = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.leave(self.hook_post(F.gelu(self.enter(x), approximate="tanh")))


class Block(nn.Module):
    """Attention and MLP, each after a LayerNorm and added to the residual stream."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(config.d_model), nn.LayerNorm(config.d_model)
        self.attn = Attention(config.d_model, config.n_heads)
        self.mlp = Mlp(config.d_model, config.d_mlp or 4 * config.d_model)
        self.hook_resid_pre, self.hook_resid_mid, self.hook_resid_post = HookPoint(), HookPoint(), HookPoint()
        self.hook_attn_out, self.hook_mlp_out = HookPoint(), HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        x = self.hook_resid_pre(x)
        x = self.hook_resid_mid(x + self.hook_attn_out(self.attn(self.ln1(x))))
        return self.hook_resid_post(x + self.hook_mlp_out(self.mlp(self.ln2(x))))


class HookedEncoder(HookedRootModule):
    """Logits of every readout at every position."""

    blocks: Sequence[Block]

    def __init__(self, config: EncoderConfig, shape: Shape) -> None:
        super().__init__()
        if config.readouts == "own" and shape.n_readouts > config.n_layers:
            raise ValueError(f"{shape.n_readouts} readouts need as many layers of their own, got {config.n_layers}")
        self.config, self.shape = config, shape
        self.embed = nn.Embedding(shape.d_vocab, config.d_model)
        self.pos_embed = PositionEmbedding(config, shape)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layers)])  # pyright: ignore
        self.ln_final = nn.LayerNorm(config.d_model)
        self.unembed = nn.Linear(config.d_model, shape.n_readouts * shape.d_out)
        self.hook_embed, self.hook_pos_embed = HookPoint(), HookPoint()
        with torch.no_grad():
            for table in (self.embed, *(m for m in self.pos_embed.modules() if isinstance(m, nn.Embedding))):
                table.weight.mul_(config.embed_std)
        self.setup()
        self.eval()

    @property
    def cfg(self) -> HookedConfig:
        """The encoder's sizes by TransformerLens' names."""
        config = self.config
        return HookedConfig(
            n_layers=config.n_layers,
            n_heads=config.n_heads,
            d_model=config.d_model,
            d_head=config.d_model // config.n_heads,
            d_vocab=self.shape.d_vocab,
            n_ctx=self.shape.n_ctx,
            device=str(self.embed.weight.device),
        )

    def n_visible(self, n_pos: int) -> Int[Tensor, "pos"]:
        """How many keys each query sees: all of them."""
        return torch.full((n_pos,), n_pos)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch readout pos d_out"]:
        x = self.hook_embed(self.embed(tokens)) + self.hook_pos_embed(self.pos_embed(tokens.shape[1]))
        states = []
        for block in self.blocks:
            x = block(x)
            states.append(x)
        if self.config.readouts == "last":
            logits = self.unembed(self.ln_final(x))
            return rearrange(logits, "b p (readout out) -> b readout p out", readout=self.shape.n_readouts)
        read = self.ln_final(torch.stack(states[-self.shape.n_readouts :], dim=1))
        weight = self.unembed.weight.view(self.shape.n_readouts, self.shape.d_out, -1)
        bias = self.unembed.bias.view(self.shape.n_readouts, 1, self.shape.d_out)
        return torch.einsum("brpd,rod->brpo", read, weight) + bias


class PositionEmbedding(nn.Module):
    """A vector for every position."""

    def __init__(self, config: EncoderConfig, shape: Shape) -> None:
        super().__init__()
        self.kind, self.n_front = config.positions, shape.n_front
        if self.kind == "learned":
            self.table = nn.Embedding(shape.n_ctx, config.d_model)
        elif self.kind == "factored":
            self.block_table = nn.Embedding(-(-(shape.n_ctx - shape.n_front) // shape.block_length), config.d_model)
            self.element_table = nn.Embedding(shape.block_length, config.d_model)
            self.front_table = nn.Embedding(max(shape.n_front, 1), config.d_model)
        else:
            self.register_buffer("fixed", config.embed_std * _sinusoids(shape.n_ctx, config.d_model))

    def forward(self, n_pos: int) -> Float[Tensor, "pos d_model"]:
        if self.kind == "learned":
            return self.table.weight[:n_pos]
        if self.kind == "sinusoidal":
            return self.get_buffer("fixed")[:n_pos]
        inside = (self.block_table.weight[:, None] + self.element_table.weight).flatten(0, 1)
        return torch.cat([self.front_table.weight[: self.n_front], inside])[:n_pos]


def _sinusoids(n_ctx: int, d_model: int) -> Float[Tensor, "pos d_model"]:
    """The fixed positions of "Attention is all you need", scaled to a variance of 1."""
    frequency = torch.exp(-math.log(10_000.0) * torch.arange(0, d_model, 2) / d_model)
    angle = torch.arange(n_ctx)[:, None] * frequency
    return math.sqrt(2) * torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[:, :d_model]


def hooked_encoder(config: EncoderConfig, shape: Shape, seed: int) -> HookedEncoder:
    """A freshly initialised encoder in eval mode; the seed alone decides its weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return HookedEncoder(config, shape)
