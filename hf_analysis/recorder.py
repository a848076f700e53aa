"""What does every attention head of a pretrained model do, row by row, during an ordinary forward pass?

`record` runs a causal LM of transformers with one more attention function in its public registry. The
function returns what the model's own attention returns and, on the side, keeps the row statistics of
`probes.fused_entropy`; no attention matrix is stored.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from probes.chunked_entropy import RowStatistics, chunked_row_statistics
from probes.entropy import normalised_entropy
from probes.fused_entropy import Path, row_statistics

NAME = "cotlens_recording"  # a name with "flash" in it would be taken for a hub kernel

# Options of attention functions that say nothing about the pattern beyond what the mask already says.
_HARMLESS = frozenset({"sliding_window", "position_ids", "cache_position", "layer_idx", "position_bias"})
_active: ContextVar["_Recorder | None"] = ContextVar("active recorder", default=None)


@dataclass(frozen=True)
class Recording:
    """Every row of every head; the entropies are normalised by log(visible keys), NaN below two keys."""

    entropy: Float[Tensor, "layer batch head query"]
    sink_mass: Float[Tensor, "layer batch head query"]
    without_sink: Float[Tensor, "layer batch head query"]
    n_visible: Int[Tensor, "layer batch 1 query"]
    paths: tuple[Path, ...]  # how each layer was measured


@dataclass
class _Recorder:
    layers: list[RowStatistics] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)

    def result(self, model: PreTrainedModel) -> Recording:
        expected = model.config.get_text_config().num_hidden_layers
        if len(self.layers) != expected:
            raise ValueError(
                f"{type(model).__name__} sent {len(self.layers)} of its {expected} layers through the "
                "attention registry of transformers; heads that bypass it cannot be measured"
            )
        stacked = {
            name: torch.stack([getattr(layer, name).cpu() for layer in self.layers])
            for name in (
                "entropy",
                "entropy_without_sink",
                "sink_mass",
                "n_visible",
                "n_visible_without_sink",
            )
        }
        return Recording(
            normalised_entropy(stacked["entropy"], stacked["n_visible"]),
            stacked["sink_mass"],
            normalised_entropy(stacked["entropy_without_sink"], stacked["n_visible_without_sink"]),
            stacked["n_visible"],
            tuple(self.paths),
        )


@torch.inference_mode()
def record(
    model: PreTrainedModel,
    input_ids: Int[Tensor, "batch query"],
    *,
    position_ids: Int[Tensor, "batch query"] | None = None,
    mask: Bool[Tensor, "batch 1 query query"] | None = None,
) -> Recording:
    """The row statistics of every head on `input_ids`, without the logits.

    Pad on the right: rows of real tokens never see what stands behind them, and rows of pads mean nothing.
    `mask` is True where a query sees a key; without it, the model's own causal mask holds.
    """
    inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": mask, "use_cache": False}
    if position_ids is not None:
        inputs["position_ids"] = position_ids
    device = next(model.get_input_embeddings().parameters()).device
    inputs = {name: v.to(device) if isinstance(v, Tensor) else v for name, v in inputs.items()}
    with recording(model) as recorder:
        model.base_model(**inputs)
    return recorder.result(model)


@contextmanager
def recording(model: PreTrainedModel) -> Iterator[_Recorder]:
    """Records every attention call of `model` within; the model keeps its own implementation afterwards."""
    before = model.config._attn_implementation or "eager"
    model.set_attn_implementation(NAME)
    if model.config._attn_implementation != NAME:
        raise ValueError(
            f"{type(model).__name__} does not use the attention registry of transformers, so its heads "
            "cannot be measured; use an architecture that does, such as Llama, Qwen2, GPT-2 or GPT-NeoX"
        )
    recorder = _Recorder()
    token = _active.set(recorder)
    try:
        yield recorder
    finally:
        _active.reset(token)
        model.set_attn_implementation(before)


def _recording_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Tensor, None]:
    """The registered attention function: the model's own output, with the statistics kept on the side."""
    recorder = _active.get()
    if recorder is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **options)
    softcap, sinks = options.pop("softcap", None), options.pop("s_aux", None)
    bias = options.get("position_bias")
    _refuse_unknown(module, query, key, options)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    mask, bias = _split_mask(attention_mask, bias, key.shape[2])
    if softcap is None and sinks is None:
        statistics, path = row_statistics(query, key, scale, mask=mask, bias=bias)
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, 0.0, scaling, **options)
    else:
        statistics, wide = chunked_row_statistics(
            query, key, scale, mask=mask, bias=bias, softcap=softcap, value=value
        )
        assert wide is not None  # asked for with `value`
        assert statistics.log_normaliser is not None
        path = Path("chunked", "capped scores" if sinks is None else "learned sinks outside the keys")
        if sinks is not None:  # a sink takes mass from the output but is no key: the entropy is over the keys
            share = torch.sigmoid(statistics.log_normaliser - sinks.reshape(1, -1, 1).to(wide.dtype))
            wide = wide * share[..., None]
        output = wide.to(query.dtype).transpose(1, 2).contiguous()
    recorder.layers.append(statistics)
    recorder.paths.append(path)
    return output, None


def _refuse_unknown(module: torch.nn.Module, query: Tensor, key: Tensor, options: dict[str, Any]) -> None:
    name = type(module).__name__
    unknown = [k for k, v in options.items() if not (v is None or isinstance(v, bool) or k in _HARMLESS)]
    if unknown:
        raise ValueError(f"{name} passes {unknown} to its attention, whose effect on the pattern is not known here")
    if query.shape[2] != key.shape[2] or getattr(module, "is_causal", True) is False:
        raise ValueError(f"{name} is not causal self-attention over one text; only decoders are measured")
    if module.training:
        raise ValueError(f"{name} is in training mode; call model.eval() first")


def _split_mask(
    attention_mask: Tensor | None, bias: Tensor | None, n_keys: int
) -> tuple[Bool[Tensor, "batch 1 query key"] | None, Tensor | None]:
    """Which keys are seen, and what is added to their scores; an additive mask may say both."""
    if attention_mask is None:
        return None, bias
    attention_mask = attention_mask[..., :n_keys]
    if attention_mask.dtype == torch.bool:
        return attention_mask, bias
    visible = attention_mask > torch.finfo(attention_mask.dtype).min / 2
    if visible.shape[1] != 1:
        raise ValueError("an attention mask that differs between heads cannot be measured")
    added = attention_mask.masked_fill(~visible, 0)
    if bool(added.any()):
        bias = added if bias is None else bias + added
    return visible, bias


AttentionInterface.register(NAME, _recording_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
