"""How probable is an ending after each of many beginnings of one text? Log-probability, and whether greedy writes it.

The beginnings of one text share it: the text is a trunk, and after each beginning a copy of the ending branches off,
at its own positions, seeing that beginning and itself. All of them are one forward pass. Beginnings that are other
texts, and models that cannot compute a packed row (`hf_analysis.attention.layout.packing`), get a row each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hf_analysis.attention.layout import packing
from hf_analysis.models.loading import LoadedModel
from hf_analysis.models.logits import output_head

ROW_TOKENS = 2048
"""Tokens of rows that are computed at once."""


@dataclass(frozen=True)
class Ending:
    """Tokens that close a text; the last `n_targets` of them are what is asked for."""

    ids: tuple[int, ...]
    n_targets: int


@dataclass(frozen=True)
class EndingScores:
    """Of each beginning: nats of all targets together, and whether each of them is the most likely token."""

    log_prob: Float[Tensor, "beginning"]
    greedy: Bool[Tensor, "beginning"]


def ending_of(model: LoadedModel, separator: str, before: str, asked: str) -> Ending:
    """The tokens of `separator`, `before` and `asked`; those with a character of `asked` are the targets."""
    text = f"{separator}{before}{asked}"
    encoded = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    first = len(separator) + len(before)
    targets = [i for i, (_, end) in enumerate(encoded["offset_mapping"]) if end > first]
    ids = tuple(encoded["input_ids"])
    if not targets or targets != list(range(targets[0], len(ids))) or targets[0] == 0:
        raise ValueError(f"{model.name} reads {text!r} as tokens that cannot be divided before {asked!r}")
    return Ending(ids, len(targets))


def after_beginnings(
    model: LoadedModel, trunk: Sequence[int], lengths: Sequence[int], ending: Ending
) -> EndingScores:
    """The scores of `ending` after the first n tokens of `trunk`, for each n of `lengths`."""
    n, branch = max(lengths), len(ending.ids)
    row = [*trunk[:n], *ending.ids * len(lengths)]
    if not packing(model.model, len(row))[0]:
        return after_texts(model, [trunk[:length] for length in lengths], ending)
    _check_length(model, n + branch)
    positions, mask = _comb(n, lengths, branch)
    targets = torch.tensor([n + i * branch + j for i in range(len(lengths)) for j in _target_places(ending)])
    network: Any = model.model.base_model
    with torch.inference_mode():
        states = network(
            input_ids=torch.tensor([row], device=model.device),
            position_ids=positions[None].to(model.device),
            attention_mask=mask[None, None].to(model.device),
            use_cache=False,
        ).last_hidden_state[0]
        return _scores(model, states[(targets - 1).to(states.device)], ending)


def after_texts(model: LoadedModel, beginnings: Sequence[Sequence[int]], ending: Ending) -> EndingScores:
    """The scores of `ending` after each of `beginnings`, a few rows at a time, padded on the right."""
    texts = [[*beginning, *ending.ids] for beginning in beginnings]
    _check_length(model, max(map(len, texts)))
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    kept: list[Tensor] = [torch.empty(0)] * len(texts)
    network: Any = model.model.base_model
    with torch.inference_mode():
        while order:
            size = max(1, ROW_TOKENS // len(texts[order[-1]]))
            part, order = order[-size:], order[:-size]
            longest = len(texts[part[-1]])
            ids = torch.tensor(
                [texts[i] + [model.pad] * (longest - len(texts[i])) for i in part], device=model.device
            )
            states = network(input_ids=ids, use_cache=False).last_hidden_state
            for row, i in enumerate(part):
                start = len(texts[i]) - ending.n_targets
                kept[i] = states[row, start - 1 : len(texts[i]) - 1].clone()
        return _scores(model, torch.cat(kept), ending)


def _comb(n: int, lengths: Sequence[int], branch: int) -> tuple[Int[Tensor, "pos"], Bool[Tensor, "pos pos"]]:
    """Positions and visibility of a trunk of `n` tokens and a branch of `branch` tokens behind each length."""
    total = n + len(lengths) * branch
    positions, mask = torch.arange(total), torch.zeros(total, total, dtype=torch.bool)
    mask[:n, :n] = torch.ones(n, n, dtype=torch.bool).tril()
    own = torch.ones(branch, branch, dtype=torch.bool).tril()
    for i, length in enumerate(lengths):
        here = slice(n + i * branch, n + (i + 1) * branch)
        positions[here] = torch.arange(length, length + branch)
        mask[here, :length] = True
        mask[here, here] = own
    return positions, mask


def _target_places(ending: Ending) -> range:
    return range(len(ending.ids) - ending.n_targets, len(ending.ids))


def _scores(model: LoadedModel, states: Float[Tensor, "place d_model"], ending: Ending) -> EndingScores:
    """`states` are those before each target of each beginning, in order."""
    logits = output_head(model)(states).cpu().double()
    asked = torch.tensor(ending.ids[len(ending.ids) - ending.n_targets :])
    wanted = asked.repeat(len(logits) // len(asked))
    nats = logits.log_softmax(-1).gather(-1, wanted[:, None]).view(-1, len(asked))
    return EndingScores(nats.sum(-1), (logits.argmax(-1) == wanted).view(-1, len(asked)).all(-1))


def _check_length(model: LoadedModel, n: int) -> None:
    if model.max_tokens is not None and n > model.max_tokens:
        raise ValueError(
            f"a trace with its closing sentence has {n} tokens, but {model.name} takes at most {model.max_tokens}; "
            "leave it out or use a model with a longer context"
        )


def log_odds(log_prob: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """log p / (1 - p) from log p, in nats; finite for p up to 1 - 1e-12."""
    bounded = log_prob.double().clamp(max=-1e-12)
    return bounded - torch.log(-torch.expm1(bounded))
