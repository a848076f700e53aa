"""What has been done to a product of queries and keys? The account that makes an attention call of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

OLD_MASK = -1e4
"""What masks add where they do not add the smallest number there is."""


@dataclass(frozen=True)
class Followed:
    """softmax(scale q.k + bias) over the visible keys, times the values: what an attention module computes."""

    query: Float[Tensor, "batch head query d"]
    key: Float[Tensor, "batch head key d"]
    value: Float[Tensor, "batch head key d_value"]
    scale: float | None  # None: one over the root of d
    mask: Tensor | None  # [#batch #head query key]: True where a query sees a key, or added to scores; None: causal
    bias: Float[Tensor, "#batch #head query key"] | None


Attend = Callable[[Followed], Float[Tensor, "batch query head d_value"]]


@dataclass(frozen=True)
class Account:
    """What has been done to a product of queries and keys."""

    query: Float[Tensor, "batch head query d"]
    key: Float[Tensor, "batch kv_head key d"]
    attend: Attend
    scale: float = 1.0
    biases: tuple[tuple[Tensor, float], ...] = ()  # each with what it is multiplied with
    visible: Bool[Tensor, "#batch #head #query #key"] | None = None
    zeroed: Bool[Tensor, "#batch #head #query #key"] | None = None  # multiplied with 0; to be hidden by what is added
    softmaxed: bool = False

    def times(self, factor: float) -> "Account":
        return replace(self, scale=self.scale * factor, biases=tuple((b, f * factor) for b, f in self.biases))

    def plus(self, added: Float[Tensor, "#batch #head #query #key"]) -> "Account":
        """With a bias, a mask or both added."""
        hidden = (added < torch.finfo(added.dtype).min / 2) | (added == OLD_MASK)
        result = self.hiding(hidden) if bool(hidden.any()) else self
        rest = added.masked_fill(hidden, 0)
        return replace(result, biases=(*result.biases, (rest, 1.0))) if bool(rest.any()) else result

    def hiding(self, hidden: Bool[Tensor, "#batch #head #query #key"]) -> "Account":
        visible = ~hidden if self.visible is None else self.visible & ~hidden
        left = self.zeroed is not None and bool((self.zeroed & ~hidden).any())
        return replace(self, visible=visible, zeroed=self.zeroed if left else None)

    def with_values(
        self, value: Float[Tensor, "batch kv_head key d_value"]
    ) -> Float[Tensor, "batch head query d_value"]:
        """The attention call that this has been."""
        n_heads, n_queries, n_keys = *self.query.shape[1:3], self.key.shape[2]
        dtype = torch.promote_types(
            self.query.dtype, value.dtype
        )  # some modules have scores in float32 whatever else
        biases = [bias * factor for bias, factor in self.biases]
        everything = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=value.device)
        visible = everything if self.visible is None else self.visible
        call = Followed(
            query=self.query.to(dtype),
            key=self.key.to(dtype).expand(-1, n_heads, -1, -1),
            value=value.to(dtype).expand(-1, n_heads, -1, -1),
            scale=self.scale,
            mask=visible.expand(-1, -1, n_queries, n_keys),
            bias=sum(biases[1:], biases[0]).to(dtype).expand(-1, -1, n_queries, n_keys) if biases else None,
        )
        return self.attend(call).transpose(1, 2).to(value.dtype)
