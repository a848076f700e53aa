"""How fast is one training step? The sparse step against its peers, one process, ratios of time per step.

Every contender trains a model of the same size on the same batch with the same fused Adam. Contenders take turns;
a ratio is the median over turns of the ratio within a turn, so that a slow spell of the machine hits both sides.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from interp.bench.peers import PlainDecoder, hf_gpt2, hf_logits
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.forward import HookedForward
from toy_models.engine.sparse_step import SparseForward
from toy_models.parity.task import Parity
from toy_models.task import Batch

Step = Callable[[], None]


@dataclass(frozen=True)
class Size:
    """A model size, the turns its contenders take, and the bar its speed-up must reach over every peer."""

    decoder: DecoderConfig
    turns: int
    bar_cot: int | float
    bar_no_cot: int | float

    @property
    def name(self) -> str:
        c = self.decoder
        return f"{c.n_layers}L{c.n_heads}H d_model={c.d_model}"


SIZES = (
    Size(DecoderConfig(1, 1, 128, 512), turns=5, bar_cot=12, bar_no_cot=20),
    Size(DecoderConfig(1, 1, 720, 3072), turns=2, bar_cot=20, bar_no_cot=40),
    Size(DecoderConfig(4, 4, 128, 512), turns=3, bar_cot=1.1, bar_no_cot=1.1),
)


def run(batch_size: int = 512, n: int = 30, k: int = 3, sizes: tuple[Size, ...] = SIZES) -> Iterator[dict]:
    """One record for each size and condition: ms per step, ratios over the peers, GFLOP/s."""
    peak = matmul_gflops()
    for size in sizes:
        for cot in (True, False):
            task = Parity(n=n, k=k, cot=cot)
            batch = task.sample(batch_size, torch.Generator().manual_seed(0))
            turns = step_seconds(size, task, batch)
            times = {name: 1e3 * median(of_contender) for name, of_contender in turns.items()}
            ratios = {name: _ratio(turns[name], turns["sparse"]) for name in turns if name != "sparse"}
            flops = sparse_flops(size.decoder, task, batch)
            bar = size.bar_cot if cot else size.bar_no_cot
            yield {
                "bench": "train",
                "model": size.name,
                "condition": "cot" if cot else "no_cot",
                "ms": {name: round(t, 2) for name, t in times.items()},
                "ratio": {name: round(r, 2) for name, r in ratios.items()},
                "bar": bar,
                "reached": min(ratios.values()) >= bar,
                "gflops": round(flops / times["sparse"] / 1e6, 1),
                "peak_gflops": round(peak, 1),
            }


def scaling(batch_size: int = 512, n: int = 30, k: int = 3, d_model: int = 128) -> Iterator[dict]:
    """How the sparse step's time grows as n, k, d_model and the batch double, one at a time."""
    base = {"n": n, "k": k, "d_model": d_model, "batch": batch_size}
    settings = [("-", base), *((name, {**base, name: 2 * value}) for name, value in base.items())]
    reference = 0.0
    for doubled, p in settings:
        task = Parity(n=p["n"], k=p["k"], cot=True)
        batch = task.sample(p["batch"], torch.Generator().manual_seed(0))
        size = Size(DecoderConfig(1, 1, p["d_model"], 4 * p["d_model"]), turns=9, bar_cot=0, bar_no_cot=0)
        seconds = median(_turns({"sparse": _sparse_step(size.decoder, task, batch)}, size.turns)["sparse"])
        reference = reference or seconds
        growth = {"ms": round(1e3 * seconds, 2), "times_base": round(seconds / reference, 2)}
        yield {"bench": "train scaling", "doubled": doubled, **p, **growth}


def step_seconds(size: Size, task: Parity, batch: Batch) -> dict[str, list[float]]:
    """Seconds per training step of each contender, turn by turn."""
    config, d_vocab, n_ctx = size.decoder, task.d_vocab, task.n_ctx
    plain, gpt2 = PlainDecoder(config, d_vocab, n_ctx), hf_gpt2(config, d_vocab, n_ctx)
    bridge = hooked_decoder(config, d_vocab, n_ctx, seed=0)
    hooked, positions = HookedForward(bridge), batch.supervised
    contenders = {
        "sparse": _sparse_step(config, task, batch),
        "plain PyTorch + SDPA": _step(plain, lambda: plain(batch.inputs)[:, positions], batch),
        "TransformerLens native": _step(bridge, lambda: hooked(batch.inputs, positions), batch),
        "HF GPT-2": _step(gpt2, lambda: hf_logits(gpt2, batch.inputs)[:, positions], batch),
    }
    return _turns(contenders, size.turns)


def sparse_flops(config: DecoderConfig, task: Parity, batch: Batch) -> int:
    """Floating-point operations of one sparse step's matrix products, forward and backward."""
    step = _sparse_step(config, task, batch)
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def matmul_gflops(size: int = 1024, turns: int = 7) -> float:
    """The machine's own float32 matrix-product rate with the threads in use: the best of a few."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = min(_timed(lambda: a @ b) for _ in range(turns))
    return 2 * size**3 / best / 1e9


def _sparse_step(config: DecoderConfig, task: Parity, batch: Batch) -> Step:
    model = hooked_decoder(config, task.d_vocab, task.n_ctx, seed=0)
    forward = SparseForward(model)
    return _step(model, lambda: forward(batch.inputs, batch.supervised), batch)


def _step(model: nn.Module, logits: Callable[[], torch.Tensor], batch: Batch) -> Step:
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    answers = batch.answers.flatten()

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(logits().flatten(0, 1), answers).backward()
        optimiser.step()

    return step


def _turns(contenders: dict[str, Step], turns: int) -> dict[str, list[float]]:
    for step in contenders.values():
        step()  # warm-up: allocates Adam's state
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(turns):
        for name, step in contenders.items():
            times[name].append(_timed(step))
    return times


def _ratio(first: list[float], second: list[float]) -> float:
    return median(a / b for a, b in zip(first, second))


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
