"""The theory model of huang2025 (section 3): one layer on one-hot clauses, nothing goes round it.

A clause is embedded as the concatenation of five one-hot vectors of size d, the number of tokens; blank is zero. The
score of clause j for clause k is Z_j^T Q Z_k, and of the 5 x 5 blocks of Q only Q_{4,3} and Q_{4,4} are not zero
(Assumption 3.5). The attended average X goes to five sets of d classes of m neurons (Definition 3.5):

    F_{i,j}(X) = min(B, sum_r sReLU(<W_{i,j,r}, X> + b))        W ~ N(0, 1/d), b = log(d) / sqrt(d), B = C log d

One-hot embeddings make products lookups: a score is an entry of Q_{4,3} plus one of Q_{4,4}, and <W, X> a sum of
rows of W weighted by attention. `forward` is the hooked model, with Z and X written out and everything computed from
Z; `pattern` and `slot_logits` are the same for one query and slot, by lookups where they are few: training and
generation use them. Blanks meet no weights: what Q and W hold for them never matters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from probes.hooked.points import HookedConfig
from toy_models.lego.task import ANSWERED, BLANK, CLAUSE, TAIL

LOOKUP_COST = 8
"""How many multiply-adds of a matrix product take as long as one lookup, roughly."""


@dataclass(frozen=True)
class LegoTheoryConfig:
    """The constants that the paper leaves open."""

    m: int = 12
    """Neurons of each class; the theorem wants |Y| <= m <= log(d)^2."""
    clip: float = 2.0
    """C_B: logits are clipped at C_B log d (Assumption 3.4)."""
    power: int = 4
    """q, the even power of the smoothed ReLU's bend."""
    bend: float = 4.0
    """The smoothed ReLU is bent up to rho = bend / log d."""
    response: float = 0.0
    """varpi of Assumption B.2, the slope of a small response to negative inputs; 0: none (Definition 3.4)."""

    def __post_init__(self) -> None:
        if self.m < 1 or self.power < 2 or self.power % 2:
            raise ValueError(f"need m >= 1 neurons and an even power >= 2, got m={self.m}, power={self.power}")
        if not (self.clip > 0 and self.bend > 0):
            raise ValueError(f"clip and bend must be positive, got clip={self.clip}, bend={self.bend}")
        if not 0 <= self.response < 1:
            raise ValueError(f"the response to negative inputs is a slope in [0, 1), got response={self.response}")


class _ActiveSum(torch.autograd.Function):
    """Sum over neurons of sReLU(x) (Definition 3.4); keeps sReLU' for the backward pass and nothing else.

    sReLU is 0 below 0, x^q / (q rho^(q-1)) up to rho, then x - rho (1 - 1/q). With a response varpi > 0 (Assumption
    B.2, as far as it is legible) it is x^2 from 0 down to -varpi, -varpi x down to -bound, and varpi bound below.
    """

    @staticmethod
    def forward(ctx, x: Tensor, rho: float, power: int, response: float, bound: float) -> Tensor:
        bent = (x / rho).clamp_(0, 1)
        slope = bent ** (power - 1)
        total = (bent.mul_(slope).mul_(rho / power) + (x - rho).clamp_(min=0)).sum(-1)
        if response > 0:
            below, straight = x.clamp(-bound, 0), x <= -response
            total += torch.where(straight, -response * below, below**2).sum(-1)
            slope += torch.where(straight, -response * (x > -bound), 2 * below)
        ctx.save_for_backward(slope)
        return total

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        (slope,) = ctx.saved_tensors
        return grads[0][..., None] * slope, None, None, None, None


