"""What does a model write? Generation batched over prompts: greedy or sampled, with a cache, until a row is done.

A row that is done leaves the batch, and the next prompt takes its place. Every row draws from a stream of its own, so
a text depends on its prompt and its stream, not on the rows beside it, but for rounding: the shape of a batch decides
the last digits of the logits, so two tokens whose logits agree to rounding may change places (a tie: greedy decoding
has no reason to take one or the other). The same prompts in the same order give the same tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hf_analysis.models.loading import LoadedModel

CHAT_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>")
"""Special tokens that end a turn, which not every generation config names."""


BATCH = 16
"""Texts written at once. Part of what decides their tokens where two logits are equal to rounding, so it is fixed."""


@dataclass(frozen=True)
class Decoding:
    """How tokens are chosen, and how many at most."""

    temperature: float = 0.0
    """0: the most likely token, always."""
    top_p: float = 1.0
    """Sample from the most likely tokens that have this probability together."""
    samples: int = 1
    """Texts for each prompt."""
    max_new_tokens: int = 256

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"--temperature {self.temperature:g}: need 0 (greedy) or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"--top-p {self.top_p:g}: need more than 0 and at most 1")
        if self.samples < 1 or self.max_new_tokens < 1:
            raise ValueError(
                f"--samples {self.samples} --max-new-tokens {self.max_new_tokens}: need at least 1 of each"
            )
        if self.temperature == 0 and (self.samples > 1 or self.top_p < 1):
            raise ValueError(
                f"--samples {self.samples} --top-p {self.top_p:g}: greedy texts are alike; set --temperature above 0"
            )


@dataclass(frozen=True)
class Continuation:
    """What a model wrote after one prompt, without the token that ends it."""

    tokens: tuple[int, ...]
    complete: bool
    """False: it was cut off at the limit of tokens."""


@dataclass
class _Row:
    place: int
    limit: int
    tokens: list[int] = field(default_factory=list)


def end_tokens(model: LoadedModel) -> frozenset[int]:
    """The tokens after which a text, or a turn of a chat, is over."""
    tokenizer: Any = model.tokenizer
    ends = getattr(model.model.generation_config, "eos_token_id", None)
    known = [*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id]
    added = tokenizer.get_added_vocab()
    return frozenset([*(end for end in known if isinstance(end, int)), *(added[n] for n in CHAT_ENDS if n in added)])


@torch.inference_mode()
def continuations(
    model: LoadedModel,
    prompts: Sequence[Sequence[int]],
    decoding: Decoding | None = None,
    streams: Sequence[torch.Generator] | None = None,
    is_done: Callable[[int, list[int]], bool] = lambda place, tokens: False,
    ends: frozenset[int] | None = None,
    batch: int = BATCH,
) -> list[Continuation]:
    """What the model writes after each prompt, `batch` at a time; with a temperature, row i draws from `streams[i]`.

    A row ends at one of `ends` (default: `end_tokens`), when `is_done(place, tokens)`, at `max_new_tokens`, or where
    the model's context ends.
    """
    from hf_analysis.models.decoding import grouped_attention, split_logits
    from hf_analysis.models.running import RunningBatch

    decoding = decoding or Decoding()
    if decoding.temperature and (streams is None or len(streams) != len(prompts)):
        raise ValueError(f"sampling {len(prompts)} texts needs as many streams, got {len(streams or ())}")
    waiting = [_Row(i, _room(model, len(prompt), decoding.max_new_tokens)) for i, prompt in enumerate(prompts)]
    found: dict[int, Continuation] = {}
    ends = end_tokens(model) if ends is None else ends
    rows: list[_Row] = []
    with grouped_attention(model.model), split_logits(model.model):
        running = RunningBatch(model, batch, prompts)
        while rows or waiting:
            logits = (
                [running.step(torch.tensor([row.tokens[-1] for row in rows], device=model.device))] if rows else []
            )
            joining, waiting = waiting[: running.room], waiting[running.room :]
            if joining:
                order, first = running.join([prompts[row.place] for row in joining])
                rows += [joining[i] for i in order]
                logits.append(first)
            own = None if streams is None else [streams[row.place] for row in rows]
            for row, token in zip(rows, _chosen(torch.cat(logits), decoding, own).tolist()):
                ended = token in ends
                if not ended:
                    row.tokens.append(token)
                    ended = is_done(row.place, row.tokens)
                if ended or len(row.tokens) >= row.limit:
                    found[row.place] = Continuation(tuple(row.tokens), ended)
            kept = _closed_up([row.place not in found for row in rows])
            if len(kept) < len(rows):
                rows = [rows[i] for i in kept]
                running.keep(kept)
    return [found[place] for place in range(len(prompts))]


def _closed_up(stays: Sequence[bool]) -> list[int]:
    """The rows that stay, the last of them in the places of those that leave: so few have to move."""
    kept = [i for i, stay in enumerate(stays) if stay]
    late = [i for i in kept if i >= len(kept)]
    return [i if stays[i] else late.pop() for i in range(len(kept))]


def _room(model: LoadedModel, n_prompt: int, limit: int) -> int:
    """How many tokens may be written after a prompt."""
    room = limit if model.max_tokens is None else min(limit, model.max_tokens - n_prompt)
    if n_prompt == 0 or room < 1:
        raise ValueError(
            f"a prompt of {n_prompt} tokens leaves no room to write in; {model.name} takes 1 to {model.max_tokens}"
        )
    return room


def _chosen(
    logits: Float[Tensor, "row token"], decoding: Decoding, streams: Sequence[torch.Generator] | None
) -> Int[Tensor, "row"]:
    """The next token of every row."""
    if not decoding.temperature or streams is None:
        return logits.argmax(-1)
    drawn = [
        sampled(row, decoding.temperature, decoding.top_p, stream)
        for row, stream in zip(logits.float().cpu(), streams)
    ]
    return torch.stack(drawn).to(logits.device)


def sampled(
    logits: Float[Tensor, "token"], temperature: float, top_p: float, stream: torch.Generator
) -> Int[Tensor, ""]:
    """A token with probability softmax(logits / temperature) among the likeliest of total `top_p`; one draw."""
    probability, order = (logits.double() / temperature).softmax(-1).sort(descending=True, stable=True)
    total = probability.cumsum(-1)
    n_kept = int((total - probability < top_p).sum())  # the first is always kept
    draw = torch.rand((), generator=stream, dtype=torch.float64) * total[n_kept - 1]
    return order[min(int(torch.searchsorted(total[:n_kept], draw, right=True)), n_kept - 1)]
