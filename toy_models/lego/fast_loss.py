"""What does the next-clause loss need? The clause decoder's loss from tables of its distinct tokens.

Reads the decoder's own parameters and returns the same loss, so that gradients equal those of the plain forward to
rounding (tests/toy_models/lego/test_fast_loss.py). What is saved, all of it exact:

1. *Supervised rows only.* Queries, MLP and logits are computed at the answers that are asked for.
2. *Distinct tokens once.* A clause is a concatenation, so a matrix applied to it is a sum over its tokens of rows of
   a table, one row for each slot and token that can stand there. LayerNorm goes into the tables (gain and centring)
   and one factor for each clause. Blank slots cost nothing.
3. *The MLP's first matrix before attention*, where nothing stands between them (identity values, no residual): it
   goes into the tables, and attention averages hidden rows.
4. *The loss and its gradient in one pass* over the logits.

What remains is dense: the MLP's second matrix and the logits of every supervised row, and in the standard block the
MLP's first matrix and attention's output. For tokens of width 32 that is most of a step, so tables gain nothing over
computing the answers' rows alone; for width 128 they do (`cotlens bench lego`). Hooks are not called.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from toy_models.lego.clause_decoder import ClauseDecoder
from toy_models.lego.task import BLANK, CLAUSE


@dataclass(frozen=True)
class Bags:
    """Which rows of a table each clause adds up, and, for the gradient, which clauses each row is part of."""

    parts: tuple[tuple[slice, slice, slice], ...]
    """Of every slot that is not blank everywhere: its rows in the table, its tokens, its columns in a clause."""
    rows: Int[Tensor, "token"]
    first: Int[Tensor, "clause"]
    """Where the rows of each clause begin."""
    clauses: Int[Tensor, "token"]
    """The clauses again, ordered by row."""
    begin: Int[Tensor, "row"]
    """Where the clauses of each row begin."""


class _Rows(torch.autograd.Function):
    """A linear map of clauses: the sums of the rows of its tables, one table for each slot.

    The gradient of a table is the same kind of sum, the other way round, so it needs no scattered additions.
    """

    @staticmethod
    def forward(ctx: Any, embed: Tensor, weight: Tensor, bags: Bags) -> Tensor:
        table = embed.new_empty(len(bags.begin), len(weight))
        for rows, tokens, columns in bags.parts:
            torch.mm(embed[tokens], weight[:, columns].T, out=table[rows])
        ctx.save_for_backward(embed, weight)
        ctx.bags = bags
        return F.embedding_bag(bags.rows, table, bags.first, mode="sum")

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, None]:
        (embed, weight), bags, of_rows = ctx.saved_tensors, ctx.bags, grads[0].contiguous()
        of_table = F.embedding_bag(bags.clauses, of_rows, bags.begin, mode="sum")
        of_weight = torch.empty_like(weight) if len(bags.parts) == CLAUSE else torch.zeros_like(weight)
        of_embed = torch.zeros_like(embed) if ctx.needs_input_grad[0] else None
        for rows, tokens, columns in bags.parts:
            torch.mm(of_table[rows].T, embed[tokens], out=of_weight[:, columns])
            if of_embed is not None:
                of_embed[tokens].addmm_(of_table[rows], weight[:, columns])
        return of_embed, of_weight, None


class _Summed(torch.autograd.Function):
    """The sums of a table's rows."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, bags: Bags) -> Tensor:
        ctx.bags = bags
        return F.embedding_bag(bags.rows, table, bags.first, mode="sum")

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return F.embedding_bag(ctx.bags.clauses, grads[0].contiguous(), ctx.bags.begin, mode="sum"), None