class BlockSparseAttention(nn.Module):
    """softmax over earlier clauses of Q_{4,3}[x, x'] + Q_{4,4}[x, x''], by the variables that the clauses name.

    A query is the row x of both blocks, side by side, a key the one-hot x' and x''; a value is the whole clause.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.Q_43, self.Q_44 = nn.Parameter(torch.zeros(d, d)), nn.Parameter(torch.zeros(d, d))
        self.hook_q, self.hook_k = HookPoint(), HookPoint()  # [batch pos 1 2d]
        self.hook_v, self.hook_z = HookPoint(), HookPoint()  # [batch pos 1 5d]
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()  # [batch 1 query key]

    def pattern(
        self, clauses: Int[Tensor, "batch key five"], queries: Int[Tensor, "query"]
    ) -> Float[Tensor, "batch 1 query key"]:
        """The attention of the clauses at `queries`, positions, to themselves and the clauses before, by lookups."""
        asked = clauses[:, queries, ANSWERED][:, :, None]
        scores = torch.zeros((), device=clauses.device)
        for block, slot in ((self.Q_43, TAIL), (self.Q_44, ANSWERED)):
            named = clauses[:, None, :, slot]
            scores = scores + block[asked, named] * ((asked != BLANK) & (named != BLANK))
        return self._pattern(scores, queries)

    def forward(
        self, x: Float[Tensor, "batch key width"], queries: Int[Tensor, "query"]
    ) -> Float[Tensor, "batch query width"]:
        slots = x.unflatten(-1, (CLAUSE, -1))  # [batch key five d]
        q = self.hook_q((slots[:, queries, ANSWERED] @ torch.cat([self.Q_43, self.Q_44], dim=-1))[:, :, None])
        k = self.hook_k(slots[:, :, [TAIL, ANSWERED]].flatten(-2)[:, :, None])
        pattern = self._pattern(q[:, :, 0] @ k[:, :, 0].mT, queries)
        v = self.hook_v(x[:, :, None])
        return self.hook_z((pattern @ v.transpose(1, 2)).transpose(1, 2))[:, :, 0]

    def _pattern(
        self, scores: Float[Tensor, "batch query key"], queries: Int[Tensor, "query"]
    ) -> Float[Tensor, "batch 1 query key"]:
        hidden = torch.arange(scores.shape[-1], device=scores.device) > queries[:, None]
        scores = self.hook_attn_scores(scores.masked_fill(hidden, -torch.inf)[:, None])
        return self.hook_pattern(scores.softmax(-1))


class ClassNeurons(nn.Module):
    """m neurons of their own for every slot and class; W is [slot, (slot read, token), (class, neuron)]."""

    def __init__(self, d: int, config: LegoTheoryConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.d, self.m, self.power, self.response = d, config.m, config.power, config.response
        self.sigma, self.rho, self.bound = d**-0.5, config.bend / math.log(d), config.clip * math.log(d)
        self.bias = self.sigma * math.log(d)
        self.W = nn.Parameter(self.sigma * torch.randn(CLAUSE, CLAUSE * d, d * config.m, generator=generator))
        self.hook_pre = HookPoint()  # [batch query five d_vocab m]

    def forward(self, x: Float[Tensor, "batch query width"]) -> Float[Tensor, "batch query five d_vocab"]:
        pre = torch.einsum("bqx,sxn->bqsn", x, self.W) + self.bias
        return self._logits(self.hook_pre(pre.unflatten(-1, (self.d, self.m))))

    def dense(
        self, weights: Float[Tensor, "row neuron"], x: Float[Tensor, "batch row"]
    ) -> Float[Tensor, "batch d_vocab"]:
        """The logits of one slot, `weights` being its W."""
        return self._logits((x @ weights + self.bias).unflatten(-1, (self.d, self.m)))

    def looked_up(
        self,
        weights: Float[Tensor, "row neuron"],
        rows: Int[Tensor, "batch token"],
        shares: Float[Tensor, "batch token"],
    ) -> Float[Tensor, "batch d_vocab"]:
        """The same for inputs with `shares` at some `rows` and zero elsewhere."""
        pre = F.embedding_bag(rows, weights, per_sample_weights=shares, mode="sum").add_(self.bias)
        return self._logits(pre.unflatten(-1, (self.d, self.m)))

    def _logits(self, pre: Float[Tensor, "*rows d_vocab m"]) -> Float[Tensor, "*rows d_vocab"]:
        total = _ActiveSum.apply(pre, self.rho, self.power, self.response, self.bound)
        return total.clamp(max=self.bound)  # pyright: ignore


class TheoryBlock(nn.Module):
    """Attention, then neurons; nothing goes round them, so the stream behind the block is the five slots' logits."""

    def __init__(self, d: int, config: LegoTheoryConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.attn, self.mlp = BlockSparseAttention(d), ClassNeurons(d, config, generator)
        self.hook_resid_pre, self.hook_attn_out = HookPoint(), HookPoint()  # [batch pos 5d]
        self.hook_mlp_out, self.hook_resid_post = HookPoint(), HookPoint()  # [batch pos 5d]

    def forward(
        self, x: Float[Tensor, "batch key width"], queries: Int[Tensor, "query"]
    ) -> Float[Tensor, "batch query width"]:
        attended = self.hook_attn_out(self.attn(self.hook_resid_pre(x), queries))
        return self.hook_resid_post(self.hook_mlp_out(self.mlp(attended).flatten(-2)))


class LegoTheory(HookedRootModule):
    """Logits of the five tokens of the next clause; a position is a clause."""

    blocks: Sequence[TheoryBlock]

    def __init__(self, d_vocab: int, config: LegoTheoryConfig, generator: torch.Generator) -> None:
        """The generator draws W; Q starts at zero, so attention starts uniform."""
        super().__init__()
        self.d_vocab, self.config = d_vocab, config
        self.blocks = nn.ModuleList(  # pyright: ignore[reportAttributeAccessIssue]
            [TheoryBlock(d_vocab, config, generator)]
        )
        self.hook_embed = HookPoint()
        self.setup()
        self.eval()

    @property
    def cfg(self) -> HookedConfig:
        """The model's sizes by TransformerLens' names; without positions it reads any number of clauses."""
        width = CLAUSE * self.d_vocab
        return HookedConfig(
            n_layers=1,
            n_heads=1,
            d_model=width,
            d_head=width,
            d_vocab=self.d_vocab,
            n_ctx=None,
            device=str(self.mlp.W.device),
        )

    @property
    def attn(self) -> BlockSparseAttention:
        """The attention of the one layer."""
        return self.blocks[0].attn

    @property
    def mlp(self) -> ClassNeurons:
        """The neurons of the one layer."""
        return self.blocks[0].mlp

    def embed(self, clauses: Int[Tensor, "batch clause five"]) -> Float[Tensor, "batch clause width"]:
        """Five one-hot vectors side by side; the blank's is zero."""
        one_hot = F.one_hot(clauses, self.d_vocab) * (clauses != BLANK)[..., None]
        return self.hook_embed(one_hot.flatten(-2).to(self.mlp.W.dtype))

    def forward(
        self, clauses: Int[Tensor, "batch clause five"], queries: Int[Tensor, "query"] | None = None
    ) -> Float[Tensor, "batch query five d_vocab"]:
        """The logits at `queries`, positions; None: everywhere."""
        if queries is None:
            queries = torch.arange(clauses.shape[1], device=clauses.device)
        return self.blocks[0](self.embed(clauses), queries).unflatten(-1, (CLAUSE, self.d_vocab))

    def slot_logits(
        self,
        clauses: Int[Tensor, "batch clause five"],
        pattern: Float[Tensor, "batch clause"],
        slot: int,
        weights: Float[Tensor, "row neuron"] | None = None,
    ) -> Float[Tensor, "batch d_vocab"]:
        """The logits of one slot of the next clause for one row of attention; `weights` replace W.

        By lookups while the tokens are few, else from X: one multiply-add costs about an eighth of one lookup.
        """
        weights = self.mlp.W[slot] if weights is None else weights
        rows, shares = self._filled(clauses, pattern)
        if LOOKUP_COST * rows.shape[1] < CLAUSE * self.d_vocab:
            return self.mlp.looked_up(weights, rows, shares)
        return self.mlp.dense(weights, self._attended(rows, shares))

    def _attended(
        self, rows: Int[Tensor, "batch token"], shares: Float[Tensor, "batch token"]
    ) -> Float[Tensor, "batch width"]:
        """X, without the clauses' embeddings."""
        return shares.new_zeros(len(shares), CLAUSE * self.d_vocab).scatter_add(1, rows, shares)

    def _filled(
        self, clauses: Int[Tensor, "batch clause five"], pattern: Float[Tensor, "batch clause"]
    ) -> tuple[Int[Tensor, "batch token"], Float[Tensor, "batch token"]]:
        """Which coordinates of X the tokens fill, and with how much; the same slots are blank in every row."""
        filled = (clauses[0] != BLANK).flatten().nonzero().squeeze(-1)
        rows = (clauses + torch.arange(CLAUSE, device=clauses.device) * self.d_vocab).flatten(1)[:, filled]
        return rows, pattern[:, filled // CLAUSE]
