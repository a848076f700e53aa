"""One causal layer over clauses of five tokens: the decoder of huang2025's experiments.

A clause is embedded as the concatenation of its tokens' embeddings, blanks as zero, without positions unless they are
asked for. One attention layer and one MLP lead to a head for each token of the next clause, over the tokens that can
stand in its slot. Two variants are used (`STANDARD`, `THEORY`): a usual pre-LayerNorm block, and one as bare as the
paper's section 3, in which attention averages clause embeddings and nothing goes round.

Training needs the answers' rows alone, and generation one row at a time; so keys and values are separate from the
rows that read them, and `forward` takes the queries that are wanted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from probes.hooked.points import HookedConfig
from toy_models.lego.places import LearnedPlaces, SinusoidalPlaces
from toy_models.lego.task import BLANK, CLAUSE, Lego


@dataclass(frozen=True)
class ClauseDecoderConfig:
    """One layer, ReLU, PyTorch's initial matrices where nothing else is said."""

    d_token: int = 32
    """Width of a token's embedding; a clause's is five times that."""
    n_heads: int = 2
    """Attention heads; must divide 5 * d_token."""
    d_mlp: int = 512
    """Width of the MLP."""
    residual: bool = True
    """Whether the block's input goes round attention and MLP, with LayerNorms before each and before the heads."""
    values: Literal["learned", "identity"] = "learned"
    """What attention reads: learned projections, or the clause embeddings themselves, averaged over heads."""
    zero_query: bool = False
    """Whether queries start at zero, so that attention starts uniform."""
    embed_std: float = 1.0
    """Standard deviation of the initial embeddings."""
    embeddings: Literal["learned", "orthonormal"] = "learned"
    """Learned, or fixed and orthogonal among the tokens of each slot, of the norm embed_std * sqrt(d_token)."""
    positions: Literal["none", "learned", "sinusoidal"] = "none"
    """NoPE; a learned vector for each place, drawn as tokens are; or fixed sines and cosines times embed_std."""
    n_ctx: int = 321
    """Places that have a learned vector, as many as the clauses of a sentence of length 160."""

    def __post_init__(self) -> None:
        for name in ("d_token", "n_heads", "d_mlp", "n_ctx"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.d_model % self.n_heads:
            raise ValueError(f"n_heads={self.n_heads} does not divide the clause's width {self.d_model}")
        if not (math.isfinite(self.embed_std) and self.embed_std > 0):
            raise ValueError(f"embed_std must be positive, got {self.embed_std}")

    @property
    def d_model(self) -> int:
        return CLAUSE * self.d_token


STANDARD = ClauseDecoderConfig(embed_std=0.3)
THEORY = ClauseDecoderConfig(residual=False, values="identity", zero_query=True)


class ClauseAttention(nn.Module):
    """Attention whose keys and values are computed apart from the rows that read them.

    Identity values are the same for all heads, so the heads' mean pattern reads them in one product; where somebody
    hooks `hook_v` or `hook_z`, each head reads its own, and the result is the same to rounding.
    """

    def __init__(self, config: ClauseDecoderConfig) -> None:
        super().__init__()
        self.n_heads, width = config.n_heads, config.d_model
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        learned = config.values == "learned"
        self.value = nn.Linear(width, width) if learned else None
        self.out = nn.Linear(width, width) if learned else None
        self.hook_q, self.hook_k = HookPoint(), HookPoint()  # [batch pos head d_head]
        self.hook_v, self.hook_z = HookPoint(), HookPoint()  # [batch pos head d_value]
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()  # [batch head query key]
        if config.zero_query:
            nn.init.zeros_(self.query.weight)
            nn.init.zeros_(self.query.bias)

    def keys_values(
        self, x: Float[Tensor, "batch key d_model"]
    ) -> tuple[Float[Tensor, "batch head key d_head"], Float[Tensor, "batch head_or_1 key d_value"]]:
        """What the clauses offer: keys, and values; identity values are the same for all heads."""
        keys = self.hook_k(self._split(self.key(x))).transpose(1, 2)
        if self.value is not None:
            return keys, self.hook_v(self._split(self.value(x))).transpose(1, 2)
        if self.hook_v.has_hooks():
            return keys, self.hook_v(x[:, :, None].repeat(1, 1, self.n_heads, 1)).transpose(1, 2)
        return keys, rearrange(x, "b k d -> b 1 k d")

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        keys: Float[Tensor, "batch head key d_head"],
        values: Float[Tensor, "batch head_or_1 key d_value"],
        visible: Bool[Tensor, "query key"],
    ) -> Float[Tensor, "batch query d_model"]:
        queries = self.hook_q(self._split(self.query(x))).transpose(1, 2)
        scores = queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5
        scores = self.hook_attn_scores(scores.masked_fill(~visible, -torch.inf))
        pattern = self.hook_pattern(scores.softmax(-1))  # [batch head query key]
        if self.out is None and values.shape[1] == 1 and not self.hook_z.has_hooks():
            return (pattern.mean(1, keepdim=True) @ values)[:, 0]
        z = self.hook_z((pattern @ values).transpose(1, 2))  # [batch query head d_value]
        return z.mean(2) if self.out is None else self.out(rearrange(z, "b q h d -> b q (h d)"))

    def _split(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos head d_head"]:
        return rearrange(x, "b p (h d) -> b p h d", h=self.n_heads)


class ClauseMlp(nn.Module):
    """One hidden layer with ReLU."""

    def __init__(self, config: ClauseDecoderConfig) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(config.d_model, config.d_mlp), nn.Linear(config.d_mlp, config.d_model)
        self.hook_post = HookPoint()

    def forward(self, x: Float[Tensor, "batch query d_model"]) -> Float[Tensor, "batch query d_model"]:
        return self.leave(self.hook_post(F.relu(self.enter(x))))


class ClauseBlock(nn.Module):
    """Attention and MLP, with or without a way round them; `hook_resid_pre` stands where clauses are embedded."""

    def __init__(self, config: ClauseDecoderConfig) -> None:
        super().__init__()
        self.residual = config.residual
        self.ln1, self.ln2 = (nn.LayerNorm(config.d_model) if config.residual else nn.Identity() for _ in range(2))
        self.attn, self.mlp = ClauseAttention(config), ClauseMlp(config)
        self.hook_resid_pre, self.hook_resid_mid, self.hook_resid_post = HookPoint(), HookPoint(), HookPoint()
        self.hook_attn_out, self.hook_mlp_out = HookPoint(), HookPoint()

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        keys: Float[Tensor, "batch head key d_head"],
        values: Float[Tensor, "batch head_or_1 key d_value"],
        visible: Bool[Tensor, "query key"],
    ) -> Float[Tensor, "batch query d_model"]:
        attended = self.hook_attn_out(self.attn(self.ln1(x), keys, values, visible))
        x = self.hook_resid_mid(x + attended if self.residual else attended)
        processed = self.hook_mlp_out(self.mlp(self.ln2(x)))
        return self.hook_resid_post(x + processed if self.residual else processed)


