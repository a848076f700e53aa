"""What if attention is not free? A one-layer decoder trained with its attention fixed, or pressed by its entropy.

Fixed attention is a permanent hook on `hook_pattern`, so that everything that reads the model (evaluations, probes,
patching) sees what was trained; the sparse step is given the same pattern.
"""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from toy_models.engine.evaluation import attention_patterns
from toy_models.engine.sparse_step import SparseForward, why_not_sparse

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

    from probes.hooked.points import Hooked

PATTERN = "blocks.0.attn.hook_pattern"
SMALLEST_WEIGHT = 1e-20
"""Below this an attention weight adds nothing to an entropy in float32, and its logarithm has no gradient."""


@dataclass(frozen=True, eq=False)
class AttentionControl:
    """What is done to the attention of the only layer while it is trained."""

    pattern: Float[Tensor, "head query key"] | None = None
    """Attention weights held fixed for every input; None: attention is learned."""
    entropy_weight: float = 0.0
    """What the loss adds for each unit of normalised entropy, averaged over heads and supervised positions: above 0
    training presses attention to be sparse, below 0 to be dense."""

    def __post_init__(self) -> None:
        if self.pattern is None:
            return
        if self.entropy_weight:
            raise ValueError("fixed attention has a fixed entropy: give either a pattern or an entropy_weight")
        wrong = (self.pattern.sum(-1) - 1).abs() > 1e-4
        if wrong.any() or (self.pattern < 0).any() or (self.pattern.triu(1) != 0).any():
            raise ValueError("a pattern has weights of at least 0 on earlier keys and itself, which sum to 1")

    @property
    def identity(self) -> dict[str, str | float]:
        """What a checkpoint must agree with."""
        raw = b"" if self.pattern is None else self.pattern.float().contiguous().numpy().tobytes()
        return {"entropy_weight": self.entropy_weight, "pattern": hashlib.sha256(raw).hexdigest()[:16]}


def fix_attention(model: "TransformerBridge", pattern: Float[Tensor, "head query key"]) -> None:
    """Makes `pattern` the attention of the first layer for good; its queries and keys are frozen."""
    if pattern.shape[0] != model.cfg.n_heads:
        raise ValueError(f"the pattern has {pattern.shape[0]} heads, the model {model.cfg.n_heads}")

    def fixed(tensor: Float[Tensor, "batch head query key"], *, hook: object) -> Tensor:
        n = tensor.shape[-1]
        return pattern[:, :n, :n].to(tensor).expand_as(tensor)

    model.hook_dict[PATTERN].add_perma_hook(fixed)
    for name, parameter in model.state_dict(keep_vars=True).items():
        if name.startswith(("blocks.0.attn.q.", "blocks.0.attn.k.")):
            parameter.requires_grad_(False)  # nothing reads them


def controlled_forward(model: "TransformerBridge", n_pos: int, control: AttentionControl) -> SparseForward:
    """The sparse step under `control`; one layer only, because there attention depends on tokens alone."""
    obstacle = why_not_sparse(model, n_pos)
    if obstacle is None and model.cfg.n_layers != 1:
        obstacle = f"it has {model.cfg.n_layers} layers, and attention is controlled in a one-layer decoder"
    if obstacle is not None:
        raise ValueError(f"the attention of this model cannot be controlled: {obstacle}")
    if control.pattern is None:
        return SparseForward(model)
    pattern = control.pattern.to(next(model.parameters()))
    fix_attention(model, pattern)
    return SparseForward(model, pattern)


def mean_entropy(
    forward: SparseForward, inputs: Int[Tensor, "batch pos"], positions: Int[Tensor, "supervised"]
) -> Float[Tensor, ""]:
    """Normalised entropy of the attention of `positions`, averaged over inputs, heads and positions."""
    weights = forward.first_pattern(inputs)[:, :, positions]
    nats = -(weights * weights.clamp_min(SMALLEST_WEIGHT).log()).sum(-1)
    return (nats / (positions + 1).to(nats).log()).mean()


def uniform_pattern(n_heads: int, n_pos: int) -> Float[Tensor, "head query key"]:
    """Every query attends equally to all keys that it sees: entropy 1."""
    seen = torch.ones(n_pos, n_pos).tril()
    return (seen / seen.sum(-1, keepdim=True)).expand(n_heads, -1, -1)


def masked_pattern(n_heads: int, wanted: Bool[Tensor, "query key"]) -> Float[Tensor, "head query key"]:
    """Every query attends equally to its `wanted` keys; to all that it sees, if none is wanted."""
    wanted = wanted.tril().float()
    total = wanted.sum(-1, keepdim=True)
    found = torch.where(total > 0, wanted / total.clamp_min(1), uniform_pattern(1, len(wanted))[0])
    return found.expand(n_heads, -1, -1)


def learned_pattern(model: "Hooked", inputs: Int[Tensor, "batch pos"]) -> Float[Tensor, "head query key"]:
    """The attention of a trained one-layer model, averaged over inputs: what a transplant takes along."""
    return attention_patterns(model, inputs)[0].mean(0)
