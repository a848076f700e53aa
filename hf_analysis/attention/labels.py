"""Which token is it? From what a tokenizer gives to a batch of ids, and from a batch's numbers to a tidy table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from hf_analysis.models.loading import LoadedTokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TokenIds = Tensor | Sequence[int] | Sequence[Sequence[int]]
"""One text, or several of the same number of tokens."""
Texts = str | Sequence[str]
"""One text, or several, as a tokenizer reads them."""


def encoded(texts: TokenIds | Texts, tokenizer: "PreTrainedTokenizerBase | None") -> TokenIds:
    """The token ids of a text, or of several, as `cotlens entropy` reads them; ids stay as they are."""
    several = isinstance(texts, (list, tuple)) and len(texts) > 0 and all(isinstance(text, str) for text in texts)
    if not several and not isinstance(texts, str):
        return cast(TokenIds, texts)
    if tokenizer is None:
        raise ValueError(
            "a text arrived and no tokenizer: give tokenizer=, a model of load_model, or tokenizer(text).input_ids"
        )
    encode = LoadedTokenizer(tokenizer.name_or_path, tokenizer).encode
    return encode(texts) if isinstance(texts, str) else [encode(text) for text in cast(Sequence[str], texts)]


def as_batch(input_ids: TokenIds) -> Int[Tensor, "batch query"]:
    """`input_ids` as a tensor of texts."""
    if not isinstance(input_ids, Tensor):
        if isinstance(input_ids, str) or not isinstance(input_ids, Sequence):
            raise ValueError(
                f"token ids arrived as {type(input_ids).__name__}; expected integers: tokenizer(text).input_ids"
            )
        lengths = {len(text) for text in input_ids if isinstance(text, Sequence)}
        if len(lengths) > 1:
            raise ValueError(
                f"texts of {min(lengths)} to {max(lengths)} tokens; pad them on the right or record one at a time"
            )
        input_ids = torch.tensor(input_ids)
    ids = input_ids[None] if input_ids.ndim == 1 else input_ids
    if ids.ndim != 2 or ids.numel() == 0 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise ValueError(
            f"token ids of shape {tuple(input_ids.shape)} and type {input_ids.dtype}; expected integers [pos] or "
            "[batch pos], at least one"
        )
    return ids


def require_known(ids: Int[Tensor, "batch query"], n_known: int | None) -> None:
    """A ValueError if a token is none of the model's, as those of another model's tokenizer may be."""
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or (n_known is not None and high >= n_known):
        known = "0 or more" if n_known is None else f"0 to {n_known - 1}"
        raise ValueError(
            f"token id {low if low < 0 else high}: the model's are {known}; is the tokenizer another model's?"
        )


def token_labels(
    ids: Int[Tensor, "batch query"], tokens: Sequence[Any] | None, tokenizer: "PreTrainedTokenizerBase | None"
) -> tuple[tuple[str, ...], ...] | None:
    """What every token is called: `tokens` as they are given, one text or several, or decoded one by one."""
    if tokens is None:
        if tokenizer is None:
            return None
        decode = {
            i: str(tokenizer.decode([i], clean_up_tokenization_spaces=False)) for i in set(ids.flatten().tolist())
        }
        return tuple(tuple(decode[i] for i in text) for text in ids.tolist())
    texts = [tokens] if all(isinstance(token, str) for token in tokens) else tokens
    if [len(text) for text in texts] != [ids.shape[1]] * len(ids):
        raise ValueError(
            f"labels for {[len(text) for text in texts]} tokens, but there are {len(ids)} texts of {ids.shape[1]} "
            "tokens; give one label for each token"
        )
    return tuple(tuple(text) for text in texts)


def tidy(
    values: Mapping[str, Float[Tensor, "layer batch head query"]],
    layers: Sequence[int],
    tokens: tuple[tuple[str, ...], ...] | None,
) -> pd.DataFrame:
    """One line for each text, layer (by the model's own number), head and position; `token` is empty if not known."""
    n_layers, n_texts, n_heads, n_tokens = next(iter(values.values())).shape
    text, layer, head, position = np.indices((n_texts, n_layers, n_heads, n_tokens)).reshape(4, -1)
    names = np.full((n_texts, n_tokens), None) if tokens is None else np.array(tokens, dtype=object)
    columns = {name: found.transpose(0, 1).double().numpy().reshape(-1) for name, found in values.items()}
    return pd.DataFrame(
        {
            "text": text,
            "layer": np.array(layers)[layer],
            "head": head,
            "position": position,
            "token": names[text, position],
            **columns,
        }
    )
