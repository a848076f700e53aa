"""How is attention followed in a model that computes it by itself? By what is done to its scores.

Older modules (Bloom, Falcon, MPT, GPT-J, GPT-Neo, CodeGen; code from the hub) multiply queries and keys themselves,
then scale, bias and mask the scores, take their softmax and multiply it with the values. Within `following`, the
first product is not computed: a stand-in keeps account of what is done to it (`hf_analysis.attention.scores`). When
its softmax meets the values, the whole is one attention call, with the module's own bias, mask and scale, and no
pattern is ever in memory.

Where something is done that nobody can account for, the scores are computed after all and the model goes on by
itself; its layer then counts as one that did not attend (`hf_analysis.attention.layers`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from hf_analysis.attention.account import Account, Attend, Followed
from hf_analysis.attention.layers import Watch
from hf_analysis.attention.scores import Scores


class following(TorchFunctionMode):
    """Within, what the running layer of `watch` computes as attention goes to `attend`."""

    def __init__(self, watch: Watch, attend: Attend) -> None:
        super().__init__()
        self.watch, self.attend = watch, attend

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        options, name = kwargs or {}, getattr(func, "__name__", "")
        if Scores in types:
            return Scores.__torch_function__(func, types, args, options)
        found = None
        if self.watch.running is not None:
            if name in ("matmul", "__matmul__", "bmm"):
                found = self._begun(func, args, options) if len(args) == 2 else None
            elif name == "baddbmm":
                found = self._begun_with_bias(func, args, options)
            elif name == "scaled_dot_product_attention":
                found = self._fused(*args, **options)
        return func(*args, **options) if found is None else found

    def _begun(self, func: Callable, args: tuple, options: dict[str, Any]) -> Scores | None:
        """The product of queries and keys, if it may be one."""
        left, right = args
        n_batch, n_queries = self.watch.text
        fitting = left.ndim == right.ndim and left.ndim in (3, 4) and left.is_floating_point() and n_batch > 0
        if not fitting or any(isinstance(one, nn.Parameter) for one in args):
            return None
        if left.shape[-2] != n_queries or right.shape[-1] < n_queries or left.shape[0] % n_batch:
            return None
        query, key = left, right.transpose(-1, -2)
        if left.ndim == 3:
            query, key = query.unflatten(0, (n_batch, -1)), key.unflatten(0, (n_batch, -1))
        like = func(left.to("meta"), right.to("meta"))
        return Scores(Account(query, key, self.attend), like, partial(func, *args, **options))

    def _begun_with_bias(self, func: Callable, args: tuple, options: dict[str, Any]) -> Scores | None:
        given = {**dict(zip(("input", "batch1", "batch2"), args)), **options}
        begun = self._begun(torch.bmm, (given["batch1"], given["batch2"]), {})
        if begun is None or begun.account is None:
            return None
        account = begun.account.times(given.get("alpha", 1)).plus(
            begun.as_four(given["input"] * given.get("beta", 1))
        )
        return Scores(account, begun.like, partial(func, *args, **options))

    def _fused(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        **options: Any,
    ) -> Tensor | None:
        """Attention that the module leaves to torch."""
        if query.ndim != 4 or any(options.values()) or (is_causal and query.shape[2] != key.shape[2]):
            return None
        n_heads = query.shape[1]
        if attn_mask is None and not is_causal:
            everything = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=query.device)
            attn_mask = everything.expand(-1, -1, query.shape[2], key.shape[2])
        key, value = key.expand(-1, n_heads, -1, -1), value.expand(-1, n_heads, -1, -1)
        return self.attend(Followed(query, key, value, scale, attn_mask, None)).transpose(1, 2)
