"""How fast is activation patching? Heads batched into one forward, against TransformerLens' loop over heads.

Both patch every head's output of a clean run into a corrupted one and read the margin of every input: the same
numbers, compared at the start. Contenders take turns in one process; a ratio is the median over turns of the ratio
within a turn. The loop runs the whole model once for each head. Batched, heads of one layer share the layers below
and the price of a call: much where the batch is small, little where arithmetic is all that counts.
"""

import contextlib
import io
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter

import torch
import transformer_lens.patching as lens

from probes.hooked.causal import answer_margin, patch_heads
from toy_models.engine.corruption import corrupted_pairs
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.parity.task import Parity

DECODER = DecoderConfig(n_layers=4, n_heads=4, d_model=128, d_mlp=512)
BATCHES = (8, 32, 128)
AGREE = 1e-3
"""Logits by which the contenders may differ: rounding, summed in another order."""


def run(
    batches: tuple[int, ...] = BATCHES, decoder: DecoderConfig = DECODER, turns: int = 3, n: int = 30, k: int = 3
) -> Iterator[dict]:
    """One record for each number of inputs: ms of both contenders and how much longer the loop takes."""
    task = Parity(n=n, k=k)
    model = hooked_decoder(decoder, task.d_vocab, task.n_ctx, seed=0)
    for size in batches:
        batched, looped = contenders(task, model, size)
        difference = (batched() - looped()).abs().max().item()
        if difference > AGREE:
            raise ValueError(f"the contenders differ by {difference:g} logits; expected at most {AGREE:g}")
        times = [(_seconds(batched), _seconds(looped)) for _ in range(turns)]
        yield {
            "bench": "patching",
            "model": f"{decoder.n_layers}L{decoder.n_heads}H d_model={decoder.d_model}",
            "inputs": size,
            "heads": decoder.n_layers * decoder.n_heads,
            "ms": {
                "batched": round(1e3 * median(ours for ours, _ in times), 1),
                "TransformerLens loop": round(1e3 * median(theirs for _, theirs in times), 1),
            },
            "ratio": round(median(theirs / ours for ours, theirs in times), 2),
            "difference": difference,
        }


def contenders(task: Parity, model, size: int) -> tuple[Callable[[], torch.Tensor], Callable[[], torch.Tensor]]:
    """Two ways to the margins [head input] of the last step: heads in one forward, and one forward for each head."""
    generator = torch.Generator().manual_seed(0)
    batch = task.sample(size, generator)
    last = int(batch.supervised[-1])
    corrupted = corrupted_pairs(task, batch, last, generator).corrupted.inputs

    def margin(logits: torch.Tensor) -> torch.Tensor:
        return answer_margin(logits[:, last : last + 1], batch.answers[:, -1:])

    def batched() -> torch.Tensor:
        return patch_heads(model, corrupted, batch.inputs, margin)[..., 0]

    def looped() -> torch.Tensor:
        with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):  # its progress bar
            _, cache = model.run_with_cache(batch.inputs, names_filter=lambda name: name.endswith("hook_z"))
            found = lens.get_act_patch_attn_head_out_all_pos(
                model, corrupted, cache, lambda logits: margin(logits)[:, 0], reduce="none"
            )
        return found.values.flatten(0, 1)

    return batched, looped


def _seconds(action: Callable[[], object]) -> float:
    started = perf_counter()
    action()
    return perf_counter() - started