Slots = tuple[tuple[int, int], ...]
"""For each slot of a clause the first token that can stand there, besides the blank, and how many there are."""


class ClauseDecoder(HookedRootModule):
    """Logits of the five tokens of the next clause, at every clause or at those asked for; a position is a clause."""

    blocks: Sequence[ClauseBlock]

    def __init__(self, config: ClauseDecoderConfig, slots: Slots) -> None:
        super().__init__()
        self.config, self.slots = config, slots
        d_vocab = max(first + size for first, size in slots)
        self.embed = nn.Embedding(d_vocab, config.d_token, padding_idx=BLANK)
        self.blocks = nn.ModuleList([ClauseBlock(config)])  # pyright: ignore[reportAttributeAccessIssue]
        self.ln_final = nn.LayerNorm(config.d_model) if config.residual else nn.Identity()
        self.unembed = nn.Linear(config.d_model, sum(1 + size for _, size in slots))
        self.hook_embed = HookPoint()
        with torch.no_grad():
            self.embed.weight.mul_(config.embed_std)
        if config.embeddings == "orthonormal":
            self._fix_embeddings()
        if config.positions != "none":  # last, so that the other weights are those of the same seed without it
            kind = LearnedPlaces if config.positions == "learned" else SinusoidalPlaces
            self.pos_embed = kind(config.n_ctx, config.d_model, config.embed_std)
            self.hook_pos_embed = HookPoint()  # [batch pos d_model]
        self.setup()
        self.eval()

    def _fix_embeddings(self) -> None:
        """Tokens of different slots never add up, so it takes as many dimensions as the largest slot has tokens."""
        width, largest = self.config.d_token, max(size for _, size in self.slots)
        if width < largest:
            raise ValueError(
                f"{largest} tokens of a slot cannot be orthogonal in d_token={width} dimensions; take "
                f"d_token={largest} or fewer variables"
            )
        for first, size in sorted(set(self.slots)):
            rows = nn.init.orthogonal_(torch.empty(size, width))
            self.embed.weight.data[first : first + size] = rows * self.config.embed_std * width**0.5
        self.embed.weight.requires_grad_(False)

    @property
    def cfg(self) -> HookedConfig:
        """The decoder's sizes by TransformerLens' names; without learned positions it reads any number of clauses."""
        config = self.config
        return HookedConfig(
            n_layers=1,
            n_heads=config.n_heads,
            d_model=config.d_model,
            d_head=config.d_model // config.n_heads if config.values == "learned" else config.d_model,
            d_vocab=self.embed.num_embeddings,
            n_ctx=config.n_ctx if config.positions == "learned" else None,
            device=str(self.embed.weight.device),
        )

    def embedded(
        self, clauses: Int[Tensor, "batch clause five"], first: int = 0
    ) -> Float[Tensor, "batch clause d_model"]:
        """The concatenated embeddings of each clause's tokens, which enter the block; they stand from `first` on."""
        x = self.hook_embed(self.embed(clauses).flatten(-2))
        if self.config.positions != "none":
            places = torch.arange(first, first + clauses.shape[1], device=clauses.device)
            x = x + self.hook_pos_embed(self.pos_embed(places).repeat(len(x), 1, 1))  # copies: hooks may write
        return self.blocks[0].hook_resid_pre(x)

    def forward(
        self, clauses: Int[Tensor, "batch clause five"], queries: Int[Tensor, "query"] | None = None
    ) -> Float[Tensor, "batch query logit"]:
        """Logits at `queries`, positions in ascending order; None: everywhere. Only these rows are computed."""
        x, block = self.embedded(clauses), self.blocks[0]
        position = torch.arange(clauses.shape[1], device=clauses.device)
        queries = position if queries is None else queries
        keys, values = block.attn.keys_values(block.ln1(x))
        return self.read(block(x[:, queries], keys, values, position <= queries[:, None]))

    def read(self, resid: Float[Tensor, "batch query d_model"]) -> Float[Tensor, "batch query logit"]:
        """The five heads' reading of the block's output, side by side."""
        return self.unembed(self.ln_final(resid))

    def by_slot(self, logits: Float[Tensor, "*rows logit"]) -> tuple[Float[Tensor, "*rows size"], ...]:
        """The logits of each slot: of the blank, then of the tokens that can stand there."""
        return logits.split([1 + size for _, size in self.slots], dim=-1)

    def clauses(self, logits: Float[Tensor, "*rows logit"]) -> Int[Tensor, "*rows five"]:
        """The most likely token of every slot."""
        best = [part.argmax(-1) for part in self.by_slot(logits)]
        tokens = [torch.where(index == 0, BLANK, index - 1 + first) for index, (first, _) in zip(best, self.slots)]
        return torch.stack(tokens, dim=-1)

    def loss(
        self, logits: Float[Tensor, "batch query logit"], clauses: Int[Tensor, "batch query five"]
    ) -> Float[Tensor, ""]:
        """The next-clause loss (6a): the cross-entropies of the five tokens, summed; nats per clause."""
        total = logits.new_zeros(())
        for part, tokens, (first, _) in zip(self.by_slot(logits), clauses.unbind(-1), self.slots):
            index = torch.where(tokens == BLANK, 0, tokens - first + 1)
            total = total + F.cross_entropy(part.flatten(0, 1), index.flatten())
        return total


def slots(task: Lego) -> Slots:
    """What can stand in the slots of `task`'s clauses: variables, elements, variables; variables, states."""
    variables = task.first_variable, task.n_variables
    states = task.first_state, task.action.n_points
    return variables, (task.first_element, task.action.n_elements), variables, variables, states


def clause_decoder(config: ClauseDecoderConfig, task: Lego, seed: int) -> ClauseDecoder:
    """A freshly initialised decoder for `task`, in eval mode; the seed alone decides its weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ClauseDecoder(config, slots(task))
