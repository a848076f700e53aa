"""How fast is a sweep over seeds? Samples per second of ten runs, against evaluations that share nothing.

A run evaluates after every fourth update, so evaluations are much of its time. The peer is our own engine as it was:
it computed the tables of the sparse step anew for every 256 validation inputs, and looked up the model anew for its
attention entropies, which in deeper models took a hooked forward of their own. Both train with the same bits. Each
seed is trained from one evaluation to the next by either; a ratio is the median over seeds.
"""

import time
from collections.abc import Callable, Iterator
from statistics import median

import torch
from torch import Tensor

from interp.bench.timing import ratio
from probes.attention.entropy import reduced, with_two_keys
from probes.attention.row import RowsOfPattern
from probes.attention.statistics import find_metric
from probes.hooked.points import pattern_name, visible_keys
from toy_models.engine.decoder import DecoderConfig
from toy_models.engine.evaluation import CHUNK, chunks
from toy_models.engine.sparse_step import SparseForward
from toy_models.engine.training import TrainConfig, Trainer
from toy_models.parity.task import Parity

SIZES = (DecoderConfig(1, 1, 128, 512), DecoderConfig(2, 4, 128, 512))


def run(
    n: int = 30,
    k: int = 3,
    seeds: int = 10,
    sizes: tuple[DecoderConfig, ...] = SIZES,
    config: Callable[[int], TrainConfig] = lambda seed: TrainConfig(seed=seed),
) -> Iterator[dict]:
    """One record for each size and condition: samples per second of both, and their ratio in both clocks."""
    for size in sizes:
        for cot in (True, False):
            runs = [Trainer(Parity(n=n, k=k, cot=cot), size, config(seed), device="cpu") for seed in range(seeds)]
            wall: dict[str, list[float]] = {"now": [], "before": []}
            processor: dict[str, list[float]] = {"now": [], "before": []}
            for trainer in runs:
                trainer.evaluate()
                trainer.train_until_evaluation()  # warm-up: allocates Adam's state
                for name, evaluate in (("before", apart), ("now", Trainer.evaluate)):
                    started, used = time.perf_counter(), time.process_time()
                    trainer.train_until_evaluation()
                    evaluate(trainer)
                    wall[name].append(time.perf_counter() - started)
                    processor[name].append(time.process_time() - used)
            samples = runs[0].config.eval_every
            yield {
                "bench": "sweep",
                "model": f"{size.n_layers}L{size.n_heads}H d_model={size.d_model}",
                "condition": "cot" if cot else "no_cot",
                "seeds": seeds,
                "samples_per_second": {name: round(samples / median(found), 1) for name, found in wall.items()},
                "ratio": round(ratio(wall["before"], wall["now"]), 2),
                "cpu_ratio": round(ratio(processor["before"], processor["now"]), 2),
            }


@torch.no_grad()
def apart(trainer: Trainer) -> tuple[Tensor, Tensor]:
    """Validation logits and attention entropies, each from a computation of its own."""
    validation, model = trainer.held_out.validation, trainer.model
    logits = torch.cat([trainer.eval_forward(part.inputs, part.supervised) for part in chunks(validation)])
    inputs = validation.inputs[: trainer.config.entropy_inputs]
    n_layers = len(trainer.history[0].entropies)
    if n_layers == 1:
        patterns = SparseForward(model).first_pattern(inputs)[None]  # pyright: ignore[reportArgumentType]
    else:
        names = [pattern_name(layer) for layer in range(n_layers)]
        caches = [model.run_with_cache(rows, names_filter=names)[1] for rows in inputs.split(CHUNK)]
        patterns = torch.cat([torch.stack([cache[name] for name in names]) for cache in caches], dim=1)
    visible = visible_keys(model, inputs.shape[1], True, inputs.device)
    metric = find_metric("min")
    values = with_two_keys(metric.statistic.of(RowsOfPattern(patterns, visible)), visible)
    return logits, reduced(metric.reduction, values).mean(1)
