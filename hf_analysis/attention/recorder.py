"""What does every attention head of a pretrained model do, row by row, during an ordinary forward pass?

    from hf_analysis import record
    found = record(model, tokenizer(text).input_ids, tokenizer=tokenizer)  # any causal LM of transformers
    found.to_pandas()  # one line for each layer, head and token
    found["normalised_entropy"]  # [layer batch head query]

Within `recording`, the attention calls of the model are intercepted (`attention.intercept`). Each call returns what
the model's own attention returns and, on the side, keeps what the asked statistics (`probes.attention.statistics`)
are computed from; no attention matrix is stored. `record` measures one batch, no more than it must.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hf_analysis.attention.intercept import AttentionCall, Enough, in_registry, intercepting
from hf_analysis.attention.labels import Texts, TokenIds, as_batch, encoded, require_known, tidy, token_labels
from hf_analysis.attention.masks import require_boolean
from hf_analysis.models.loading import LoadedModel
from probes.attention.check import require_agreement
from probes.attention.computation import Computation, row_statistics
from probes.attention.row import RowStatistics
from probes.attention.statistics import DEFAULT_METRICS, find_statistic, statistics_of
from probes.base.counts import counts

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

NOT_FINITE = "a number overflowed or the weights hold NaN: try --dtype float32, or other weights"


@dataclass(frozen=True)
class Recording:
    """Every row of every head: `recording["normalised_entropy"]` is one statistic, NaN where it is not defined.

    Of a hybrid, the layers that attend; `layers` says which.
    """

    values: Mapping[str, Float[Tensor, "layer batch head query"]]
    """The statistics by name, as they were asked for."""
    n_visible: Int[Tensor, "layer batch 1 query"]
    """How many keys every query sees."""
    overflow: Bool[Tensor, "layer batch head query"]
    """Rows in which the model's own numbers are not finite: NaN in every statistic."""
    computations: tuple[Computation, ...]
    """How each layer was measured."""
    layers: tuple[int, ...]
    """The model's own numbers of the layers."""
    differences: Mapping[str, float] = field(default_factory=dict)
    """With `check`: the largest difference of a statistic from each computation that layers were compared with."""
    tokens: tuple[tuple[str, ...], ...] | None = None
    """The tokens of each text, if they are known."""

    def __getitem__(self, statistic: str) -> Float[Tensor, "layer batch head query"]:
        if statistic not in self.values:
            find_statistic(statistic)
            raise ValueError(
                f"{statistic!r} was not recorded, only {', '.join(self.values)}; ask for it with statistics="
            )
        return self.values[statistic]

    def __repr__(self) -> str:
        n_layers, n_texts, n_heads, n_tokens = self.overflow.shape
        sizes = counts(layer=n_layers, text=n_texts, head=n_heads, token=n_tokens)
        return f"Recording({sizes}; {', '.join(self.values)}; .to_pandas())"

    def to_pandas(self) -> pd.DataFrame:
        """One line for each text, layer, head and position, with the token and one column for each statistic."""
        return tidy(self.values, self.layers, self.tokens)


@dataclass
class _Recorder:
    alone: bool  # whether nobody reads what the model computes
    statistics: Sequence[str]
    layers: list[RowStatistics] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    computations: list[Computation] = field(default_factory=list)
    check: bool = False  # whether every layer is computed a second time, by a slower computation
    differences: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.statistics:
            raise ValueError("no statistic to record: name at least one")
        self.asked = {name: find_statistic(name) for name in self.statistics}
        self.quantities = {"n_visible", "entropy", *(name for one in self.asked.values() for name in one.reads)}

    def __call__(self, call: AttentionCall) -> Float[Tensor, "batch query head d"]:
        ends = self.alone and call.is_last
        inputs = {"mask": call.mask, "bias": call.bias, "softcap": call.softcap, "sinks": call.sinks}
        value = call.value if not ends and (self.alone or not call.plain) else None
        # SDPA gives plain attention its gradient; with caps and sinks there is none, which the computation refuses
        with torch.set_grad_enabled(torch.is_grad_enabled() and not call.plain):
            statistics, output, chosen = row_statistics(
                call.query, call.key, call.scale, value=value, quantities=self.quantities, **inputs
            )
        if self.check:
            reference, difference = require_agreement(
                statistics, output, chosen, call.query, call.key, call.scale, value=value, layer=call.layer, **inputs
            )
            self.differences[reference] = max(difference, self.differences.get(reference, 0.0))
        if self.layers and statistics.entropy.shape != self.layers[0].entropy.shape:
            raise ValueError(
                f"layer {call.layer} has {call.query.shape[1]} heads, layer {self.numbers[0]} has "
                f"{self.layers[0].entropy.shape[1]}: only layers with as many heads go into one table"
            )
        self.layers.append(statistics)
        self.numbers.append(call.layer)
        self.computations.append(chosen)
        if ends:
            raise Enough
        return call.output() if output is None else output.transpose(1, 2).contiguous()

    def result(self, tokens: tuple[tuple[str, ...], ...] | None = None) -> Recording:
        stacked = SimpleNamespace(
            **{name: torch.stack([getattr(one, name).cpu() for one in self.layers]) for name in self.quantities}
        )
        values = {name: one.of(stacked) for name, one in self.asked.items()}
        overflow = stacked.entropy.isnan() & (stacked.n_visible > 0)
        found = (values, stacked.n_visible, overflow, tuple(self.computations), tuple(self.numbers))
        return Recording(*found, self.differences, tokens)


