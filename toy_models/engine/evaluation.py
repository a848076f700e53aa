"""How good is a toy model, and where does it look? Accuracy, free-running rollout, attention of every head."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from probes.attention.entropy import reduced, with_two_keys
from probes.attention.row import RowsOfPattern
from probes.attention.statistics import find_metric
from probes.hooked.points import Hooked, pattern_name, visible_keys
from toy_models.engine.forward import Forward
from toy_models.engine.sparse_step import SparseForward, why_not_sparse
from toy_models.task import Batch

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

CHUNK = 256
"""Inputs per hooked forward: a pattern of 256 x 8 heads x 100 x 100 floats is 80 MB."""


@torch.no_grad()
def teacher_forced_logits(forward: Forward, batch: Batch) -> Float[Tensor, "batch supervised vocab"]:
    """Logits at the supervised positions, every earlier token being the true one."""
    if isinstance(forward, SparseForward) and forward.n_layers == 1:
        return forward(batch.inputs, batch.supervised)  # in parts of its own, which share its tables
    return torch.cat([forward(part.inputs, part.supervised) for part in chunks(batch)])


@torch.no_grad()
def rollout(forward: Forward, batch: Batch) -> Int[Tensor, "batch supervised"]:
    """Greedy predictions, each one fed back as the next input.

    Every predicted token is the true one exactly if every teacher-forced prediction is (by induction over the
    steps), so the two exact matches agree; the last token alone can differ.
    """
    return torch.cat([_rollout(forward, part) for part in chunks(batch)])


def _rollout(forward: Forward, batch: Batch) -> Int[Tensor, "batch supervised"]:
    inputs, predictions = batch.inputs.clone(), []
    for position in batch.supervised:
        token = forward(inputs, position[None])[:, 0].argmax(-1)
        predictions.append(token)
        if position + 1 < inputs.shape[1]:
            inputs[:, position + 1] = token
    return torch.stack(predictions, dim=-1)


def exact_match(predictions: Int[Tensor, "batch supervised"], batch: Batch) -> float:
    """The share of sequences whose supervised tokens are all predicted."""
    return (predictions == batch.answers).all(-1).double().mean().item()


@torch.no_grad()
def attention_patterns(
    model: Hooked, inputs: Shaped[Tensor, "batch pos *features"], sparse: SparseForward | None = None
) -> Float[Tensor, "layer batch head query key"]:
    """`hook_pattern` of every layer: by the sparse step if that is given or nothing is hooked, which is the same."""
    if sparse is None and why_not_sparse(model, inputs.shape[1]) is None:
        sparse = SparseForward(cast("TransformerBridge", model))
    if sparse is not None:
        at_once = len(inputs) if sparse.n_layers == 1 else CHUNK
        return torch.cat([sparse.patterns(rows) for rows in inputs.split(at_once)], dim=1)
    names = [pattern_name(layer) for layer in range(len(cast(nn.ModuleList, model.blocks)))]
    parts = []
    for rows in inputs.split(CHUNK):
        _, cache = model.run_with_cache(rows, names_filter=names)
        parts.append(torch.stack([cache[name] for name in names]))
    return torch.cat(parts, dim=1)


def head_entropies(
    model: Hooked,
    inputs: Shaped[Tensor, "batch pos *features"],
    causal: bool = True,
    sparse: SparseForward | None = None,
) -> Float[Tensor, "layer head"]:
    """Normalised attention entropy of each head: the minimum over positions, averaged over inputs (eq. 1)."""
    return head_metrics(model, inputs, ["min"], causal, sparse)["min"]


def head_metrics(
    model: Hooked,
    inputs: Shaped[Tensor, "batch pos *features"],
    metrics: Sequence[str],
    causal: bool = True,
    sparse: SparseForward | None = None,
) -> dict[str, Float[Tensor, "layer head"]]:
    """Any metrics of `probes.attention.statistics` for each head: over the positions that see at least two keys,
    averaged over inputs. Without `causal`, every position sees all, unless the model says otherwise. `sparse` is the
    model's sparse step, if there is one already."""
    found = [find_metric(name) for name in metrics]
    patterns = attention_patterns(model, inputs, sparse)
    visible = visible_keys(model, inputs.shape[1], causal, inputs.device)
    rows = RowsOfPattern(patterns, visible)
    by_statistic = {metric.statistic.name: metric.statistic.of(rows) for metric in found}
    values = {name: with_two_keys(one, visible) for name, one in by_statistic.items()}
    return {metric.name: reduced(metric.reduction, values[metric.statistic.name]).mean(1) for metric in found}


def chunks(batch: Batch) -> list[Batch]:
    """`batch` in parts whose attention patterns fit into memory."""
    return [batch[start : start + CHUNK] for start in range(0, len(batch), CHUNK)]
