"""How is a model run for training? The sparse step where it is exact, one layer with dropout by its own, else hooked.

Every hooked model is read by one function of its output, a `Reader`, so that models whose output is no logits of the
next token are trained, evaluated and probed by the same code. Dropout is not part of TransformerLens' native decoder.
Here it is hooks, so that the sparse step and the hooked forward can be given the very same mask.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from probes.hooked.points import Hooked, Hooks, n_layers
from toy_models.engine.dropped_step import DroppedForward
from toy_models.engine.sparse_step import Keep, SparseForward, why_not_sparse

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

Reader = Callable[[Tensor, Tensor], Tensor]
"""From a model's output for a batch and positions [supervised] to logits over tokens [batch supervised vocab]."""


def next_token_logits(
    output: Float[Tensor, "batch pos vocab"], positions: Int[Tensor, "supervised"]
) -> Float[Tensor, "batch supervised vocab"]:
    """The reader of a model whose output is the logits of the next token at every position."""
    return output[:, positions]


@dataclass(frozen=True)
class Dropout:
    """Dropout probabilities. The text of wen2024 states none; its published code has 0.1 everywhere."""

    attention: float = 0.0
    """On attention weights."""
    embedding: float = 0.0
    """On the sum of token and position embedding."""
    residual: float = 0.0
    """On the outputs of attention and MLP."""

    def __post_init__(self) -> None:
        for name in ("attention", "embedding", "residual"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} dropout must be in [0, 1), got {getattr(self, name)}")


@runtime_checkable
class Forward(Protocol):
    """Logits at the supervised positions, with gradients."""

    def __call__(
        self,
        inputs: Shaped[Tensor, "batch pos *features"],
        positions: Int[Tensor, "supervised"],
        keep: Keep | None = None,
    ) -> Float[Tensor, "batch supervised vocab"]: ...


@dataclass(frozen=True)
class Choice:
    """The forward chosen for training and the reason."""

    forward: Forward
    path: str
    reason: str


def choose_forward(
    model: Hooked, n_pos: int, dropout: Dropout, generator: torch.Generator, read: Reader = next_token_logits
) -> Choice:
    """The sparse step if it computes the same thing, else the hooked forward, and why."""
    obstacle = why_not_sparse(model, n_pos)
    if obstacle is None and read is not next_token_logits:
        obstacle = "the sparse step gives next-token logits, and this model is read otherwise"
    dropped = "embedding and residual dropout give every token its own state"
    if obstacle is None and (dropout.embedding or dropout.residual):
        if n_layers(model) == 1:
            forward = DroppedForward(cast("TransformerBridge", model), dropout.embedding, dropout.residual, generator)
            return Choice(forward, "dropped", f"{dropped}, of which one layer attends without keys and values")
        obstacle = dropped
    if obstacle is not None:
        return Choice(HookedForward(model, dropout, generator, read), "hooked", obstacle)
    return Choice(SparseForward(cast("TransformerBridge", model)), "sparse", "exact for this decoder")


@dataclass(frozen=True)
class HookedForward:
    """The full forward of the hooked model; `keep` is applied to `hook_pattern`."""

    model: Hooked
    dropout: Dropout = Dropout()
    generator: torch.Generator | None = None
    read: Reader = next_token_logits

    def __call__(
        self,
        inputs: Shaped[Tensor, "batch pos *features"],
        positions: Int[Tensor, "supervised"],
        keep: Keep | None = None,
    ) -> Float[Tensor, "batch supervised vocab"]:
        hooks: Hooks = []
        depth = n_layers(self.model)
        for layer, factors in enumerate(keep or ()):
            is_last = layer == depth - 1
            hook = partial(_scale_pattern, factors=factors, queries=positions if is_last else None)
            hooks.append((f"blocks.{layer}.attn.hook_pattern", hook))
        drops = {"blocks.0.hook_resid_pre": self.dropout.embedding}
        for layer in range(depth):
            drops[f"blocks.{layer}.hook_attn_out"] = self.dropout.residual
            drops[f"blocks.{layer}.hook_mlp_out"] = self.dropout.residual
        hooks += [
            (name, partial(_drop, probability=probability, generator=self.generator))
            for name, probability in drops.items()
            if probability
        ]
        return self.read(self.model.run_with_hooks(inputs, fwd_hooks=hooks), positions)


def attention_keep(
    n_layers: int,
    n_heads: int,
    inputs: Int[Tensor, "batch pos"],
    positions: Int[Tensor, "supervised"],
    probability: float,
    generator: torch.Generator,
) -> Keep | None:
    """Fresh attention-dropout factors, 0 or 1 / (1 - probability); None without dropout."""
    if not probability:
        return None
    batch, n_pos = inputs.shape
    queries = [n_pos] * (n_layers - 1) + [len(positions)]
    return [
        torch.empty(batch, n_heads, n_queries, n_pos)
        .bernoulli_(1 - probability, generator=generator)
        .div_(1 - probability)
        .to(inputs.device)
        for n_queries in queries
    ]


def _scale_pattern(pattern: Tensor, hook: object, factors: Tensor, queries: Tensor | None) -> Tensor:
    if queries is None:
        return pattern * factors
    return pattern.index_copy(2, queries, pattern[:, :, queries] * factors)


def _drop(x: Tensor, hook: object, probability: float, generator: torch.Generator | None) -> Tensor:
    kept = torch.empty(x.shape).bernoulli_(1 - probability, generator=generator)
    return x * kept.to(x.device) / (1 - probability)
