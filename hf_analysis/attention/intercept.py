"""How does one get between a pretrained model and its attention? One more function in transformers' public registry.

Within `intercepting(model, handler)`, every attention call of the model is handed to `handler` as an `AttentionCall`
in place of the model's own implementation; what the handler returns goes on as the layer's output. `call.output()`
is what the model itself would have computed, so a handler that only looks changes nothing. A handler that is done
with the last layer (`call.is_last`) may raise `Enough`, which ends the block.

A model that computes its attention outside the registry is followed by what it does to its scores
(`hf_analysis.attention.following`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hf_analysis.attention.account import Followed
from hf_analysis.attention.following import following
from hf_analysis.attention.layers import Watch, text_decoder, watching
from hf_analysis.attention.masks import require_causal, split_mask
from probes.attention.chunked import chunked_row_statistics
from probes.attention.row import RowStatistics

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "cotlens_intercepting"  # a name with "flash" in it would be taken for a hub kernel

# Options of attention functions that say nothing about the pattern beyond what the mask already says.
_HARMLESS = frozenset({
    "sliding_window", "position_ids", "cache_position", "layer_idx", "position_bias", "is_causal", "use_cache",
    "output_attentions", "output_hidden_states", "output_router_logits", "return_dict", "deterministic",
})  # fmt: skip


@dataclass(frozen=True)
class AttentionCall:
    """One layer's attention, as the model asked for it."""

    layer: int  # the model's own number
    is_last: bool  # of the model's layers
    module: torch.nn.Module
    query: Float[Tensor, "batch head query d"]
    key: Float[Tensor, "batch kv_head key d"]
    value: Float[Tensor, "batch kv_head key d_value"]
    attention_mask: Tensor | None
    scaling: float | None
    softcap: float | None
    sinks: Float[Tensor, "head"] | None  # learned scores of no key, which take mass from every row
    options: dict[str, Any]

    @property
    def scale(self) -> float:
        return self.query.shape[-1] ** -0.5 if self.scaling is None else self.scaling

    @property
    def mask(self) -> Bool[Tensor, "#batch 1 query key"] | None:
        """True where a query sees a key; None: plainly causal."""
        return self._split[0]

    @property
    def bias(self) -> Float[Tensor, "#batch #head query key"] | None:
        """What is added to the scores."""
        return self._split[1]

    @property
    def plain(self) -> bool:
        """Whether the pattern is a softmax of biased scores and nothing else."""
        return self.softcap is None and self.sinks is None

    @cached_property
    def _split(self) -> tuple[Tensor | None, Tensor | None]:
        return split_mask(self.attention_mask, self.options.get("position_bias"), self.key.shape[2])

    @cached_property
    def chunked(self) -> tuple[RowStatistics, Float[Tensor, "batch query head d_value"]]:
        """The reference path for capped scores and learned sinks: row statistics over the keys, and the output."""
        return self._chunked(self.bias)

    def output(self, hidden: Bool[Tensor, "#batch #head query key"] | None = None) -> Float[Tensor, "b q h d"]:
        """The model's own output; where a key is `hidden` from a query, its weight is zero and the rest sums to one.

        Nothing hidden: the very same computation as without a handler. Every query must keep a key.
        """
        return self._untouched() if hidden is None else self.biased_output(self.hiding(hidden))

    def hiding(self, hidden: Bool[Tensor, "#batch #head query key"]) -> Float[Tensor, "#batch #head query key"]:
        """What to add to the scores so that every query sees what it does, but for what is `hidden` from it."""
        kept = self._visible() & ~hidden.to(self.query.device)
        if not bool(kept.any(-1).all()):
            raise ValueError(f"layer {self.layer}: a query would be left without any key; leave it at least its own")
        zero = torch.zeros((), dtype=self.query.dtype, device=self.query.device)
        return torch.where(kept, zero if self.bias is None else self.bias, -torch.inf)

    def biased_output(self, added: Float[Tensor, "#batch #head query key"]) -> Float[Tensor, "b q h d"]:
        """The layer's output with `added` to its scores, in place of the model's own mask and bias."""
        if not self.plain:
            return self._chunked(added)[1]
        options = {name: value for name, value in self.options.items() if name != "position_bias"}
        arguments = (self.module, self.query, self.key, self.value, added, 0.0, self.scaling)
        return _sdpa(*arguments, **options)

    def _visible(self) -> Bool[Tensor, "#batch 1 query key"]:
        if self.mask is not None:
            return self.mask
        n_queries, n_keys = self.query.shape[2], self.key.shape[2]
        everything = torch.ones(n_queries, n_keys, dtype=torch.bool, device=self.query.device)
        return everything.tril(n_keys - n_queries)[None, None]  # queries are the last keys

    def _untouched(self) -> Tensor:
        if not self.plain:
            return self.chunked[1]
        arguments = (self.module, self.query, self.key, self.value, self.attention_mask, 0.0, self.scaling)
        return _sdpa(*arguments, **self.options)

    def _chunked(self, bias: Tensor | None) -> tuple[RowStatistics, Tensor]:
        options = {"mask": self.mask, "bias": bias, "softcap": self.softcap, "sinks": self.sinks}
        statistics, output = chunked_row_statistics(self.query, self.key, self.scale, value=self.value, **options)
        assert output is not None  # asked for with `value`
        return statistics, output.to(self.query.dtype).transpose(1, 2).contiguous()


