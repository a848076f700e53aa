"""What does every probe ask of a model? TransformerLens' hook names, on a standard decoder or a theory model.

Both have `blocks` and `blocks.{l}.attn.hook_pattern` [batch head query key]. A head's output is `attn.hook_z`
[batch pos head d_head]; a theory model with one head may have `hook_attn_out` [batch pos d] alone.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Shaped
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


def n_layers(model: Hooked) -> int:
    """The number of blocks."""
    return len(cast(nn.ModuleList, model.blocks))


def pattern_name(layer: int) -> str:
    """The hook point of a layer's attention weights, [batch head query key]."""
    return f"blocks.{layer}.attn.hook_pattern"


def output_name(model: Hooked, layer: int) -> str:
    """The hook point of a layer's head outputs; that of its attention output where heads have none of their own."""
    name = f"blocks.{layer}.attn.hook_z"
    return name if name in model.hook_dict else f"blocks.{layer}.hook_attn_out"


def residual_names(model: Hooked) -> list[str]:
    """The residual stream from the embedding to the last block: before, between attention and MLP, after."""
    first, *places = ("hook_resid_pre", "hook_resid_mid", "hook_resid_post")
    names = [f"blocks.0.{first}"] + [
        f"blocks.{layer}.{place}" for layer in range(n_layers(model)) for place in places
    ]
    return [name for name in names if name in model.hook_dict]


def writable_residual_names(model: Hooked) -> list[str]:
    """The residual stream where it can be replaced: before every block and after the last.

    A bridge's `hook_resid_mid` is the input of its second LayerNorm: what is written there reaches the MLP and not
    the residual stream, so it can be read and not patched.
    """
    depth = n_layers(model)
    names = [*(f"blocks.{layer}.hook_resid_pre" for layer in range(depth)), f"blocks.{depth - 1}.hook_resid_post"]
    return [name for name in names if name in model.hook_dict]


@torch.no_grad()
def captured(
    model: Hooked, inputs: Shaped[Tensor, "batch *input"], names: Sequence[str]
) -> dict[str, Shaped[Tensor, "batch *activation"]]:
    """The activations at the hook points `names`; nothing else is kept."""
    _, cache = model.run_with_cache(inputs, names_filter=list(names))
    return {name: cache[name] for name in names}


def n_heads(model: Hooked, inputs: Shaped[Tensor, "batch *input"]) -> list[int]:
    """The number of heads in every layer, found by running one input."""
    names = [pattern_name(layer) for layer in range(n_layers(model))]
    return [pattern.shape[1] for pattern in captured(model, inputs[:1], names).values()]
