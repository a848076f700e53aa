"""What is kept of a trained toy model? Its run as rows of the one table."""

from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge

from probes import rows
from probes.dependence import dependency_mass, sink_mass, top1_hit, without_self
from toy_models.evaluation import attention_patterns
from toy_models.task import Batch, Task
from toy_models.training import Evaluation, TrainResult


def training_rows(history: tuple[Evaluation, ...], run: str, condition: str, unit: str, setting: str) -> pd.DataFrame:
    """Accuracy, losses and each head's normalised attention entropy at every evaluation."""
    common = {"run": run, "condition": condition, "unit": unit, "setting": setting, "scope": "validation"}
    tables = []
    for metric in ("accuracy", "token_accuracy", "loss", "train_loss"):
        values = [getattr(evaluation, metric) for evaluation in history]
        tables.append(rows.table(metric=metric, value=values, step=[e.samples for e in history], **common))
    for layer, heads in enumerate(history[0].entropies):
        for head in range(len(heads)):
            values = [evaluation.entropies[layer][head] for evaluation in history]
            steps = [evaluation.samples for evaluation in history]
            place = {"layer": layer, "head": head}
            tables.append(rows.table(metric="entropy_min", value=values, step=steps, **place, **common))
    return rows.concat(tables)


def outcome_rows(result: TrainResult, run: str, condition: str, unit: str, setting: str) -> pd.DataFrame:
    """Whether the run solved the task, after how many samples, and how it does on the test inputs.

    `sample_complexity` is there for a solved run; `censored_at` for one whose budget ran out first.
    """
    solved = result.sample_complexity is not None
    metrics = {
        "sample_complexity" if solved else "censored_at": result.sample_complexity or result.samples,
        "test_accuracy": result.test_accuracy,
        "rollout_accuracy": result.rollout_accuracy,
    }
    return rows.table(
        run=run,
        condition=condition,
        unit=unit,
        setting=setting,
        scope="test",
        step=result.samples,
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
    patterns = attention_patterns(result.model, result.test.inputs)
    mask = without_self(task.dependencies(result.test))
    supervised = result.test.supervised
    common = {"run": run, "condition": condition, "unit": unit, "scope": "test", "step": result.samples}
    tables = []
    for layer, pattern in enumerate(patterns):
        found = {
            "dependency_mass": dependency_mass(pattern, mask),
            "top1_hit": top1_hit(pattern, mask).float(),
            "sink_mass": sink_mass(pattern),
        }
        for metric, values in found.items():
            by_step = values[:, :, supervised].mean(0)  # [head supervised]
            for head, of_head in enumerate(by_step.tolist()):
                settings = [f"{setting} query={query}".strip() for query in supervised.tolist()]
                place = {"layer": layer, "head": head, "setting": settings}
                tables.append(rows.table(metric=metric, value=of_head, **place, **common))
    return rows.concat(tables)


@torch.no_grad()
def attention_rows(
    model: TransformerBridge,
    task: Task,
    batch: Batch,
    step: int,
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
    common = {"run": run, "condition": condition, "unit": unit, "step": step}
    tables = []
    for layer, pattern in enumerate(patterns):
        shown = {"test": pattern.mean(0), **{f"input {i}": pattern[i] for i in range(n_inputs)}}
        for scope, heads in shown.items():
            for head, attention in enumerate(heads[:, supervised]):
                place = {"layer": layer, "head": head, "scope": scope}
                tables.append(_map_rows("attention", attention, supervised, setting, **place, **common))
    mask = task.dependencies(batch).float()[0, supervised]
    tables.append(_map_rows("dependency", mask, supervised, setting, scope="test", **common))
    for i in range(n_inputs):
        settings = [f"{setting} key={key}".strip() for key in range(batch.inputs.shape[1])]
        tokens = [float(token) for token in batch.inputs[i].tolist()]
        tables.append(rows.table(metric="token", value=tokens, setting=settings, scope=f"input {i}", **common))
    return rows.concat(tables)


def _map_rows(
    metric: str, values: Float[Tensor, "query key"], queries: Tensor, setting: str, **common: Any
) -> pd.DataFrame:
    places = [rows.setting(query=q, key=key) for q in queries.tolist() for key in range(values.shape[1])]
    settings = [f"{setting} {place}".strip() for place in places]
    return rows.table(metric=metric, value=values.flatten().tolist(), setting=settings, **common)