class _SlotLoss(torch.autograd.Function):
    """The cross-entropies of all slots, summed, mean over rows; the logits' memory becomes their gradient."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, sizes: tuple[int, ...]) -> Tensor:
        total = logits.new_zeros((), dtype=torch.float64)
        for part, target in zip(logits.split(sizes, dim=1), targets.unbind(1)):
            chances = part.log_softmax(1)
            total = total - chances.gather(1, target[:, None]).sum(dtype=torch.float64)
            torch.exp(chances, out=part)
        # From here on `logits` holds probabilities, and then the gradient.
        first = torch.tensor((0, *sizes[:-1]), device=targets.device).cumsum(0)
        logits.scatter_add_(1, targets + first, logits.new_full((), -1.0).expand_as(targets))
        ctx.save_for_backward(logits)
        return (total / len(logits)).to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(grads[0] / len(gradient)), None, None


class FastLoss:
    """The next-clause loss of a clause decoder, for training: `backward` may be called once for each loss."""

    def __init__(self, model: ClauseDecoder) -> None:
        if model.config.positions != "none":
            raise ValueError(
                f"tables of tokens know no places, got positions={model.config.positions!r}; train with tables=False"
            )
        self.model, self.block = model, model.blocks[0]
        device, width = model.embed.weight.device, model.config.d_token
        self.first = torch.tensor([first for first, _ in model.slots], device=device)
        self.columns = [slice(slot * width, (slot + 1) * width) for slot in range(CLAUSE)]

    def __call__(
        self, sentences: Int[Tensor, "batch clause five"], queries: Int[Tensor, "query"]
    ) -> Float[Tensor, ""]:
        """The mean loss of the clauses after `queries`, nats per clause."""
        clauses, following = sentences[:, :-1], sentences[:, queries + 1].flatten(0, 1)
        logits = self.model.unembed(self.model.ln_final(self._block(clauses, queries)))
        targets = torch.where(following == BLANK, 0, following - self.first + 1)
        return _SlotLoss.apply(logits, targets, tuple(1 + size for _, size in self.model.slots))  # pyright: ignore[reportReturnType]

    def _block(
        self, clauses: Int[Tensor, "batch clause five"], queries: Int[Tensor, "query"]
    ) -> Float[Tensor, "row d_model"]:
        """The block's output at `queries`."""
        block, attn, mlp = self.block, self.block.attn, self.block.mlp
        asked = clauses[:, queries]
        offered, asking = self._bags(clauses), self._bags(asked)
        visible = torch.arange(clauses.shape[1], device=clauses.device) <= queries[:, None]
        query, key = self._projected(asking, attn.query), self._projected(offered, attn.key)
        if attn.value is None and not block.residual:
            hidden = self._rows(offered, mlp.enter.weight).unflatten(0, clauses.shape[:2])
            mixed = self._pattern(query, key, visible, len(clauses)).mean(1) @ hidden
            return mlp.leave(mixed.flatten(0, 1).add(mlp.enter.bias).relu_())
        pattern = self._pattern(query, key, visible, len(clauses))
        if attn.value is None or attn.out is None:
            value = block.ln1(self.model.embed(clauses).flatten(-2))
            attended = (pattern.mean(1) @ value).flatten(0, 1)
        else:
            value = rearrange(
                self._projected(offered, attn.value), "(b k) (h d) -> b h k d", b=len(clauses), h=attn.n_heads
            )
            attended = attn.out(rearrange(pattern @ value, "b h q d -> (b q) (h d)"))
        if not block.residual:
            return mlp.leave(mlp.enter(attended).relu_())
        resid = self.model.embed(asked).flatten(-2).flatten(0, 1) + attended
        return resid + mlp.leave(mlp.enter(block.ln2(resid)).relu_())

    def _pattern(
        self,
        query: Float[Tensor, "row d_model"],
        key: Float[Tensor, "clause d_model"],
        visible: Bool[Tensor, "query key"],
        batch: int,
    ) -> Float[Tensor, "batch head query key"]:
        heads = self.block.attn.n_heads
        query, key = (rearrange(rows, "(b p) (h d) -> b h p d", b=batch, h=heads) for rows in (query, key))
        scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
        return scores.masked_fill(~visible, -torch.inf).softmax(-1)

    def _bags(self, clauses: Int[Tensor, "batch clause five"]) -> Bags:
        tokens = clauses.flatten(0, 1)
        filled = tokens != BLANK
        parts, begin = [], 0
        shift = torch.zeros(CLAUSE, dtype=torch.int64)
        for slot, (first, size) in enumerate(self.model.slots):
            if filled[:, slot].any():
                parts.append((slice(begin, begin + size), slice(first, first + size), self.columns[slot]))
                shift[slot] = begin - first
                begin += size
        rows = (tokens + shift.to(tokens.device))[filled]
        count, times = filled.sum(1), torch.bincount(rows, minlength=begin)
        of = torch.arange(len(tokens), device=tokens.device).repeat_interleave(count)
        return Bags(tuple(parts), rows, count.cumsum(0) - count, of[rows.argsort()], times.cumsum(0) - times)

    def _projected(self, bags: Bags, linear: nn.Linear) -> Float[Tensor, "clause d_out"]:
        """What the block's input, after its LayerNorm, becomes under the linear map."""
        norm = self.block.ln1
        if not isinstance(norm, nn.LayerNorm):
            return self._rows(bags, linear.weight) + linear.bias
        weight = linear.weight * norm.weight
        rows = self._rows(bags, weight - weight.mean(1, keepdim=True))
        return torch.addcmul(linear.bias + linear.weight @ norm.bias, rows, self._scale(bags, norm.eps))

    def _rows(self, bags: Bags, weight: Float[Tensor, "d_out d_model"]) -> Float[Tensor, "clause d_out"]:
        return _Rows.apply(self.model.embed.weight, weight, bags)  # pyright: ignore[reportReturnType]

    def _scale(self, bags: Bags, eps: float) -> Float[Tensor, "clause 1"]:
        """What LayerNorm multiplies each clause by, after centring."""
        embed, width = self.model.embed.weight, self.model.config.d_model
        moments = torch.stack([embed.sum(1), embed.square().sum(1)], dim=1) / width
        each = torch.cat([moments[tokens] for _, tokens, _ in bags.parts])
        mean, square = _Summed.apply(each, bags).split(1, dim=1)
        return (square - mean.square() + eps).rsqrt()
