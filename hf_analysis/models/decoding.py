"""How does one step of generation read its cache and its weights once? Buffers with room, no copies, small products.

transformers' own cache copies all keys and values at every step to append one, and its SDPA attention repeats them
for every query head of a group wherever there is a mask, which left padding needs. With many rows that is more memory
to move than the weights. Here a layer's keys stand in a buffer with room, and the query heads that share a key/value
head become the queries of one call. The logits of a few rows are computed a part of the vocabulary at a time,
which the processor's cache holds: in one product they take a fifth to a quarter longer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "cotlens_grouped"
ROOM = 128
"""Tokens for which a layer has room when it has to move."""
PART = 4 * 2**20
"""Bytes of output embeddings that are multiplied at a time."""
_CHANGES_SCORES = ("softcap", "s_aux", "position_bias")


class RoomyLayer(DynamicLayer):
    """A layer whose keys and values are views of buffers with room for more tokens and more rows.

    Of its buffers the first `n_rows` rows and the columns from `start` to `stop` are in use. The rows end together.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity, self.n_rows, self.start, self.stop = capacity, 0, 0, 0
        self.buffers: list[Tensor] = []

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Appends tokens to every row."""
        n = key_states.shape[2]
        self._make_room(0, n)
        self.stop += n
        for buffer, new in zip(self.buffers, (key_states, value_states)):
            buffer[: self.n_rows, :, self.stop - n : self.stop] = new
        return self._show()

    def join(self, keys: Float[Tensor, "row head key d"], values: Float[Tensor, "row head key d_value"]) -> None:
        """Appends rows, which end where the others do."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
            self.buffers = [held.new_zeros(self.capacity, held.shape[1], 0, held.shape[3]) for held in (keys, values)]
        more = max(0, keys.shape[2] - (self.stop - self.start))
        self._make_room(more, 0)
        self.start -= more
        rows = slice(self.n_rows, self.n_rows + len(keys))
        for buffer, new in zip(self.buffers, (keys, values)):
            buffer[rows, :, self.start : self.stop - new.shape[2]] = 0  # nobody reads it, but it has to be finite
            buffer[rows, :, self.stop - new.shape[2] : self.stop] = new
        self.n_rows += len(keys)
        self._show()

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keeps these rows. Only those that change places are copied, so `indices[i]` must not be below i."""
        for i, source in enumerate(indices.tolist()):
            if i != source:
                for buffer in self.buffers:
                    buffer[i, :, self.start : self.stop] = buffer[source, :, self.start : self.stop]
        self.n_rows = len(indices)
        self._show()

    def forget(self, n: int) -> None:
        """Drops the first `n` columns, which no row reads any more."""
        self.start += n
        self._show()

    def _make_room(self, before: int, after: int) -> None:
        room = self.buffers[0].shape[2]
        if self.start >= before and self.stop + after <= room:
            return
        width = self.stop - self.start
        for i, old in enumerate(self.buffers):
            buffer = old.new_zeros(*old.shape[:2], before + width + after + ROOM, old.shape[3])
            buffer[: self.n_rows, :, before : before + width] = old[: self.n_rows, :, self.start : self.stop]
            self.buffers[i] = buffer
        self.start, self.stop = before, before + width

    def _show(self) -> tuple[Tensor, Tensor]:
        self.keys, self.values = (buffer[: self.n_rows, :, self.start : self.stop] for buffer in self.buffers)
        return self.keys, self.values


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


@contextmanager
def split_logits(model: PreTrainedModel) -> Iterator[None]:
    """Within, the logits are computed a part of the vocabulary at a time, on a CPU."""
    head = model.get_output_embeddings()
    if type(head) is not torch.nn.Linear or head.bias is not None or head.weight.device.type != "cpu":
        yield
        return
    parts = head.weight.split(max(1, PART // (head.in_features * head.weight.itemsize)))
    head.forward = lambda input: torch.cat([torch.nn.functional.linear(input, part) for part in parts], dim=-1)
    try:
        yield
    finally:
        del head.forward  # of the instance: that of its class is back


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
