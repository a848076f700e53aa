"""What does every attention head of a pretrained model do, row by row, during an ordinary forward pass?

Within `recording`, the attention calls of a causal LM of transformers are intercepted (`attention.intercept`). Each
call returns what the model's own attention returns and, on the side, keeps its row statistics
(`probes.attention.statistics`); no attention matrix is stored. `record` measures one batch, no more than it must.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hf_analysis.attention.intercept import AttentionCall, Enough, intercepting
from probes.attention.chunked import RowStatistics
from probes.attention.entropy import normalised_entropy
from probes.attention.statistics import Path, choose_path, row_statistics

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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
    alone: bool  # whether nobody reads what the model computes
    layers: list[RowStatistics] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)

    def __call__(self, call: AttentionCall) -> Float[Tensor, "batch query head d"]:
        ends = self.alone and call.is_last
        output = None
        if call.plain:
            value = call.value if self.alone and not ends and call.query.dtype == torch.float32 else None
            with torch.no_grad():
                statistics, output, path = row_statistics(
                    call.query, call.key, call.scale, mask=call.mask, bias=call.bias, value=value
                )
        else:
            statistics, _ = call.chunked
            path = choose_path(call.query, call.key, softcap=call.softcap, sinks=call.sinks)
        self.layers.append(statistics)
        self.paths.append(path)
        if ends:
            raise Enough
        return call.output() if output is None else output.transpose(1, 2).contiguous()

    def result(self) -> Recording:
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
    model: "PreTrainedModel",
    input_ids: Int[Tensor, "batch query"],
    *,
    position_ids: Int[Tensor, "batch query"] | None = None,
    mask: Bool[Tensor, "batch 1 query query"] | None = None,
) -> Recording:
    """The row statistics of every head on `input_ids`, without the logits.

    Where the same pass gives both (float32 on a CPU), attention's output comes with the statistics, equal to the
    model's own up to rounding. What the model does behind its last attention is left out; of a model that runs its
    layers more than once, the first run is measured.

    Pad on the right: rows of real tokens never see what stands behind them, and rows of pads mean nothing.
    `mask` is True where a query sees a key; without it, the model's own causal mask holds.
    """
    inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": mask, "use_cache": False}
    if position_ids is not None:
        inputs["position_ids"] = position_ids
    device = next(model.get_input_embeddings().parameters()).device
    inputs = {name: v.to(device) if isinstance(v, Tensor) else v for name, v in inputs.items()}
    recorder = _Recorder(alone=True)
    with intercepting(model, recorder):
        model.base_model(**inputs)
    return recorder.result()


@contextmanager
def recording(model: "PreTrainedModel") -> Iterator[_Recorder]:
    """Records every attention call of `model` within.

    The model's output stays what its SDPA attention gives, bit for bit. Soft caps and learned sinks, which SDPA does
    not have, are computed here: equal to rounding, and only within `torch.no_grad()`.
    """
    recorder = _Recorder(alone=False)
    with intercepting(model, recorder):
        yield recorder
