"""What does every probe ask of a model? TransformerLens' names, on a standard decoder or a theory model.

Both have a `cfg`, are in eval mode, and have in every block `attn.hook_pattern` [batch head query key], `attn.hook_v`
and `attn.hook_z` [batch pos head d_head], `hook_attn_out`, `hook_resid_pre` and `hook_resid_post` [batch pos d], and
further points where a model has such a thing. So `transformer_lens.patching` runs on all of them. It counts positions
along the last axis of the tokens; where a position is a clause or a vector, inputs [batch pos feature], give its
functions by position `index_axis_names=None, index_df=make_df_from_ranges([n_layers, n_pos], ["layer", "pos"])`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Int, Shaped
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformer_lens import HookedRootModule
    from transformer_lens.model_bridge import TransformerBridge

    Hooked = TransformerBridge | HookedRootModule
else:
    Hooked = nn.Module  # importing TransformerLens takes seconds; whoever has a hooked model has done it
"""A standard decoder or a theory model."""
Hooks = list[tuple[str | Callable, Callable]]
"""What `run_with_hooks` takes: names of hook points with functions of (activation, hook)."""


@dataclass(frozen=True, kw_only=True)
class HookedConfig:
    """The sizes of a hooked model by TransformerLens' names: the `cfg` of every model that is not a bridge."""

    n_layers: int
    n_heads: int
    """Attention heads of each layer."""
    d_model: int
    """Width of the residual stream where it enters the blocks."""
    d_head: int
    """Width of a head's output, `hook_z`."""
    d_vocab: int
    """Number of different tokens; 0 for a model that reads vectors."""
    n_ctx: int | None
    """Positions of the longest input; None for a model without positions, which reads any length."""
    device: str
    """Where the weights are."""
    n_key_value_heads: None = None
    """Every head has keys and values of its own."""


def n_layers(model: Hooked) -> int:
    """The number of blocks."""
    return cast(HookedConfig, model.cfg).n_layers


def n_heads(model: Hooked) -> int:
    """The number of attention heads in each layer."""
    return cast(HookedConfig, model.cfg).n_heads


def visible_keys(model: Hooked, n_pos: int, causal: bool, device: torch.device) -> Int[Tensor, "pos"]:
    """How many keys each query sees: what the model says, else those up to its own position, or all of them.

    A model that masks otherwise has a method `n_visible(n_pos)`; a row is normalised by what it could look at.
    """
    own = getattr(model, "n_visible", None)
    if own is not None:
        return own(n_pos).to(device)
    seen = torch.arange(1, n_pos + 1, device=device)
    return seen if causal else torch.full_like(seen, n_pos)


def pattern_name(layer: int) -> str:
    """The hook point of a layer's attention weights, [batch head query key]."""
    return f"blocks.{layer}.attn.hook_pattern"


def z_name(layer: int) -> str:
    """The hook point of what a layer's heads read, [batch pos head d_head]."""
    return f"blocks.{layer}.attn.hook_z"


def residual_names(model: Hooked) -> list[str]:
    """The residual stream from the embedding to the last block: before, between attention and MLP, after.

    They are for reading: a bridge's `hook_resid_mid` is the input of its second LayerNorm, and what is written there
    reaches the MLP and not the residual stream.
    """
    first, *places = ("hook_resid_pre", "hook_resid_mid", "hook_resid_post")
    names = [f"blocks.0.{first}"] + [
        f"blocks.{layer}.{place}" for layer in range(n_layers(model)) for place in places
    ]
    return [name for name in names if name in model.hook_dict]


@torch.no_grad()
def captured(
    model: Hooked, inputs: Shaped[Tensor, "batch *input"], names: Sequence[str]
) -> dict[str, Shaped[Tensor, "batch *activation"]]:
    """The activations at the hook points `names`; nothing else is kept."""
    _, cache = model.run_with_cache(inputs, names_filter=list(names))
    return {name: cache[name] for name in names}
