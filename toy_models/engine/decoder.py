"""The standard GPT-2 style decoder as a hooked TransformerLens model."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probes.base.lazy import collector_paused

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge


@dataclass(frozen=True)
class DecoderConfig:
    """Pre-LayerNorm, learned positions, GELU (tanh form), as in GPT-2."""

    n_layers: int = 1
    """Number of blocks."""
    n_heads: int = 1
    """Attention heads per block; must divide d_model."""
    d_model: int = 128
    """Width of the residual stream."""
    d_mlp: int = 0
    """Width of the MLP; 0 means 4 * d_model. The paper has d_model 720 and d_mlp 3072."""
    init_std: float = 0.02
    """Standard deviation of the initial weights; residual outputs get init_std / sqrt(2 n_layers)."""
    tied: bool = True
    """Whether the unembedding is the embedding, as in GPT-2."""

    def __post_init__(self) -> None:
        for name in ("n_layers", "n_heads", "d_model"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.d_model % self.n_heads:
            raise ValueError(f"n_heads={self.n_heads} does not divide d_model={self.d_model}")
        if self.d_mlp < 0:
            raise ValueError(f"d_mlp must be 0 (for 4 * d_model) or positive, got {self.d_mlp}")
        if not (math.isfinite(self.init_std) and self.init_std > 0):
            raise ValueError(f"init_std must be positive, got {self.init_std}")


def hooked_decoder(config: DecoderConfig, d_vocab: int, n_ctx: int, seed: int) -> "TransformerBridge":
    """A freshly initialised decoder in eval mode; the seed alone decides its weights."""
    with collector_paused():  # seconds, so not at the top
        import transformer_lens.model_bridge.sources.native  # noqa: F401  (attaches boot_native)
        from transformer_lens.config import TransformerBridgeConfig
        from transformer_lens.model_bridge import TransformerBridge

    bridge = TransformerBridge.boot_native(  # pyright: ignore[reportAttributeAccessIssue]
        TransformerBridgeConfig(
            n_layers=config.n_layers,
            n_heads=config.n_heads,
            d_model=config.d_model,
            d_head=config.d_model // config.n_heads,
            d_mlp=config.d_mlp or 4 * config.d_model,
            d_vocab=d_vocab,
            n_ctx=n_ctx,
            act_fn="gelu_new",
            normalization_type="LN",
            init_mode="gpt2",
            initializer_range=config.init_std,
            seed=seed,
        )
    )
    if config.tied:
        bridge.unembed.original_component.weight = bridge.embed.original_component.weight
    return bridge.eval()
