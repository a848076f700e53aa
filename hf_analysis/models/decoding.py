"""How does one step of generation read its cache once? Keys with room to grow, and attention without copies.

transformers' own cache copies all keys and values at every step to append one, and its SDPA attention repeats them
for every query head of a group wherever there is a mask, which left padding needs. With many rows that is more memory
to move than the weights. Here a layer's keys stand in a buffer with room, and the query heads that share a key/value
head become the queries of one call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import AttentionInterface, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "cotlens_grouped"
ROOM = 64
"""Tokens for which a layer has room when it has to move."""
_CHANGES_SCORES = ("softcap", "s_aux", "position_bias")


class RoomyLayer(DynamicLayer):
    """A growing layer whose keys and values are views of buffers with room for more."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
            self.buffers = [self.keys, self.values]
        assert self.keys is not None
        assert self.values is not None
        self.keys = self._appended(0, self.keys, key_states)
        self.values = self._appended(1, self.values, value_states)
        return self.keys, self.values

    def _appended(self, which: int, held: Tensor, new: Tensor) -> Float[Tensor, "batch head key d"]:
        n, total = held.shape[2], held.shape[2] + new.shape[2]
        buffer = self.buffers[which]
        if held.data_ptr() != buffer.data_ptr() or len(held) != len(buffer) or total > buffer.shape[2]:
            buffer = new.new_empty(*new.shape[:2], total + ROOM, new.shape[3])  # rows were dropped, or it is full
            buffer[:, :, :n] = held
            self.buffers[which] = buffer
        buffer[:, :, n:total] = new
        return buffer[:, :, :total]


def roomy_cache(model: PreTrainedModel) -> DynamicCache:
    """The cache that transformers would use, its plain layers replaced; sliding and other layers stay as they are."""
    cache = DynamicCache(config=model.config)
    cache.layers = [RoomyLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


@contextmanager
def grouped_attention(model: PreTrainedModel) -> Iterator[None]:
    """Within, a model that uses SDPA attends without repeating keys; any other is left alone."""
    before = model.config._attn_implementation
    if before != "sdpa":
        yield
        return
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _attention(
    module: torch.nn.Module,
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    value: Float[Tensor, "batch kv_head key d_value"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Float[Tensor, "batch query head d_value"], None]:
    """One new token: its heads of a group are queries over the same keys. Otherwise what the model itself does."""
    shared = query.shape[1] // key.shape[1]
    plain = all(options.get(name) is None for name in _CHANGES_SCORES)
    if query.shape[2] != 1 or shared == 1 or attention_mask is None or attention_mask.shape[1] != 1 or not plain:
        found, _ = sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **options)
        return found, None
    grouped = query.reshape(len(query), key.shape[1], shared, query.shape[3])
    mask = attention_mask[..., : key.shape[2]].expand(-1, -1, shared, -1)
    mixed = torch.nn.functional.scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scaling)
    return mixed.reshape(len(query), 1, query.shape[1], value.shape[3]), None
