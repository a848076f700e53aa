"""Which layers of a model attend? Its decoder layers, which of them is running, and what the others do instead.

Hybrids attend in some layers only: the others mix tokens by a recurrence or a convolution (Mamba, gated delta nets,
linear attention) and have no weights to measure. A layer that says nothing and does none of that is suspicious: it
may attend where nobody looks, so the model is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WITHOUT_ATTENTION = frozenset({"linear_attention", "mamba", "conv", "recurrent", "mlp", "moe"})
"""How configurations call layers that do not attend."""
MIXERS = ("Mamba", "Mixer", "DeltaNet", "DeltaAttention", "LightningAttention", "Recurrent", "Rwkv", "LSTM")
"""What modules that mix tokens without softmax attention are called."""


def text_decoder(model: "PreTrainedModel") -> "PreTrainedModel":
    """The part of `model` that reads text."""
    decoder: Any = model.get_decoder()
    return decoder if hasattr(decoder, "set_attn_implementation") else model


def decoder_layers(model: "PreTrainedModel") -> list[nn.Module]:
    """The layers of the text decoder, in order."""
    n_layers = model.config.get_text_config(decoder=True).num_hidden_layers
    for module in text_decoder(model).modules():
        if isinstance(module, nn.ModuleList) and len(module) == n_layers:
            return list(module)
    raise ValueError(
        f"{type(model).__name__} has no list of {n_layers} layers, so nobody can say which layer a head belongs to"
    )


def mixer(module: nn.Module) -> str | None:
    """What in `module` carries one token's numbers to later ones other than by attention, if anything does."""
    names = {type(part).__name__: isinstance(part, nn.Conv1d) for part in module.modules() if part is not module}
    named = [name for name in names if any(known in name for known in MIXERS)]
    inner = [name for name in named if not name.endswith(("Layer", "Block", "Model", "Norm"))]
    return next(iter([*inner, *named, *(name for name, convolves in names.items() if convolves)]), None)


@dataclass
class Watch:
    """Which layer runs, and which have attended."""

    layers: list[nn.Module]
    kinds: list[str | None]
    running: int | None = None
    text: tuple[int, int] = (0, 0)  # batch and query of what the running layer reads
    ran: set[int] = field(default_factory=set)
    attended: set[int] = field(default_factory=set)
    _busy: bool = False  # whether the running layer has attended already

    def attends(self, module: nn.Module) -> int:
        """Takes note that the running layer attends, and says which that is."""
        name = type(module).__name__
        if self.running is None:
            raise ValueError(f"{name} attends outside the decoder's layers; only decoders of text are measured")
        if self._busy:
            raise ValueError(f"{name} attends twice in layer {self.running}; a head with two patterns has no row")
        self._busy = True
        self.attended.add(self.running)
        return self.running

    def require_all(self, model: nn.Module, partly: bool) -> None:
        """A ValueError unless every layer has attended or, if `partly`, does something else."""
        name, n = type(model).__name__, len(self.layers)
        if not self.ran:
            raise ValueError(
                f"{name}: none of the {n} layers taken for its decoder's has run, so nobody saw its heads"
            )
        silent = [i for i in range(n) if i not in self.attended]
        others = {i: self._instead(i) for i in silent}
        if not self.attended and all(others.values()):
            raise ValueError(
                f"{name} has no softmax attention in any layer, but {others[0]}; it has no heads to measure"
            )
        unknown = [i for i, instead in others.items() if instead is None]
        if unknown:
            raise ValueError(
                f"{name}: layer {unknown[0]} of {n} computes its attention in a way that cannot be followed, so its "
                "heads cannot be measured; take a model of the table in docs/reference/architectures.md"
            )
        if silent and not partly:
            raise ValueError(
                f"{name} attends in layers {listed(self.attended)} of {n} only ({others[silent[0]]} in the others); "
                "cotlens entropy and hf_analysis.record measure those, but this needs attention in every layer"
            )

    def _instead(self, layer: int) -> str | None:
        """What a layer does in place of attention, if that is known."""
        if layer not in self.ran:  # cross-attention, for one, waits for an image
            return "nothing on text alone"
        kind = self.kinds[layer]
        if kind is not None and kind not in WITHOUT_ATTENTION:
            return None
        return mixer(self.layers[layer]) or kind

    def _enter(self, layer: int, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.running, self._busy = layer, False
        self.ran.add(layer)
        states = [value for value in (*arguments, *options.values()) if isinstance(value, Tensor) and value.ndim == 3]
        self.text = (states[0].shape[0], states[0].shape[1]) if states else (0, 0)

    def _leave(self) -> None:
        self.running = None


@contextmanager
def watching(model: "PreTrainedModel") -> Iterator[Watch]:
    """Within, the watch knows which decoder layer of `model` runs."""
    config = model.config.get_text_config(decoder=True)
    layers = decoder_layers(model)
    kinds = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    watch = Watch(layers, list(kinds) if kinds and len(kinds) == len(layers) else [None] * len(layers))
    handles: list[torch.utils.hooks.RemovableHandle] = []
    for i, layer in enumerate(layers):
        enter = lambda _, arguments, options, i=i: watch._enter(i, arguments, options)  # noqa: E731
        handles.append(layer.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(layer.register_forward_hook(lambda *_: watch._leave()))
    try:
        yield watch
    finally:
        for handle in handles:
            handle.remove()


def listed(layers: "set[int] | tuple[int, ...]") -> str:
    return ", ".join(map(str, sorted(layers)))
