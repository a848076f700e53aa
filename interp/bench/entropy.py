"""What does exact attention entropy cost? Side by side with the bare forward pass and with the usual ways.

Contenders, all on the same model, text and threads, interleaved round by round. Ratios are medians over the
rounds of the ratio within a round, which a busy machine disturbs less than the ratio of two medians:
bare            the model's SDPA forward pass, which measures nothing
cotlens         every statistic of every row (`hf_analysis.record`); ends behind the last attention, so without the
                last MLP
eager           transformers' eager attention with `output_attentions`, reduced to entropies
transformerlens `run_with_cache` restricted to attention patterns, reduced to entropies

Nobody computes logits but TransformerLens, which always does. All but the first also reduce to each head's
minimum, [layer, head]. Memory is the peak during a first pass: the process's resident size, or what is allocated on
a GPU. The usual ways take several times as long as the rest, so they have fewer rounds; of the longest text the first
pass is the only one.
"""

import copy
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hf_analysis.attention.recorder import record
from hf_analysis.models.loading import LoadedModel, load_model
from interp.bench import roofline
from interp.bench.timing import Contender, bare, first_pass, ratio, rounds, with_threads
from probes.attention.entropy import causal_visible, minimum, normalised_entropy, row_entropy
from probes.attention.statistics import load_statistics

BARS = {  # T: (most times the bare forward, least times faster than eager)
    256: (1.15, 1.05),
    1024: (1.20, 2.5),
    2048: (1.20, 4.0),
}
MEMORY_BAR = 1.10  # most times the bare forward's peak
SLOW_PEERS_UP_TO = 2048  # beyond, eager patterns alone need tens of gigabytes
PEER_TOKENS = 2048  # the usual ways have as many rounds as fit into so many tokens, at least one
LENGTHS, SHORT = (256, 1024, 2048, 8192), (256, 1024)


def run(
    model: str = "builtin",
    lengths: Sequence[int] = LENGTHS,
    repeats: int = 5,
    threads: int = 2,
    seed: int = 0,
    device: str = "cpu",
) -> Iterator[dict[str, Any]]:
    """One record per length and contender: seconds, ratios, peak memory, and on a CPU whether the bars are met.

    Then attention alone, beside what the device can do (`interp.bench.roofline`).
    """
    with with_threads(threads):
        loaded = load_model(model, device=device, dtype="float32" if device == "cpu" else "auto")
        generator = torch.Generator().manual_seed(seed)
        ours: dict[str, Contender] = {"bare": bare(loaded), "cotlens": _cotlens(loaded)}
        peers: dict[str, Contender] = {"eager": _eager(loaded), "transformerlens": _transformerlens(loaded)}
        for contender in (ours | peers).values():  # what a first call allocates for good is no part of the comparison
            contender(torch.zeros(1, min(lengths), dtype=torch.long, device=loaded.device))
        for length in lengths:
            ids = torch.randint(loaded.model.config.vocab_size, (1, length), generator=generator)
            yield from _one_length(ours, peers, ids.to(loaded.device), repeats)
        yield from roofline.run(roofline.Heads.of(loaded), loaded.device, loaded.model.dtype, lengths)


def _one_length(
    ours: dict[str, Contender], peers: dict[str, Contender], ids: Tensor, repeats: int
) -> list[dict[str, Any]]:
    length = ids.shape[1]
    long = length > SLOW_PEERS_UP_TO
    compared = ours if long else ours | peers
    passes = {name: first_pass(contender, ids) for name, contender in compared.items()}
    peaks = {name: peak for name, (_, peak) in passes.items()}
    n_rounds = {name: repeats if name in ours else min(repeats, max(1, PEER_TOKENS // length)) for name in compared}
    times = {name: [seconds] for name, (seconds, _) in passes.items()} if long else rounds(compared, ids, n_rounds)
    barred = ids.device.type == "cpu"
    return [_record(name, length, times, peaks, barred) for name in compared]


def _record(
    name: str, length: int, times: dict[str, list[float]], peaks: dict[str, int | None], barred: bool
) -> dict[str, Any]:
    peak, bare_peak = peaks[name], peaks["bare"]
    result: dict[str, Any] = {
        "bench": "entropy",
        "contender": name,
        "tokens": length,
        "seconds": statistics.median(times[name]),
        "over_bare": ratio(times[name], times["bare"]),
        "eager_over_this": ratio(times["eager"], times[name]) if "eager" in times else None,
        "peak_bytes": peak,
        "peak_over_bare": None if peak is None or bare_peak is None else peak / bare_peak,
    }
    if name == "cotlens" and barred:
        most, least = BARS.get(length, (None, None))
        result["meets_time_bar"] = None if most is None else result["over_bare"] <= most
        result["meets_eager_bar"] = None if least is None else result["eager_over_this"] >= least
        memory = result["peak_over_bare"]
        result["meets_memory_bar"] = None if memory is None else memory <= MEMORY_BAR
    return result


def _cotlens(loaded: LoadedModel) -> Contender:
    everything = tuple(load_statistics())
    return lambda ids: minimum(record(loaded.model, ids, statistics=everything)["normalised_entropy"][:, 0])


def _eager(loaded: LoadedModel) -> Contender:
    @torch.inference_mode()
    def forward(ids: Tensor) -> Tensor:
        before = loaded.model.config._attn_implementation or "sdpa"
        loaded.model.set_attn_implementation("eager")
        try:
            result = loaded.model.base_model(input_ids=ids, use_cache=False, output_attentions=True)
        finally:
            loaded.model.set_attn_implementation(before)
        return torch.cat([_minima(pattern) for pattern in result.attentions])

    return forward


def _transformerlens(loaded: LoadedModel) -> Contender:
    from transformer_lens.model_bridge import TransformerBridge

    hub_name = "HuggingFaceTB/SmolLM2-135M-Instruct" if loaded.name == "builtin" else loaded.name
    bridge = TransformerBridge.boot_transformers(  # with `hf_model`, it asks no hub
        hub_name,
        hf_model=copy.deepcopy(loaded.model),
        tokenizer=loaded.tokenizer,
        device=str(loaded.device),
    )

    @torch.inference_mode()
    def forward(ids: Tensor) -> Tensor:
        _, cache = bridge.run_with_cache(ids, names_filter=lambda name: name.endswith("hook_pattern"))
        return torch.cat([_minima(pattern) for pattern in cache.values()])

    return forward


def _minima(pattern: Float[Tensor, "1 head query key"]) -> Float[Tensor, "1 head"]:
    return minimum(normalised_entropy(row_entropy(pattern), causal_visible(pattern.shape[-1], pattern.device)))