@torch.inference_mode()
def record(
    model: "PreTrainedModel | LoadedModel",
    input_ids: TokenIds | Texts,
    *,
    statistics: str | Sequence[str] | None = None,
    tokens: Sequence[Any] | None = None,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
    position_ids: Int[Tensor, "batch query"] | None = None,
    mask: Tensor | None = None,
    check: bool = False,
) -> Recording:
    """The row statistics of every head on `input_ids`, without the logits.

    `input_ids` is one text (integers) or several of equal length, as lists or as a tensor; or the text itself where
    the tokenizer is known. `statistics` are names of `probes.attention.statistics`, or one name, by default those of
    `cotlens entropy`. `tokens`, or a `tokenizer` to make them, label the result.

    Where the same pass gives both (float32, or half precision on a GPU), attention's output comes with the
    statistics, equal to the model's own up to rounding. What the model does behind its last attention is left out;
    of a model that runs its layers more than once, the first run is measured; of a hybrid, the layers that attend.

    Pad on the right: rows of real tokens never see what stands behind them, and rows of pads mean nothing.
    `mask`, boolean [batch 1 query key], is True where a query sees a key; without it, the model's own causal mask
    holds.
    `check` computes every layer a second time (`probes.attention.check`): a ValueError if the two differ.
    """
    if isinstance(model, LoadedModel):
        input_ids = encoded(input_ids, model.tokenizer if tokenizer is None else tokenizer)
        model, tokenizer = model.model, model.tokenizer if tokenizer is None and tokens is None else tokenizer
    _require_not_hooked(model)
    ids, embeddings = as_batch(encoded(input_ids, tokenizer)), model.get_input_embeddings()
    require_known(ids, getattr(embeddings, "num_embeddings", None))
    labels = token_labels(ids, tokens, tokenizer)
    recorder = _Recorder(alone=True, statistics=_asked(statistics), check=check)
    if mask is not None and not in_registry(model):
        raise ValueError(f"{type(model).__name__} takes no mask of its own making; record one text in each row")
    require_boolean(mask, ids)
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
    if position_ids is not None:
        inputs["position_ids"] = position_ids
    device = next(embeddings.parameters()).device
    inputs = {name: v.to(device) if isinstance(v, Tensor) else v for name, v in inputs.items()}
    with intercepting(model, recorder, partly=True):
        model.base_model(**inputs)
    return recorder.result(labels)


def require_measurable(loaded: LoadedModel) -> None:
    """A ValueError unless the heads of a model can be measured, found out on two tokens: ask before long work."""
    found = record(loaded.model, [loaded.pad] * 2)
    if found.overflow.any():
        layer, _, head, _ = found.overflow.nonzero()[0].tolist()
        raise ValueError(
            f"{loaded.name}: attention is not finite in layer {found.layers[layer]}, head {head}; {NOT_FINITE}"
        )


@contextmanager
def recording(model: "PreTrainedModel", statistics: str | Sequence[str] | None = None) -> Iterator[_Recorder]:
    """Records every attention call of `model` within.

    The model's output stays what its SDPA attention gives, bit for bit. Soft caps and learned sinks, which SDPA does
    not have, are computed here: equal to rounding, and only within `torch.no_grad()`.
    """
    _require_not_hooked(model)
    recorder = _Recorder(alone=False, statistics=_asked(statistics))
    with intercepting(model, recorder, partly=True):
        yield recorder


def _asked(statistics: str | Sequence[str] | None) -> Sequence[str]:
    if isinstance(statistics, str):
        return (statistics,)
    return statistics_of(DEFAULT_METRICS) if statistics is None else statistics


def _require_not_hooked(model: Any) -> None:
    """A ValueError for a model of TransformerLens, or one of `toy_models`: its attention is at its hook points."""
    if hasattr(model, "hook_dict"):
        raise ValueError(
            "record measures models of transformers; this is a hooked model: take "
            "cache['blocks.0.attn.hook_pattern'] and probes.row_entropy (docs/how/one-text.md)"
        )
