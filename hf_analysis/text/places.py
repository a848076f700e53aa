"""Where does each token stand in the text? In characters, as the fast tokenizer tells."""

from collections.abc import Sequence

from hf_analysis.models.loading import LoadedModel

Places = Sequence[tuple[int, int]]
"""For each token its first character, and the one behind its last."""


def token_places(model: LoadedModel, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Where each of `ids`, the tokens of `text`, stands in it."""
    if not model.tokenizer.is_fast:
        raise ValueError(f"{model.name} has a slow tokenizer, which does not say where its tokens stand in the text")
    encoded = model.tokenizer(text, add_special_tokens=True, return_offsets_mapping=True)
    if list(encoded["input_ids"])[: len(ids)] != list(ids):
        raise ValueError(f"{model.name} reads the same text as different tokens; its numbers cannot be found")
    return [(int(a), int(b)) for a, b in encoded["offset_mapping"]][: len(ids)]


def overlapping(places: Places, start: int, end: int) -> tuple[int, ...]:
    """The tokens with any character in [start, end)."""
    return tuple(i for i, (a, b) in enumerate(places) if a < end and b > start)
