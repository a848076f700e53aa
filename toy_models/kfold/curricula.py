"""In which order are the hops taught? The two algorithms of wang2025 for its theory model.

Stagewise (Algorithm 1): stage l has data of the 2^(l-1)-hop alone; one gradient update of W_KQ, then one of
the readout. Mixture (Algorithm 2, appendix D): L updates of W_KQ with the sum of all hops' losses, then one of the
readouts. Updates are plain gradient descent with one large learning rate.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from probes.attention.dependence import dependency_mass
from toy_models.kfold.task import KFold
from toy_models.kfold.theory_model import KFoldTheory
from toy_models.task import Batch

FLOATS_PER_CHUNK = 1 << 22
"""Floats of the residual stream that one forward may hold: 16 MB, about what a processor's cache takes."""
Moves = Literal["own", "all"]


@dataclass(frozen=True)
class Examples:
    """M sequences with the results of every hop, and which query of each is labelled."""

    values: Int[Tensor, "batch k n"]
    results: Int[Tensor, "batch hop pos"]
    query: Int[Tensor, "batch"] | None
    """The one labelled position of each sequence; None: all of them are."""

    def __len__(self) -> int:
        return len(self.values)

    def to(self, device: torch.device) -> "Examples":
        """The same sequences on another device."""
        query = None if self.query is None else self.query.to(device)
        return Examples(self.values.to(device), self.results.to(device), query)

    def chunk(self, start: int, size: int) -> "Examples":
        rows = slice(start, start + size)
        return Examples(self.values[rows], self.results[rows], None if self.query is None else self.query[rows])


@dataclass(frozen=True)
class Snapshot:
    """What the model can do after a gradient update, on sequences it was not trained on."""

    update: int
    """How many gradient updates were made."""
    trained: str
    """What the last one moved: nothing, W_KQ or readout."""
    loss: tuple[float, ...]
    """Cross-entropy by hop, nats per query."""
    error: tuple[float, ...]
    """Share of wrong predictions by hop."""
    mass: tuple[float, ...]
    """By layer: mean attention on the one position where the construction looks."""


def examples(task: KFold, n_sequences: int, generator: torch.Generator, one_query: bool = False) -> Examples:
    """Fresh sequences; with `one_query`, one uniform position (i, j) of each is labelled, as the paper has it."""
    batch = task.sample(n_sequences, generator)
    query = torch.randint(0, task.k * task.n, (n_sequences,), generator=generator) if one_query else None
    values = rearrange(batch.inputs, "batch (k n) -> batch k n", k=task.k)
    return Examples(values, task.results(batch.inputs), query)


def stagewise(
    model: KFoldTheory,
    task: KFold,
    n_sequences: int,
    rate: float,
    generator: torch.Generator,
    test: Examples,
    one_query: bool = False,
    moves: Moves = "own",
    stop_above: float = 1.0,
) -> Iterator[Snapshot]:
    """Algorithm 1, with `n_sequences` fresh sequences in each stage (the paper's M).

    `moves`: the paper's experiments move only W_KQ of layer l in stage l, its pseudocode those of all layers. A
    stage that leaves its hop with a larger error than `stop_above` is the last: the next hop is built from this one.
    """
    yield snapshot(model, task, test, 0, "nothing")
    for stage in range(model.n_layers):
        data = examples(task, n_sequences, generator, one_query).to(test.values.device)
        layers = [stage] if moves == "own" else range(model.n_layers)
        descend(model, [model.blocks[layer].attn.W_KQ for layer in layers], data, [stage], rate)
        yield snapshot(model, task, test, 2 * stage + 1, "W_KQ")
        descend(model, [model.readout], data, [stage], rate)
        yield (found := snapshot(model, task, test, 2 * stage + 2, "readout"))
        if found.error[stage] > stop_above:
            break


def mixture(
    model: KFoldTheory,
    task: KFold,
    n_sequences: int,
    rate: float,
    generator: torch.Generator,
    test: Examples,
    one_query: bool = False,
) -> Iterator[Snapshot]:
    """Algorithm 2: the same sequences in every update, all hops of each of them."""
    data = examples(task, n_sequences, generator, one_query).to(test.values.device)
    hops = range(model.n_layers)
    yield snapshot(model, task, test, 0, "nothing")
    for update in range(model.n_layers):
        descend(model, [block.attn.W_KQ for block in model.blocks], data, hops, rate)
        yield snapshot(model, task, test, update + 1, "W_KQ")
    descend(model, [model.readout], data, hops, rate)
    yield snapshot(model, task, test, model.n_layers + 1, "readout")


def descend(
    model: KFoldTheory, parameters: Sequence[nn.Parameter], data: Examples, hops: Sequence[int], rate: float
) -> None:
    """One gradient update of `parameters` with the sum of the losses of `hops` (equation 3), chunk by chunk."""
    moved = {id(parameter) for parameter in parameters}
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in moved)
        parameter.grad = None
    for chunk in _chunks(model, data):
        losses = query_losses(model, chunk, hops)
        (losses.mean(-1).sum() / len(data)).backward()
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter -= rate * parameter.grad
                parameter.grad = None


def query_losses(model: KFoldTheory, data: Examples, hops: Sequence[int]) -> Float[Tensor, "batch hop query"]:
    """Cross-entropy of the hops with these indices at every labelled query (equation 2)."""
    if len(hops) == 1:
        logits = model(data.values, hops[0], data.query)[:, None]
    else:
        logits = model(data.values, query=data.query)[:, list(hops)]
    targets = data.results[:, list(hops)]
    if data.query is not None:
        targets = targets[torch.arange(len(data), device=targets.device), :, data.query][..., None]
    return F.cross_entropy(rearrange(logits, "b h q out -> b out h q"), targets, reduction="none")


@torch.no_grad()
def snapshot(model: KFoldTheory, task: KFold, test: Examples, update: int, trained: str) -> Snapshot:
    """Loss and error of every hop, and every layer's attention on where the construction looks."""
    losses, errors, masses = [], [], []
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(model.n_layers)]
    for chunk in _chunks(model, test):
        logits, cache = model.run_with_cache(chunk.values, names_filter=names)
        flat = rearrange(logits, "batch hop pos out -> batch out hop pos")
        losses.append(F.cross_entropy(flat, chunk.results, reduction="none").double().mean(-1))  # [batch hop]
        errors.append((logits.argmax(-1) != chunk.results).double().mean(-1))
        batch = Batch(chunk.values.flatten(1), chunk.results[:, -1])
        by_layer = [
            dependency_mass(cache[name], task.layer_dependencies(batch, layer)).double().mean((-1, -2))
            for layer, name in enumerate(names)
        ]
        masses.append(torch.stack(by_layer, dim=-1))
    means = [tuple(torch.cat(parts).mean(0).tolist()) for parts in (losses, errors, masses)]
    return Snapshot(update, trained, *means)


def _chunks(model: KFoldTheory, data: Examples) -> list[Examples]:
    size = max(1, FLOATS_PER_CHUNK // (model.kn**2 * (model.n_layers + 2)))
    return [data.chunk(start, size) for start in range(0, len(data), size)]
