"""How fast is a step of LEGO? The loss from tables against the answers' rows alone and against plain PyTorch.

Contenders have the same decoder, the same batch and the same fused Adam. "plain PyTorch" runs the decoder's own
forward at every clause and takes the answers' logits afterwards; "answers' rows" is what training does by default.
They take turns in one process; a ratio is the median over turns of the ratio of processor time within a turn, which
other work on the machine disturbs less than the time on the clock. Their losses are compared at the start.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

import torch
from torch import Tensor

from interp.bench.timing import ratio, with_threads
from toy_models.lego.clause_decoder import STANDARD, THEORY, ClauseDecoder, ClauseDecoderConfig, clause_decoder
from toy_models.lego.fast_loss import FastLoss
from toy_models.lego.task import Lego
from toy_models.lego.training import next_clause_loss

DECODERS = {
    "theory-like, d_token=32": THEORY,
    "standard, d_token=32": STANDARD,
    "theory-like, d_token=128": replace(THEORY, d_token=128),
    "standard, d_token=128": replace(STANDARD, d_token=128),
}
AGREE = 1e-3
"""Nats by which the losses may differ: rounding, summed in another order."""


def run(
    decoders: dict[str, ClauseDecoderConfig] = DECODERS,
    groups: tuple[str, ...] = ("C6", "S5"),
    batch_size: int = 64,
    turns: int = 9,
    threads: int = 1,
    n_variables: int = 170,
) -> Iterator[dict]:
    """One record for each decoder and group: ms of processor time per step, and how much longer the peers take."""
    for name, decoder in decoders.items():
        for group in groups:
            with with_threads(threads):
                times = step_seconds(decoder, Lego(group, 5, n_variables), batch_size, turns)
            yield {
                "bench": "lego",
                "model": name,
                "group": group,
                "ms": {one: round(1e3 * median(of_one), 2) for one, of_one in times.items()},
                "ratio": {one: round(ratio(times[one], times["tables"]), 2) for one in times if one != "tables"},
            }


def step_seconds(decoder: ClauseDecoderConfig, task: Lego, batch_size: int, turns: int) -> dict[str, list[float]]:
    """Seconds of processor time per training step of each contender, turn by turn."""
    sentences = task.sample(batch_size, torch.Generator().manual_seed(0)).inputs
    queries = task.answer_positions()
    models = [clause_decoder(decoder, task, seed=0) for _ in range(3)]
    fast = FastLoss(models[0])
    losses = {
        "tables": lambda: fast(sentences, queries),
        "answers' rows": lambda: next_clause_loss(models[1], sentences, queries),
        "plain PyTorch": lambda: models[2].loss(models[2](sentences[:, :-1])[:, queries], sentences[:, queries + 1]),
    }
    found = [loss().item() for loss in losses.values()]
    if max(found) - min(found) > AGREE:
        raise ValueError(f"the contenders' losses differ: {found}; expected at most {AGREE:g} nats")
    steps = {name: _step(model, loss) for model, (name, loss) in zip(models, losses.items())}
    for step in steps.values():
        step()  # allocates Adam's state
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(turns):
        for name, step in steps.items():
            started = time.process_time()
            step()
            times[name].append(time.process_time() - started)
    return times


def _step(model: ClauseDecoder, loss: Callable[[], Tensor]) -> Callable[[], None]:
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss().backward()
        optimiser.step()

    return step
