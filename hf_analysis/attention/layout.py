"""How do the conditions of one problem share their question? One packed row of tokens per problem.

The tokens that all passages of a problem begin with, the root, stand first and are computed once; the rest of
each passage follows as a branch that sees the root and itself, at the positions it would have on its own.
Models whose attention depends on more than position and visibility (sliding windows shorter than the row,
rotary frequencies that change with length, a recurrence beside it) get one plain row per passage instead.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hf_analysis.attention.intercept import in_registry
from hf_analysis.attention.layers import mixer, text_decoder

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Row:
    """One row of a forward pass: several passages that share their root, or one."""

    ids: tuple[int, ...]
    n_root: int
    branches: tuple[int, ...]  # lengths, in order

    def passage(self, index: int) -> Int[Tensor, "pos"]:
        """Where the tokens of passage `index` stand in the row."""
        start = self.n_root + sum(self.branches[:index])
        return torch.cat([torch.arange(self.n_root), torch.arange(start, start + self.branches[index])])


def packed(passages: Sequence[Sequence[int]]) -> Row:
    """One row with the passages' longest common prefix computed once; no branch is empty."""
    shortest = min(len(passage) for passage in passages)
    n_root = next((i for i in range(shortest) if len({passage[i] for passage in passages}) > 1), shortest)
    n_root = min(n_root, shortest - 1)
    ids = [*passages[0][:n_root], *(token for passage in passages for token in passage[n_root:])]
    return Row(tuple(ids), n_root, tuple(len(passage) - n_root for passage in passages))


def rows_of(passages: Sequence[Sequence[int]], share: bool) -> list[Row]:
    """The rows to compute for one problem: one packed row, or one per passage if nothing can be shared."""
    whole = packed(passages)
    return [whole] if share and whole.n_root > 0 else [packed([passage]) for passage in passages]


@dataclass(frozen=True)
class Batch:
    """Rows padded on the right to one length."""

    ids: Int[Tensor, "row pos"]
    positions: Int[Tensor, "row pos"] | None  # None: 0, 1, 2, ...
    mask: Bool[Tensor, "row 1 pos pos"] | None  # None: causal


def batch(rows: Sequence[Row], pad: int) -> Batch:
    """`rows` as tensors. A real token never sees a pad; what a pad sees means nothing."""
    longest = max(len(row.ids) for row in rows)
    ids = torch.full((len(rows), longest), pad)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = torch.tensor(row.ids)
    if all(len(row.branches) == 1 for row in rows):
        return Batch(ids, None, None)
    owner = torch.full((len(rows), longest), -1)  # 0: root, 1..: branches, -1: pads
    positions = torch.zeros((len(rows), longest), dtype=torch.long)
    for i, row in enumerate(rows):
        owner[i, : row.n_root], positions[i, : row.n_root] = 0, torch.arange(row.n_root)
        start = row.n_root
        for number, length in enumerate(row.branches, start=1):
            owner[i, start : start + length] = number
            positions[i, start : start + length] = torch.arange(row.n_root, row.n_root + length)
            start += length
    same, root = owner[:, :, None] == owner[:, None, :], owner[:, None, :] == 0
    causal = torch.ones(longest, longest).tril().bool()
    mask = ((same | root) & causal)[:, None]
    mask[:, :, :, 0] = True
    return Batch(ids, positions, mask)


def packing(model: "PreTrainedModel", row_length: int) -> tuple[bool, str]:
    """Whether `model` can compute a packed row of that length, and why (not)."""
    if not in_registry(model):
        return False, f"{type(model).__name__} makes its own masks"
    if not _takes_positions(model):
        return False, f"{type(model).__name__} numbers its tokens itself"
    other = mixer(text_decoder(model))
    if other is not None:
        return False, f"{other} carries tokens over beside attention"
    return sharing(model.config.get_text_config(), row_length)


@torch.inference_mode()
def _takes_positions(model: "PreTrainedModel") -> bool:
    """Whether the model reads positions that it is given as those that it counts itself, tried on two tokens.

    Bart's decoder ignores them, and RoBERTa begins its own at 2.
    """
    if model not in _tried:
        network: Any = model.base_model
        taken = "position_ids" in inspect.signature(network.forward).parameters
        if taken:
            ids = torch.zeros((1, 2), dtype=torch.long, device=next(model.get_input_embeddings().parameters()).device)
            own, given = (
                network(input_ids=ids, use_cache=False, **options)[0]
                for options in ({}, {"position_ids": torch.arange(2, device=ids.device)[None]})
            )
            taken = torch.allclose(own, given, rtol=1e-2, atol=1e-2 * float(own.abs().max()))
        _tried[model] = taken
    return _tried[model]


_tried: "WeakKeyDictionary[PreTrainedModel, bool]" = WeakKeyDictionary()


def sharing(config: Any, row_length: int) -> tuple[bool, str]:
    """The same, as far as its text configuration says."""
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    windowed = kinds != {"full_attention"} or (window is not None and getattr(config, "layer_types", None) is None)
    if kinds - {"full_attention", "sliding_attention"}:
        return False, f"layers of type {', '.join(sorted(kinds - {'full_attention', 'sliding_attention'}))}"
    if windowed and (window is None or row_length >= window):
        return False, f"a sliding window of {window} tokens"
    rope = getattr(config, "rope_parameters", None) or {}
    nested = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    types = {part.get("rope_type", "default") for part in nested}
    if types & {"dynamic", "longrope"}:
        return False, "rotary frequencies that depend on the length of the text"
    return True, "the question is computed once for all conditions"
