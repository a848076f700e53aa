"""What does the loss need? The decoder's logits at the supervised positions, and nothing else.

Reads the hooked model's own parameters and returns the same logits, so that gradients equal those of the full
forward to rounding (tests/toy_models/engine/test_sparse_step.py). What is saved, all of it exact:

1. *Supervised positions only.* The last block's queries, MLP and logits are computed nowhere else.
2. *Distinct tokens once.* Before the first attention a position's state depends on (position, token) alone:
   LayerNorm, queries, keys, values and value-output products are computed for these T x V slots, scores
   become a table, and attention runs over the slots, of which a sequence masks those it does not contain.
3. *Coefficients instead of vectors.* After the first attention a state is h = c R, with R the distinct rows
   (the query's own embedding, the value-output rows of every head and slot) and c one-hot next to attention.
   LayerNorm's statistics come from the Gram matrix of R, and the first MLP matrix is applied to R instead of
   to every state. Used where R has fewer rows than columns.
4. *Distinct prefixes once.* In deeper models a state depends on its prefix alone, and the first log2(batch)
   positions have few distinct prefixes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor

from toy_models.engine.states import States, all_states, distinct_prefixes
from toy_models.engine.step_tables import Affine, Block, Mixing, Slots

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

Keep = Sequence[Float[Tensor, "batch head _ key"]]
"""Attention dropout: for each layer a factor on every attention weight. In the last layer the queries are
the supervised positions only, because no other query of that layer reaches the loss."""

MAX_SLOTS = 2048
"""With more slots (head x position x token) than this, attention over slots costs more than it saves."""
AT_ONCE = 512
"""States of one layer that an evaluation computes at a time: what lies between matrix products stays in cache."""


def why_not_sparse(model: torch.nn.Module, n_pos: int) -> str | None:
    """Why `model` cannot take the sparse step on sequences of `n_pos` tokens; None if it can."""
    from transformer_lens.model_bridge import TransformerBridge

    if not isinstance(model, TransformerBridge):
        return f"{type(model).__name__} is not a TransformerLens bridge"
    cfg = model.cfg
    needed = {
        "architecture": "TransformerLensNative",
        "normalization_type": "LN",
        "act_fn": "gelu_new",
        "positional_embedding_type": "standard",
        "attention_dir": "causal",
        "attn_only": False,
        "gated_mlp": False,
        "final_rms": False,
        "n_key_value_heads": None,
        "attn_scores_soft_cap": -1.0,
        "output_logits_soft_cap": -1.0,
        "attn_scale": -1.0,
    }
    for name, value in needed.items():
        if getattr(cfg, name, value) != value:
            return f"the model has {name}={getattr(cfg, name)!r}, the sparse step needs {value!r}"
    if (slots := cfg.n_heads * n_pos * cfg.d_vocab) > MAX_SLOTS:
        return f"{slots} slots (heads x positions x vocabulary) are more than {MAX_SLOTS}"
    if (hooked := next((name for name, point in model.hook_dict.items() if point.has_hooks()), None)) is not None:
        return f"{hooked} has a hook, and the sparse step passes no hook point"
    # Zeros in a native decoder; TransformerLens' compatibility mode puts the final LayerNorm's shift there.
    if model.state_dict()["unembed.bias"].any():
        return "the model has an unembed.bias, which the sparse step does not add"
    return None


class SparseForward:
    """Logits at the supervised positions of a native TransformerLens decoder."""

    def __init__(self, model: "TransformerBridge", pattern: Float[Tensor, "head query key"] | None = None) -> None:
        """`pattern`: the first block's attention, if it is held fixed for every input."""
        self._pattern = pattern
        # Parameters are looked up once: a bridge's attribute access walks its component tree.
        self._n_heads = cast(int, model.cfg.n_heads)
        self._d_vocab = cast(int, model.cfg.d_vocab)
        self._eps = cast(float, model.cfg.eps)
        parameters = dict(model.state_dict(keep_vars=True))

        def affine(name: str) -> Affine:
            return parameters[f"{name}.weight"], parameters[f"{name}.bias"]

        self._embed = parameters["embed.weight"]
        self._pos_embed = parameters["pos_embed.weight"]
        self._unembed = parameters["unembed.weight"]
        self._ln_final = affine("ln_final")
        parts = ("ln1", "attn.q", "attn.k", "attn.v", "attn.o", "ln2", "mlp.in", "mlp.out")
        self._blocks = [
            Block(*(affine(f"blocks.{layer}.{part}") for part in parts))
            for layer in range(cast(int, model.cfg.n_layers))
        ]
        self.n_layers = len(self._blocks)

    def __call__(
        self,
        inputs: Int[Tensor, "batch pos"],
        positions: Int[Tensor, "supervised"],
        keep: Keep | None = None,
    ) -> Float[Tensor, "batch supervised vocab"]:
        """The logits of `inputs` at `positions`."""
        keeps = keep if keep is not None else [None] * len(self._blocks)
        if len(self._blocks) == 1:
            resid = self._only_block(inputs, positions, keeps[0])
        else:
            # Dropout gives equal prefixes different states.
            everywhere = torch.arange(inputs.shape[1], device=inputs.device)
            states = distinct_prefixes(inputs, self._d_vocab) if keep is None else all_states(inputs, everywhere)
            resid = self._first_block(inputs, states, self._slots(inputs.shape[1], everywhere), keeps[0])
            for block, block_keep in zip(self._blocks[1:-1], keeps[1:-1]):
                resid = self._middle_block(block, resid, states, block_keep)
            resid = self._last_block(self._blocks[-1], resid, states, positions, keeps[-1])
        logits = self._norm(resid, self._ln_final) @ self._unembed.T
        return rearrange(logits, "(batch supervised) vocab -> batch supervised vocab", batch=len(inputs))

    def first_pattern(self, inputs: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch head query key"]:
        """The first block's attention, read from its score table: `blocks.0.attn.hook_pattern`."""
        n_pos = inputs.shape[1]
        if self._pattern is not None:
            return self._pattern[:, :n_pos, :n_pos].expand(len(inputs), -1, -1, -1)
        normed = self._norm(self._token_rows(n_pos), self._blocks[0].ln1)
        table = self._scores(normed, normed, self._blocks[0])  # [query_slot head slot]
        slot = torch.arange(n_pos, device=inputs.device) * self._d_vocab + inputs
        pair = slot[:, :, None] * table.shape[2] + slot[:, None, :]  # [batch query key]
        by_head = table.transpose(0, 1).flatten(1).index_select(1, pair.flatten())
        scores = by_head.view(-1, *pair.shape).transpose(0, 1)
        return _causal_softmax(scores)

    def patterns(self, inputs: Int[Tensor, "batch pos"]) -> Float[Tensor, "layer batch head query key"]:
        """Every block's attention, `hook_pattern`; what follows the last attention is not computed."""
        found = [self.first_pattern(inputs)]
        if len(self._blocks) > 1:
            everywhere = torch.arange(inputs.shape[1], device=inputs.device)
            states = distinct_prefixes(inputs, self._d_vocab)
            resid = self._first_block(inputs, states, self._slots(inputs.shape[1], everywhere), None)
            for number, block in enumerate(self._blocks[1:], start=2):
                normed = self._norm(resid, block.ln1)
                q, k = (self._per_sequence(F.linear(normed, *p), states.index) for p in (block.q, block.k))
                found.append(_causal_softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5))
                if number < len(self._blocks):
                    resid = self._middle_block(block, resid, states, None)
        return torch.stack(found)

    def _only_block(
        self, inputs: Int[Tensor, "batch pos"], positions: Int[Tensor, "supervised"], keep: Tensor | None
    ) -> Float[Tensor, "batch_supervised d_model"]:
        """The residual stream after the only block; without gradients in parts that share its tables."""
        slots = self._slots(inputs.shape[1], positions)
        if torch.is_grad_enabled() or keep is not None:
            return self._first_block(inputs, all_states(inputs, positions), slots, keep)
        parts = inputs.split(max(AT_ONCE // len(positions), 1))
        return torch.cat([self._first_block(part, all_states(part, positions), slots, None) for part in parts])

    def _slots(self, n_pos: int, queries: Int[Tensor, "query"]) -> Slots:
        """Scores and rows of the distinct tokens, for states at `queries`."""
        block = self._blocks[0]
        rows = self._token_rows(n_pos)
        normed = self._norm(rows, block.ln1)
        tokens = torch.arange(self._d_vocab, device=rows.device)
        query_rows = (queries[:, None] * self._d_vocab + tokens).flatten()
        table = None if self._pattern is not None else self._scores(normed[query_rows], normed, block).flatten(1)
        o_weight, o_bias = block.o
        value = self._heads(F.linear(normed, *block.v))  # [slot head d]
        output = torch.einsum("shd,mhd->hsm", value, self._heads(o_weight))
        distinct = torch.cat([output.flatten(0, 1), rows[query_rows] + o_bias])
        return Slots(queries, table, Mixing(distinct, block))

    def _first_block(
        self, inputs: Int[Tensor, "batch pos"], states: States, slots: Slots, keep: Tensor | None
    ) -> Float[Tensor, "state d_model"]:
        """The residual stream of `states` after the first block."""
        n_pos = inputs.shape[1]
        own = F.one_hot(
            states.query * self._d_vocab + inputs[states.row, states.pos], len(slots.queries) * self._d_vocab
        ).to(slots.mixing.rows.dtype)
        tokens = torch.arange(self._d_vocab, device=inputs.device)
        absent = (inputs[:, :, None] != tokens).flatten(1)[states.row]  # [state slot]
        if slots.table is not None:
            scores = rearrange(own @ slots.table, "state (head slot) -> state head slot", head=self._n_heads)
            later = torch.arange(n_pos, device=inputs.device) > slots.queries[:, None]
            hidden = absent | later.repeat_interleave(self._d_vocab, dim=1)[states.query]
            pattern = scores.masked_fill(hidden[:, None], -torch.inf).softmax(-1)
        else:
            assert self._pattern is not None
            given = repeat(
                self._pattern[:, states.pos, :n_pos], "head state pos -> state head (pos v)", v=self._d_vocab
            )
            pattern = given * ~absent[:, None]
        if keep is not None:
            kept = keep[states.row, :, states.query]  # [state head pos]
            pattern = pattern * repeat(kept, "state head pos -> state head (pos v)", v=self._d_vocab)
        coefficients = torch.cat([pattern.flatten(1), own], dim=-1)
        return self._mlp_of_mixture(coefficients, slots.mixing)

    def _mlp_of_mixture(
        self, coefficients: Float[Tensor, "state row"], mixing: Mixing
    ) -> Float[Tensor, "state d_model"]:
        """h + MLP(LN(h)) for h = coefficients @ rows."""
        resid = coefficients @ mixing.rows
        if len(mixing.rows) >= resid.shape[1]:
            return self._mlp(mixing.block, resid)
        squared_norm = ((coefficients @ mixing.gram) * coefficients).sum(-1, keepdim=True)
        variance = squared_norm / resid.shape[1]
        scaled = coefficients * torch.rsqrt(variance + self._eps)
        pre = torch.addmm(mixing.mlp_bias, scaled, mixing.mlp_rows)
        return resid + F.linear(F.gelu(pre, approximate="tanh"), *mixing.block.mlp_out)

    def _middle_block(
        self, block: Block, resid: Float[Tensor, "state d_model"], states: States, keep: Tensor | None
    ) -> Float[Tensor, "state d_model"]:
        normed = self._norm(resid, block.ln1)
        q, k, v = (self._per_sequence(F.linear(normed, *p), states.index) for p in (block.q, block.k, block.v))
        causal = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        mixed = _attend(q, k, v, causal, keep).flatten(0, 1)
        computed = mixed.index_select(0, states.row * states.index.shape[1] + states.pos)
        return self._mlp(block, resid + F.linear(computed, *block.o))

    def _last_block(
        self,
        block: Block,
        resid: Float[Tensor, "state d_model"],
        states: States,
        positions: Int[Tensor, "supervised"],
        keep: Tensor | None,
    ) -> Float[Tensor, "batch_supervised d_model"]:
        normed = self._norm(resid, block.ln1)
        k, v = (self._per_sequence(F.linear(normed, *p), states.index) for p in (block.k, block.v))
        supervised = states.index[:, positions]
        own = normed.index_select(0, supervised.flatten())
        q = rearrange(F.linear(own, *block.q), "(b p) (h d) -> b h p d", b=len(supervised), h=self._n_heads)
        causal = torch.arange(k.shape[2], device=k.device) <= positions[:, None]
        mixed = _attend(q, k, v, causal, keep).flatten(0, 1)
        return self._mlp(block, resid.index_select(0, supervised.flatten()) + F.linear(mixed, *block.o))

    def _mlp(self, block: Block, resid: Float[Tensor, "state d_model"]) -> Float[Tensor, "state d_model"]:
        pre = F.linear(self._norm(resid, block.ln2), *block.mlp_in)
        return resid + F.linear(F.gelu(pre, approximate="tanh"), *block.mlp_out)

    def _norm(self, x: Float[Tensor, "*rows d_model"], affine: Affine) -> Float[Tensor, "*rows d_model"]:
        return F.layer_norm(x, x.shape[-1:], *affine, self._eps)

    def _token_rows(self, n_pos: int) -> Float[Tensor, "slot d_model"]:
        return (self._pos_embed[:n_pos, None] + self._embed).flatten(0, 1)

    def _scores(
        self, queries: Float[Tensor, "query d_model"], keys: Float[Tensor, "slot d_model"], block: Block
    ) -> Float[Tensor, "query head slot"]:
        q, k = self._heads(F.linear(queries, *block.q)), self._heads(F.linear(keys, *block.k))
        return torch.einsum("qhd,shd->qhs", q, k) / q.shape[-1] ** 0.5

    def _heads(self, x: Float[Tensor, "rows head_d"]) -> Float[Tensor, "rows head d"]:
        return rearrange(x, "rows (head d) -> rows head d", head=self._n_heads)

    def _per_sequence(
        self, x: Float[Tensor, "state head_d"], index: Int[Tensor, "batch pos"]
    ) -> Float[Tensor, "batch head pos d"]:
        rows = x.index_select(0, index.flatten())
        return rearrange(rows, "(b p) (h d) -> b h p d", b=len(index), h=self._n_heads)


def _attend(
    q: Float[Tensor, "batch head query d"],
    k: Float[Tensor, "batch head key d"],
    v: Float[Tensor, "batch head key d"],
    visible: Bool[Tensor, "query key"],
    keep: Tensor | None,
) -> Float[Tensor, "batch query head_d"]:
    if keep is None:
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
    else:
        scores = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        mixed = (scores.masked_fill(~visible, -torch.inf).softmax(-1) * keep) @ v
    return rearrange(mixed, "batch head query d -> batch query (head d)")


def _causal_softmax(scores: Float[Tensor, "batch head pos pos"]) -> Float[Tensor, "batch head pos pos"]:
    causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    return scores.masked_fill(~causal, -torch.inf).softmax(-1)
