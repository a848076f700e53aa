"""Does attention look where the answer comes from? Attention against a task's dependency mask."""

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor


def dependency_mass(
    pattern: Float[Tensor, "batch head query key"], dependencies: Bool[Tensor, "batch query key"]
) -> Float[Tensor, "batch head query"]:
    """The attention that each query spends on the keys its answer depends on, in [0, 1]."""
    return (pattern * rearrange(dependencies, "batch query key -> batch 1 query key")).sum(-1)


def top1_hit(
    pattern: Float[Tensor, "batch head query key"], dependencies: Bool[Tensor, "batch query key"]
) -> Bool[Tensor, "batch head query"]:
    """Whether the most attended key is one the answer depends on; a tie counts as its first key."""
    best = pattern.argmax(-1, keepdim=True)
    mask = rearrange(dependencies, "batch query key -> batch 1 query key")
    return mask.expand_as(pattern).gather(-1, best).squeeze(-1)


def sink_mass(pattern: Float[Tensor, "*rows query key"]) -> Float[Tensor, "*rows query"]:
    """The attention on the first key, in [0, 1]."""
    return pattern[..., 0]


def without_self(dependencies: Bool[Tensor, "batch query key"]) -> Bool[Tensor, "batch query key"]:
    """The mask without the query's own position, which a residual stream carries without attention."""
    own = torch.eye(dependencies.shape[-1], dtype=torch.bool, device=dependencies.device)
    return dependencies & ~own[-dependencies.shape[-2] :]
