"""Which keys does a query see? From a mask as a model makes it, boolean or added to the scores."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def split_mask(
    attention_mask: Tensor | None, bias: Tensor | None, n_keys: int
) -> tuple[Bool[Tensor, "batch 1 query key"] | None, Tensor | None]:
    """Which keys are seen, and what is added to their scores; an additive mask may say both."""
    if attention_mask is None:
        return None, bias
    attention_mask = attention_mask[..., :n_keys]
    if attention_mask.dtype == torch.bool:
        return _of_all_heads(attention_mask), bias
    visible = attention_mask > torch.finfo(attention_mask.dtype).min / 2
    added = attention_mask.masked_fill(~visible, 0)
    visible = _of_all_heads(visible)
    if bool(added.any()):
        bias = added if bias is None else bias + added
    return visible, bias


def _of_all_heads(visible: Bool[Tensor, "#batch #head query key"]) -> Bool[Tensor, "#batch 1 query key"]:
    if not bool((visible == visible[:, :1]).all()):
        raise ValueError("an attention mask that differs between heads cannot be measured")
    return visible[:, :1]


def require_causal(mask: Tensor | None, who: str) -> None:
    """A ValueError if a mask shows a query a key that comes later; the last query is that of the last key."""
    if mask is None:
        return
    if mask.dtype != torch.bool:
        mask = mask > torch.finfo(mask.dtype).min / 2
    n_queries, n_keys = mask.shape[-2:]
    later = torch.ones(n_queries, n_keys, dtype=torch.bool, device=mask.device).triu(n_keys - n_queries + 1)
    if bool((mask & later).any()):
        raise ValueError(f"{who} attends to later tokens too; only decoders are measured")


def require_boolean(mask: Tensor | None, ids: Int[Tensor, "batch query"]) -> None:
    """A ValueError unless a mask given for the texts `ids` is boolean [batch 1 query key].

    A model adds any other mask to its scores: of ones and zeros, it would hide nothing.
    """
    n_texts, n_tokens = ids.shape
    shape = (n_texts, 1, n_tokens, n_tokens)
    if mask is not None and (mask.dtype != torch.bool or mask.shape != shape):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} and type {mask.dtype}; expected booleans of shape {shape}, True "
            "where a query sees a key: mask.bool(), expanded to all texts"
        )
