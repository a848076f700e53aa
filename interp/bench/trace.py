"""What does it cost to read a trace sentence by sentence? Against the bare forward pass, and against a pass for each
sentence.

attention     the matrices of all heads between the sentences of a text (`hf_analysis.traces.attention`), beside the
              bare forward pass and transformers' eager attention averaged over the same sentences
suppression   the divergences of all later tokens with each sentence hidden (`hf_analysis.traces.suppression`), beside
              one full forward pass with a 4-D mask for each sentence

All in one process, in turns; seconds by the clock, and of the processor, which other work disturbs less.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hf_analysis.models.loading import LoadedModel, load_model
from hf_analysis.models.logits import kl_divergence
from hf_analysis.traces.attention import segmented_attention
from hf_analysis.traces.suppression import Hidden, suppressed_kl
from hf_analysis.traces.tokens import Unit
from interp.bench.timing import bare, first_pass, ratio, with_threads

LENGTHS, SHORT = (1024, 2048, 8192), (1024,)
EAGER_UP_TO = 2048  # beyond, eager patterns alone need tens of gigabytes
SENTENCE = 24
"""Tokens of a sentence."""
ATTENTION_BAR, MEMORY_BAR = 1.35, 1.10
"""Most times the bare forward's time and peak memory."""
SUPPRESSION_BAR = 1.8
"""Least times faster than a full forward pass for each sentence."""


def run(
    loaded: LoadedModel | None = None,
    lengths: Sequence[int] = LENGTHS,
    suppressed: int = 512,
    repeats: int = 3,
    threads: int = 2,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """A record for each length and contender, then one of suppression in a text of `suppressed` tokens."""
    with with_threads(threads):
        model = loaded or load_model("builtin", device="cpu", dtype="float32")
        generator = torch.Generator().manual_seed(seed)
        words = model.model.config.get_text_config().vocab_size
        for length in lengths:
            ids = torch.randint(words, (1, length), generator=generator)
            yield from _attention(model, ids, repeats if length <= EAGER_UP_TO else 1)
        yield _suppression(model, torch.randint(words, (1, suppressed), generator=generator), max(1, repeats - 1))


def sentences(length: int) -> list[Unit]:
    """A question of four sentences' length, then sentences."""
    starts = list(range(4 * SENTENCE, length, SENTENCE))
    bounds = pairwise([*starts, length])
    return [Unit("question", "", 0, starts[0]), *(Unit("reasoning", "", a, b) for a, b in bounds)]


def ours(model: LoadedModel) -> Callable[[Tensor], Float[Tensor, "layer head unit unit"]]:
    """The mean attention between sentences by `segmented_attention`."""
    return lambda ids: segmented_attention(model, ids[0].tolist(), [sentences(ids.shape[1])])[0].mean


def eager(model: LoadedModel) -> Callable[[Tensor], Float[Tensor, "layer head unit unit"]]:
    """The same by averaging transformers' eager patterns."""

    @torch.inference_mode()
    def averaged(ids: Tensor) -> Tensor:
        before = model.model.config._attn_implementation or "sdpa"
        model.model.set_attn_implementation("eager")
        try:
            patterns = model.model.base_model(input_ids=ids, use_cache=False, output_attentions=True).attentions
        finally:
            model.model.set_attn_implementation(before)
        units = sentences(ids.shape[1])
        member = torch.stack(
            [torch.arange(ids.shape[1]).ge(u.start) & torch.arange(ids.shape[1]).lt(u.end) for u in units]
        )
        weights = (member / member.sum(-1, keepdim=True)).to(patterns[0])
        return torch.stack([weights @ pattern[0] @ weights.T for pattern in patterns])

    return averaged


def _attention(model: LoadedModel, ids: Tensor, repeats: int) -> list[dict[str, Any]]:
    contenders: dict[str, Callable[[Tensor], Any]] = {"bare": bare(model), "cotlens": ours(model)}
    if ids.shape[1] <= EAGER_UP_TO:
        contenders["eager"] = eager(model)
    peaks = {name: first_pass(contender, ids)[1] for name, contender in contenders.items()}
    clock, processor = _turns({name: lambda one=one: one(ids) for name, one in contenders.items()}, repeats)
    return [_record(name, ids.shape[1], clock, processor, peaks) for name in contenders]


def _record(
    name: str,
    length: int,
    clock: dict[str, list[float]],
    processor: dict[str, list[float]],
    peaks: dict[str, int | None],
) -> dict[str, Any]:
    peak, bare_peak = peaks[name], peaks["bare"]
    found: dict[str, Any] = {
        "bench": "trace attention",
        "contender": name,
        "tokens": length,
        "seconds": statistics.median(clock[name]),
        "over_bare": ratio(clock[name], clock["bare"]),
        "cpu_over_bare": ratio(processor[name], processor["bare"]),
        "peak_over_bare": None if peak is None or bare_peak is None else peak / bare_peak,
    }
    if name == "cotlens":
        memory = found["peak_over_bare"]
        found["meets_time_bar"] = found["over_bare"] <= ATTENTION_BAR
        found["meets_memory_bar"] = None if memory is None else memory <= MEMORY_BAR
    return found


def _suppression(model: LoadedModel, ids: Tensor, repeats: int) -> dict[str, Any]:
    units = sentences(ids.shape[1])[1:-1]
    spans = [Hidden(unit.start, unit.end) for unit in units]
    found: dict[str, Tensor] = {}

    def together() -> None:
        found["together"] = suppressed_kl(model, ids[0].tolist(), spans)

    def alone() -> None:
        found["alone"] = full_passes(model, ids, spans)

    clock, processor = _turns({"together": together, "alone": alone}, repeats)
    speed = ratio(clock["alone"], clock["together"])
    return {
        "bench": "trace suppression",
        "tokens": ids.shape[1],
        "sentences": len(spans),
        "seconds": {name: statistics.median(turns) for name, turns in clock.items()},
        "ratio": speed,
        "cpu_ratio": ratio(processor["alone"], processor["together"]),
        "largest_difference": float((found["together"] - found["alone"]).abs().max()),
        "bar": SUPPRESSION_BAR,
        "reached": speed >= SUPPRESSION_BAR,
    }


@torch.inference_mode()
def full_passes(model: LoadedModel, ids: Tensor, spans: Sequence[Hidden]) -> Float[Tensor, "span pos"]:
    """The divergences by one pass of the whole text for each span, with a 4-D mask of transformers."""
    n = ids.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    intact = model.model(input_ids=ids, use_cache=False).logits[0, :-1].float()
    found = torch.zeros(len(spans), n)
    for i, span in enumerate(spans):
        mask = causal.clone()
        mask[span.end :, span.start : span.end] = False
        changed = model.model(input_ids=ids, attention_mask=mask[None, None], use_cache=False).logits[0, :-1]
        found[i, span.end + 1 :] = kl_divergence(intact[span.end :], changed[span.end :].float().clone())
    return found


def _turns(
    contenders: dict[str, Callable[[], Any]], repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of each contender in each turn, by the clock and of the processor."""
    clock: dict[str, list[float]] = {name: [] for name in contenders}
    processor: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            start, used = time.perf_counter(), time.process_time()
            contender()
            clock[name].append(time.perf_counter() - start)
            processor[name].append(time.process_time() - used)
    return clock, processor
