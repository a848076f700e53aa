"""How is one layer trained with dropout everywhere? Attention without keys and values, at the supervised positions.

Dropout on embeddings gives every token of every sequence a state of its own, so nothing can be shared as in the
sparse step. But the keys and values of the only layer are read by few queries, and are linear in the normalised
states: the score of key j is (W_K^T q) . x_j + b_K . q, and the output is W_V (sum_j p_j x_j) + b_V sum_j p_j. So
only the supervised positions are projected. Gradients equal those of the hooked forward given the same masks
(tests/toy_models/engine/test_dropped_step.py).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.engine.sparse_step import Keep

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge


@dataclass(frozen=True)
class Masks:
    """Dropout factors, 0 or 1 / (1 - p), each; None: nothing is dropped there."""

    embedding: Float[Tensor, "batch pos d_model"] | None
    attention_output: Float[Tensor, "batch supervised d_model"] | None
    mlp_output: Float[Tensor, "batch supervised d_model"] | None


class DroppedForward:
    """Logits at the supervised positions of a native one-layer decoder, with dropout on embeddings and residuals."""

    def __init__(
        self, model: "TransformerBridge", embedding: float, residual: float, generator: torch.Generator
    ) -> None:
        self._probabilities, self._generator = (embedding, residual), generator
        self._n_heads, self._eps = cast(int, model.cfg.n_heads), cast(float, model.cfg.eps)
        self._of = dict(model.state_dict(keep_vars=True))

    def __call__(
        self, inputs: Int[Tensor, "batch pos"], positions: Int[Tensor, "supervised"], keep: Keep | None = None
    ) -> Float[Tensor, "batch supervised vocab"]:
        """The logits of `inputs` at `positions` under masks drawn anew."""
        return self.masked(inputs, positions, keep, self._drawn(inputs, len(positions)))

    def masked(
        self, inputs: Int[Tensor, "batch pos"], positions: Int[Tensor, "supervised"], keep: Keep | None, masks: Masks
    ) -> Float[Tensor, "batch supervised vocab"]:
        """The logits under given masks."""
        states = self._of["embed.weight"][inputs] + self._of["pos_embed.weight"][: inputs.shape[1]]
        states = _times(states, masks.embedding)
        resid = states[:, positions]
        normed = self._norm(states, "blocks.0.ln1")
        resid = resid + _times(self._attention(normed, positions, keep), masks.attention_output)
        hidden = self._linear(self._norm(resid, "blocks.0.ln2"), "blocks.0.mlp.in")
        output = self._linear(F.gelu(hidden, approximate="tanh"), "blocks.0.mlp.out")
        resid = resid + _times(output, masks.mlp_output)
        return self._norm(resid, "ln_final") @ self._of["unembed.weight"].T

    def _attention(
        self, normed: Float[Tensor, "batch pos d_model"], positions: Int[Tensor, "supervised"], keep: Keep | None
    ) -> Float[Tensor, "batch supervised d_model"]:
        (key, key_bias), (value, value_bias) = (self._by_head(f"blocks.0.attn.{name}") for name in ("k", "v"))
        query = self._linear(normed[:, positions], "blocks.0.attn.q")
        query = rearrange(query, "batch p (head d) -> batch head p d", head=self._n_heads)
        query = query / key.shape[1] ** 0.5
        scores = query @ key @ normed[:, None].transpose(-2, -1) + (query * key_bias).sum(-1, keepdim=True)
        visible = torch.arange(normed.shape[1], device=normed.device) <= positions[:, None]
        pattern = scores.masked_fill(~visible, -torch.inf).softmax(-1)
        if keep is not None:
            pattern = pattern * keep[0]
        # Dropped weights do not sum to 1.
        mixed = pattern @ normed[:, None] @ value.transpose(-2, -1) + pattern.sum(-1, keepdim=True) * value_bias
        return self._linear(rearrange(mixed, "batch head p d -> batch p (head d)"), "blocks.0.attn.o")

    def _by_head(self, name: str) -> tuple[Float[Tensor, "head d d_model"], Float[Tensor, "head 1 d"]]:
        weight = rearrange(self._of[f"{name}.weight"], "(head d) m -> head d m", head=self._n_heads)
        return weight, rearrange(self._of[f"{name}.bias"], "(head d) -> head 1 d", head=self._n_heads)

    def _drawn(self, inputs: Int[Tensor, "batch pos"], n_supervised: int) -> Masks:
        d_model = self._of["embed.weight"].shape[1]
        embedding, residual = self._probabilities
        shapes = ((inputs.shape[1], embedding), (n_supervised, residual), (n_supervised, residual))
        return Masks(*(self._mask((len(inputs), n, d_model), p, inputs.device) for n, p in shapes))

    def _mask(self, shape: tuple[int, ...], probability: float, device: torch.device) -> Tensor | None:
        """Factors drawn on the CPU: they do not depend on the device."""
        if not probability:
            return None
        kept = torch.rand(shape, generator=self._generator) >= probability
        return (kept / (1 - probability)).to(device)

    def _linear(self, x: Float[Tensor, "*rows d_in"], name: str) -> Float[Tensor, "*rows d_out"]:
        return F.linear(x, self._of[f"{name}.weight"], self._of[f"{name}.bias"])

    def _norm(self, x: Float[Tensor, "*rows d_model"], name: str) -> Float[Tensor, "*rows d_model"]:
        return F.layer_norm(x, x.shape[-1:], self._of[f"{name}.weight"], self._of[f"{name}.bias"], self._eps)


def _times(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask
