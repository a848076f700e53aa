"""Which rows are being written, and what do they read? A batch that rows leave and join while the others go on.

Prompts are read a few of similar length at a time, what all of them begin with only once, and equal ones once: so
hardly any work goes into padding. Their keys then join those of the rows being written. This needs layers that keep
every token; a model with others (sliding windows, recurrent states) reads its prompts in one padded batch, keeps its
own cache, and takes new rows when all have left.
"""

import copy
from collections import Counter
from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from hf_analysis.models.decoding import RoomyLayer
from hf_analysis.models.loading import LoadedModel

READ_AT_ONCE = 4
"""Prompts read together: enough for large matrix products, few enough to be of similar length."""
WORTH_SHARING = 8
"""Tokens that all prompts have to begin with for them to be read once: a pass has a price of its own."""


class RunningBatch:
    """The rows being written, each a prompt and the tokens it has gone on with."""

    def __init__(self, model: LoadedModel, capacity: int, prompts: Sequence[Sequence[int]]) -> None:
        """At most `capacity` rows at a time; `prompts` are all that will ever join."""
        self.model, self.capacity = model, capacity
        self.mask = torch.zeros(0, 0, dtype=torch.long, device=model.device)
        self.cache, self._shared = self._own_cache(), self._own_cache()
        self.keeps_all = {type(layer) for layer in self.cache.layers} == {DynamicLayer}
        self._layers = [RoomyLayer(capacity) for _ in self.cache.layers] if self.keeps_all else []
        if self.keeps_all:
            self.cache.layers[:] = self._layers
        placed = "position_ids" in signature(model.model.forward).parameters  # else a gap would count as distance
        self.n_shared = _n_shared(prompts) if self.keeps_all and placed else 0
        if self.n_shared:
            self._read([prompts[0][: self.n_shared]], self._shared, 0)

    @property
    def room(self) -> int:
        """How many rows may join now."""
        return self.capacity - len(self.mask) if self.keeps_all or not len(self.mask) else 0

    def step(self, tokens: Int[Tensor, "row"]) -> Float[Tensor, "row token"]:
        """What follows when every row goes on with its token."""
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(self.mask), 1)], dim=1)
        return self._forward(tokens[:, None], self.mask, self.cache)

    def join(self, prompts: Sequence[Sequence[int]]) -> tuple[list[int], Float[Tensor, "row token"]]:
        """Which of these prompts each new row continues, and what follows it."""
        if not self.keeps_all:
            self.cache = self._own_cache()
            self.mask, logits = self._read(prompts, self.cache, 0)
            return list(range(len(prompts))), logits
        order = sorted(range(len(prompts)), key=lambda i: (-len(prompts[i]), *prompts[i]))
        times = Counter(tuple(prompts[i]) for i in order)  # in this order, too
        found = []
        for start in range(0, len(times), READ_AT_ONCE):
            part = list(times)[start : start + READ_AT_ONCE]
            cache: Any = copy.deepcopy(self._shared)
            cache.batch_repeat_interleave(len(part))
            mask, logits = self._read(part, cache, self.n_shared)
            rows = torch.tensor(
                [i for i, prompt in enumerate(part) for _ in range(times[prompt])], device=mask.device
            )
            if len(rows) > len(part):
                cache.batch_select_indices(rows)
            for layer, read in zip(self._layers, cache.layers):
                layer.join(read.keys, read.values)
            width = max(self.mask.shape[1], mask.shape[1])
            self.mask = torch.cat([_widened(self.mask, width), _widened(mask[rows], width)])
            found.append(logits[rows])
        return order, torch.cat(found)

    def keep(self, rows: Sequence[int]) -> None:
        """The batch is these rows from now on; `rows[i]` is at least i."""
        where = torch.tensor(rows, dtype=torch.long, device=self.mask.device)
        self.mask = self.mask[where]
        self.cache.batch_select_indices(where)
        if self.keeps_all:
            unread = int(self.mask.any(0).long().argmax()) if rows else self.mask.shape[1]
            self.mask = self.mask[:, unread:]
            for layer in self._layers:
                layer.forget(unread)

    def _own_cache(self) -> DynamicCache:
        return DynamicCache(config=self.model.model.config)

    def _read(
        self, prompts: Sequence[Sequence[int]], cache: DynamicCache, n_read: int
    ) -> tuple[Int[Tensor, "row key"], Float[Tensor, "row token"]]:
        """Which columns belong to each prompt, and what follows it; the cache holds its first `n_read` tokens."""
        longest = max(map(len, prompts))
        gaps = [longest - len(prompt) for prompt in prompts]
        ids = [[self.model.pad] * gap + list(prompt[n_read:]) for gap, prompt in zip(gaps, prompts)]
        mask = [[1] * n_read + [0] * gap + [1] * (longest - gap - n_read) for gap in gaps]
        visible = torch.tensor(mask, device=self.model.device)
        return visible, self._forward(torch.tensor(ids, device=self.model.device), visible, cache)

    def _forward(
        self, ids: Int[Tensor, "row pos"], mask: Int[Tensor, "row key"], cache: DynamicCache
    ) -> Float[Tensor, "row token"]:
        network: Any = self.model.model
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        return network(**inputs, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]


def _n_shared(prompts: Sequence[Sequence[int]]) -> int:
    """With how many tokens all prompts begin, so that at least one is left of each; 0 if it is not worth a pass."""
    if len(prompts) < 2:
        return 0
    most = min(map(len, prompts)) - 1
    n = next((i for i in range(most) if len({prompt[i] for prompt in prompts}) > 1), most)
    return n if n >= WORTH_SHARING else 0


def _widened(mask: Int[Tensor, "row key"], width: int) -> Int[Tensor, "row width"]:
    return torch.nn.functional.pad(mask, (width - mask.shape[1], 0))
