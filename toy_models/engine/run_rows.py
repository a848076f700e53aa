"""What is kept of a trained toy model? Its run as rows of the one table."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from probes import rows
from probes.attention.dependence import dependency_mass, sink_mass, top1_hit, without_self
from probes.attention.entropy import normalised_entropy, row_entropy
from probes.hooked.points import Hooked, visible_keys
from toy_models.engine.evaluation import attention_patterns, chunks
from toy_models.engine.training import Evaluation, TrainResult
from toy_models.task import Batch, Task, is_causal

DEPENDENCE: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "dependency_mass": lambda pattern, mask, _: dependency_mass(pattern, mask),
    "top1_hit": lambda pattern, mask, _: top1_hit(pattern, mask),
    "sink_mass": lambda pattern, *_: sink_mass(pattern),
    "row_entropy": lambda pattern, _, visible: normalised_entropy(row_entropy(pattern), visible),
}
"""What is measured of a pattern, given a mask and the number of keys each query sees: [batch head query]."""


def training_rows(history: tuple[Evaluation, ...], run: str, condition: str, unit: str, setting: str) -> pd.DataFrame:
    """Accuracy, losses and each head's normalised attention entropy at every evaluation."""
    common = {"run": run, "condition": condition, "unit": unit, "setting": setting, "scope": "validation"}
    seen = [evaluation.samples for evaluation in history]
    tables = []
    for metric in ("accuracy", "token_accuracy", "loss", "train_loss"):
        values = [getattr(evaluation, metric) for evaluation in history]
        tables.append(rows.table(metric=metric, value=values, samples=seen, **common))
    for layer, heads in enumerate(history[0].entropies):
        for head in range(len(heads)):
            values = [evaluation.entropies[layer][head] for evaluation in history]
            place = {"layer": layer, "head": head}
            tables.append(rows.table(metric="entropy_min", value=values, samples=seen, **place, **common))
    return rows.concat(tables)


def outcome_rows(result: TrainResult, run: str, condition: str, unit: str, setting: str) -> pd.DataFrame:
    """Whether the run solved the task, after how many samples, and how it does on the test inputs.

    `sample_complexity` is there for a solved run; `censored_at` for one whose budget ran out first.
    """
    solved = result.sample_complexity is not None
    metrics = {
        "sample_complexity" if solved else "censored_at": result.sample_complexity or result.samples,
        "test_accuracy": result.test_accuracy,
    }
    if result.rollout_accuracy is not None:
        metrics["rollout_accuracy"] = result.rollout_accuracy
    return rows.table(
        run=run,
        condition=condition,
        unit=unit,
        setting=setting,
        scope="test",
        samples=result.samples,
        metric=list(metrics),
        value=list(metrics.values()),
    )


@torch.no_grad()
def dependence_rows(
    result: TrainResult, task: Task, run: str, condition: str, unit: str, setting: str
) -> pd.DataFrame:
    """Attention against the dependency mask on the test inputs, by layer, head and supervised position.

    The query's own position is left out of the mask: the residual stream carries it without attention.
    """
    supervised = result.test.supervised
    names = {"run": run, "condition": condition, "unit": unit, "setting": setting}
    where = {"scope": "test", "samples": result.samples, "query": supervised.tolist()}
    sums = torch.stack([_dependence_sums(result.model, task, part) for part in chunks(result.test)])
    means = sums.sum(0) / len(result.test)  # [metric layer head supervised]
    tables = []
    for metric, by_layer in zip(DEPENDENCE, means):
        for layer, by_head in enumerate(by_layer.tolist()):
            for head, of_head in enumerate(by_head):
                place = {"layer": layer, "head": head}
                tables.append(rows.table(metric=metric, value=of_head, **place, **where, **names))
    return rows.concat(tables)


def _dependence_sums(model: Hooked, task: Task, batch: Batch) -> Float[Tensor, "metric layer head supervised"]:
    """The measures of DEPENDENCE at the supervised positions, summed over the batch."""
    mask = without_self(task.dependencies(batch))
    visible = visible_keys(model, mask.shape[-1], is_causal(task), mask.device)
    by_layer = [
        torch.stack(
            [
                measure(pattern, mask, visible)[:, :, batch.supervised].double().sum(0)
                for measure in DEPENDENCE.values()
            ]
        )
        for pattern in attention_patterns(model, batch.inputs)
    ]
    return torch.stack(by_layer, dim=1)


@torch.no_grad()
def attention_rows(
    model: Hooked,
    task: Task,
    batch: Batch,
    samples: int,
    run: str,
    condition: str,
    unit: str,
    setting: str,
    n_inputs: int = 0,
) -> pd.DataFrame:
    """Attention maps of every head at the supervised positions, with the dependency mask beside them.

    Scope `test`: the mean over `batch`. Scopes `input 0`, `input 1`, ...: the first `n_inputs` sequences, whose
    tokens are rows of metric `token`.
    """
    n_inputs = min(n_inputs, len(batch))
    patterns = attention_patterns(model, batch.inputs)
    supervised = batch.supervised
    common = {"run": run, "condition": condition, "unit": unit, "setting": setting, "samples": samples}
    tables = []
    for layer, pattern in enumerate(patterns):
        shown = {"test": pattern.mean(0), **{f"input {i}": pattern[i] for i in range(n_inputs)}}
        for scope, heads in shown.items():
            for head, attention in enumerate(heads[:, supervised]):
                place = {"layer": layer, "head": head, "scope": scope}
                tables.append(_map_rows("attention", attention, supervised, **place, **common))
    mask = task.dependencies(batch).float()[0, supervised]
    tables.append(_map_rows("dependency", mask, supervised, scope="test", **common))
    keys = list(range(batch.inputs.shape[1]))
    for i in range(n_inputs):
        tokens = [float(token) for token in batch.inputs[i].tolist()]
        tables.append(rows.table(metric="token", value=tokens, key=keys, scope=f"input {i}", **common))
    return rows.concat(tables)


def _map_rows(metric: str, values: Float[Tensor, "query key"], queries: Tensor, **common: Any) -> pd.DataFrame:
    places = torch.cartesian_prod(queries.cpu(), torch.arange(values.shape[1]))  # [query*key 2]
    query, key = places.T.tolist()
    return rows.table(metric=metric, value=values.flatten().tolist(), query=query, key=key, **common)