class Enough(Exception):
    """Raised by a handler that needs nothing of what the model computes behind its last attention."""


Handler = Callable[[AttentionCall], Float[Tensor, "batch query head d_value"]]


@dataclass
class _Active:
    handler: Handler
    watch: Watch
    cached: bool

    def answer(
        self,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: float | None,
        options: dict[str, Any],
    ) -> Float[Tensor, "batch query head d_value"]:
        """Hands one attention call to the handler."""
        softcap, sinks = options.pop("softcap", None), options.pop("s_aux", None)
        _refuse_unknown(module, query, key, options, self.cached)
        layer = self.watch.attends(module)
        is_last = layer == len(self.watch.layers) - 1
        return self.handler(
            AttentionCall(layer, is_last, module, query, key, value, attention_mask, scaling, softcap, sinks, options)
        )

    def follow(self, found: Followed) -> Float[Tensor, "batch query head d_value"]:
        """The same for a call outside the registry."""
        assert self.watch.running is not None
        layer = self.watch.layers[self.watch.running]
        require_causal(found.mask, type(layer).__name__)
        options = {"position_bias": found.bias}
        return self.answer(layer, found.query, found.key, found.value, found.mask, found.scale, options)


_active: ContextVar[_Active | None] = ContextVar("active handler", default=None)


@contextmanager
def intercepting(
    model: "PreTrainedModel", handler: Handler, *, cached: bool = False, partly: bool = False
) -> Iterator[None]:
    """Hands every attention call of `model` to `handler`; afterwards the model has its own implementation again.

    `cached`: the model may go on from keys that it has computed before, so that there are fewer queries than keys.
    `partly`: the model may attend in some of its layers only; what the others do is not handed over.

    A model with layers whose attention cannot be intercepted is refused at the end.
    """
    with watching(model) as watch:
        active = _Active(handler, watch, cached)
        token = _active.set(active)
        try:
            with _registered(model) if in_registry(model) else following(watch, active.follow):
                yield
        except Enough:
            pass
        finally:
            _active.reset(token)
    watch.require_all(model, partly)


def in_registry(model: "PreTrainedModel") -> bool:
    """Whether the model's attention goes through the registry of transformers."""
    return bool(text_decoder(model)._can_set_attn_implementation())


@contextmanager
def _registered(model: "PreTrainedModel") -> Iterator[None]:
    """Within, the model's attention is ours."""
    _make_known()
    decoder = text_decoder(model)
    before = decoder.config._attn_implementation or "eager"
    decoder.set_attn_implementation(NAME)
    try:
        yield
    finally:
        decoder.set_attn_implementation(before)


def _intercepting_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Tensor, None]:
    """The registered attention function."""
    active = _active.get()
    if active is None:
        return _sdpa(module, query, key, value, attention_mask, dropout, scaling, **options), None
    if options.get("is_causal") is False and attention_mask is None and query.shape[2] > 1:
        raise ValueError(f"{type(module).__name__} attends to later tokens too; only decoders are measured")
    return active.answer(module, query, key, value, attention_mask, scaling, options), None


def _refuse_unknown(
    module: torch.nn.Module, query: Tensor, key: Tensor, options: dict[str, Any], cached: bool
) -> None:
    name = type(module).__name__
    unknown = [k for k, v in options.items() if not (v is None or k in _HARMLESS)]
    if unknown:
        raise ValueError(f"{name} passes {unknown} to its attention, whose effect on the pattern is not known here")
    whole = query.shape[2] == key.shape[2] or (cached and query.shape[2] < key.shape[2])
    if not whole or getattr(module, "is_causal", True) is False:
        raise ValueError(f"{name} is not causal self-attention over one text; only decoders are measured")
    if module.training:
        raise ValueError(f"{name} is in training mode; call model.eval() first")


def _make_known() -> None:
    """Puts our attention into transformers' registries; here because importing it takes seconds."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(NAME, _intercepting_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def _sdpa(*arguments: Any, **options: Any) -> Tensor:
    """What the model's own attention returns."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward(*arguments, **options)[0]
